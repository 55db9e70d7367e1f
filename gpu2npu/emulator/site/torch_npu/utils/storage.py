"""torch_npu.utils.storage: tensors in checkpoints that torch_npu before 2.1 wrote."""

from __future__ import annotations

import warnings
from typing import Any

import torch

__all__: list[str] = []


def _rebuild_npu_tensor(
    storage: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    npu_storage_info: Any,
) -> torch.Tensor:
    """Make a tensor of its parts; the private format that the last one names is ND here.

    The order of the arguments is that in the pickles.
    """
    warnings.warn("The file stores weights as torch_npu before 2.1 did: store them again.", stacklevel=2)
    return torch._utils._rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks)  # type: ignore[no-untyped-call,no-any-return]
