"""torch.npu.utils: overflow, versions, and questions about the machine."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

from gpu2npu.emulator.device import lifecycle
from gpu2npu.emulator.device.chip import is_bf16_supported
from gpu2npu.emulator.device.dispatch.limits import refuse
from gpu2npu.emulator.device.visible_devices import DeviceContext
from gpu2npu.emulator.device.visible_npus import DeviceLike, index_of
from gpu2npu.emulator.soc import current_soc
from gpu2npu.support.conditions import CallFacts

from .._absent import of_npu

__all__ = [
    "check_uce_in_memory",
    "clear_npu_overflow_flag",
    "get_cann_version",
    "get_npu_overflow_flag",
    "get_soc_version",
    "get_task_queue_enable",
    "is_bf16_supported",
    "is_support_inf_nan",
    "npu_check_overflow",
    "set_task_queue_enable",
    "stress_detect",
]

_queue_mode = 1


def is_support_inf_nan() -> bool:
    """Return whether overflow shows as inf in the results: on Ascend910B1 and later."""
    return current_soc().a2_or_later


def get_npu_overflow_flag() -> bool:
    """Return whether something overflowed.

    Only chips before Ascend910B1 have such a flag, and the emulated one never sets it. Raises LimitError on others.
    """
    refuse("torch_npu.npu.utils.get_npu_overflow_flag", CallFacts())
    return bool(torch.ops.npu.npu_get_float_status(torch.zeros(8, device="npu")).cpu()[0] != 0)


def clear_npu_overflow_flag() -> None:
    """Clear the overflow flag of a chip that has one; others warn."""
    if is_support_inf_nan():
        warnings.warn(
            "When soc_version >= Ascend910B1, clear_npu_overflow_flag is useless. Please remove it.", stacklevel=2
        )


def npu_check_overflow(grad: torch.Tensor | float) -> bool:
    """Return whether a gradient, or the sum of one, is inf or NaN.

    Raises:
        RuntimeError: `grad` is neither a tensor nor a float.
    """
    if isinstance(grad, float):
        total = grad
    elif isinstance(grad, torch.Tensor):
        total = float(grad.float().sum())
    else:
        raise RuntimeError("Unsupported type.")
    if not is_support_inf_nan():
        return get_npu_overflow_flag()
    return total in (float("inf"), -float("inf")) or total != total


def get_cann_version(module: str = "CANN") -> str:
    """ "", as where CANN is not installed."""
    return ""


def _is_gte_cann_version(version: str, module: str = "CANN") -> bool:
    """False, as where CANN is not installed."""
    return False


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device, of a context manager for one, or -1 of the CPU; the current one where that is `optional`.

    Raises:
        ValueError: The device has no number, or is of another type.
    """
    if isinstance(device, int):
        return device
    named = torch.device(device) if isinstance(device, str) else device
    if isinstance(named, DeviceContext):
        return named.idx
    if allow_cpu and isinstance(named, torch.device) and named.type == "cpu":
        return -1
    if not optional and (named is None or (isinstance(named, torch.device) and named.index is None)):
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return index_of(named)


def get_soc_version() -> int:
    """The chip's number in torch_npu's list (`c10_npu::SocVersion`)."""
    lifecycle.init()
    return current_soc().number


def set_task_queue_enable(mode: int | str) -> None:
    """Remember the mode; operators are never queued here.

    Raises:
        ValueError: It is not 0, 1 or 2.
    """
    global _queue_mode
    if int(mode) not in (0, 1, 2):
        raise ValueError(f"mode must be 0, 1 or 2, but got {mode}")
    _queue_mode = int(mode)


def get_task_queue_enable() -> int:
    """The mode set last, 1 at first."""
    return _queue_mode


def stress_detect(detect_type: str = "aic") -> int:
    """0, no fault: there is no hardware to stress."""
    if detect_type not in ("aic", "hccs"):
        warnings.warn("Detect_type should be `aic` or `hccs`.", stacklevel=2)
        return 1
    return 0


def check_uce_in_memory(device_id: DeviceLike) -> int:
    """0: memory has no uncorrectable errors here."""
    index_of(device_id)
    return 0


__getattr__ = functools.partial(of_npu, __name__)
