"""Operators of an Ascend chip's cube unit, which multiplies float16, bfloat16 and float32 and nothing wider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

# The name of the CANN operator that the error of a real NPU names.
_CUBE = {
    "mm": "Mm",
    "bmm": "BatchMatMul",
    "addmm": "Addmm",
    "addmm_": "Addmm",
    "baddbmm": "Baddbmm",
    "addbmm": "Addbmm",
    "addmv": "Addmv",
    "mv": "Mv",
    "dot": "Dot",
    "vdot": "Dot",
    "matmul": "Matmul",
    "linear": "Matmul",
    "convolution": "Convolution",
    "convolution_overrideable": "Convolution",
    "_convolution": "Convolution",
    "convolution_backward": "ConvolutionBackward",
    "convolution_backward_overrideable": "ConvolutionBackward",
}
_TOO_WIDE = np.dtype(np.float64)


def cube_operator(name: str) -> str | None:
    """The CANN operator behind an aten operator of the cube unit, by its schema name; None for all others."""
    return _CUBE.get(name.removeprefix("aten::"))


def check_cube_dtypes(operator: str, values: Sequence[Any]) -> None:
    """Raise the error of the NPU when a cube operator is given float64.

    Raises:
        RuntimeError: In the words of CANN, which names the dtypes that would do.
    """
    for value in values:
        if isinstance(value, (np.ndarray, torch.Tensor)) and value.dtype in (_TOO_WIDE, torch.float64):
            raise RuntimeError(
                f"call aclnn{operator} failed, detail:EZ1001: Tensor not implemented for DT_DOUBLE, should be in dtype "
                f"support list [DT_FLOAT,DT_FLOAT16,DT_BFLOAT16,]. The cube unit of the NPU has no float64: convert "
                "the tensors to float32."
            )
