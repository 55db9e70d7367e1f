"""Settings on `torch.npu`: autocast's state, HF32, and switches of a real NPU that change nothing here."""

from __future__ import annotations

import os
from typing import Any

import torch

_OPTIONS = {  # of `set_option`, those that have certain values (`torch_npu/npu/npu_config.py`)
    "ACL_PRECISION_MODE": ("allow_fp32_to_fp16", "must_keep_origin_dtype"),
    "ACL_OP_SELECT_IMPL_MODE": ("high_performance", "high_precision"),
    "ACL_AICORE_NUM": tuple(map(str, range(1, 33))),
    "ACL_OP_DEBUG_LEVEL": ("0", "1", "2", "3", "4"),
    "ACL_OP_COMPILER_CACHE_MODE": ("disable", "enable", "force"),
}


def current_blas_handle() -> None:
    """None, as on Ascend."""


_SYNC_MODES = ("default", "warn", "error")
_sync_mode = 0


def get_sync_debug_mode() -> int:
    """The mode set last, 0 at first; nothing warns about synchronization, since nothing is asynchronous."""
    return _sync_mode


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Remember the mode; the emulated NPU never waits. Raises RuntimeError where there is no such mode."""
    global _sync_mode
    known: tuple[int | str, ...] = _SYNC_MODES if isinstance(debug_mode, str) else (0, 1, 2)
    if debug_mode not in known:
        names = ", ".join(f"`{each}`" for each in known) if isinstance(debug_mode, str) else "0,1,2"
        raise RuntimeError(f"invalid value of debug_mode, expected one of {names}")
    _sync_mode = known.index(debug_mode)


def is_current_stream_capturing() -> bool:
    """False: there are no graphs to capture."""
    return False


def set_compile_mode(jit_compile: bool = False) -> None:
    """Accepted; kernels are NumPy functions and never compiled."""


def set_option(option: dict[str, Any]) -> None:
    """Accepted where torch_npu takes it; there is nothing to tune.

    Raises:
        TypeError: It is not a dictionary.
        ValueError: An option has no such value.
    """
    if not isinstance(option, dict):
        raise TypeError("npu option must be a dict.")
    for name, value in option.items():
        allowed = _OPTIONS.get(name)
        if allowed is not None and str(value) not in allowed:
            raise ValueError(f"value of {name} should be in {list(allowed)} but got {value}")


def get_autocast_dtype() -> torch.dtype:
    """The dtype of `torch.autocast("npu")` unless it is given one."""
    return torch.get_autocast_dtype("npu")


def is_autocast_enabled() -> bool:
    """Return whether autocast is on for the NPU."""
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enabled: bool) -> None:
    """Switch autocast for the NPU."""
    torch.set_autocast_enabled("npu", enabled)


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Set the dtype of autocast for the NPU."""
    torch.set_autocast_dtype("npu", dtype)


class Switches:
    """Attributes that scripts set and that change nothing here."""

    def __init__(self, **values: bool) -> None:
        self.__dict__.update(values)


class CubePrecision:
    """The permission for the cube unit to multiply float32 as HF32: `torch.npu.matmul` or `torch.npu.conv`.

    Setting `allow_hf32` to what is not a bool raises torch_npu's TypeError.

    Setting `allow_hf32` to what is not a bool raises torch_npu's TypeError.
    """

    def __init__(self, allow_hf32: bool) -> None:
        self.allow_hf32 = allow_hf32

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "allow_hf32" and not isinstance(value, bool):
            raise TypeError(f"allow_hf32 must be a bool, but got {type(value).__name__}")
        super().__setattr__(name, value)


# torch_npu's defaults (its documents of `torch_npu.npu.matmul.allow_hf32` and `torch_npu.npu.conv.allow_hf32`).
# GPU2NPU_CONV_HF32=0 lets convolutions begin with full float32, to compare a run with one on the CPU.
matmul = CubePrecision(allow_hf32=False)
conv = CubePrecision(allow_hf32=os.environ.get("GPU2NPU_CONV_HF32", "1") != "0")
config = Switches(allow_internal_format=False)
