"""The NPUs that a process sees, the current one, and the number that a device argument means."""

from __future__ import annotations

import os

import torch

from gpu2npu.emulator.device.visible_devices import DeviceContext, DeviceLike, VisibleDevices

__all__ = ["DeviceLike", "check", "current_device", "device", "device_count", "device_of", "index_of", "set_device"]

_MOST = 128  # torch numbers devices with eight bits
_count: int | None = None


def device_count() -> int:
    """Count the visible NPUs: GPU2NPU_NPUS (8), limited by ASCEND_RT_VISIBLE_DEVICES until the first use of one."""
    return len(visible_npus()) if _count is None else _count


def settle() -> int:
    """Let the number of NPUs be what it is now, whatever the variables become."""
    global _count
    _count = device_count()
    return _count


def visible_npus() -> tuple[int, ...]:
    """The physical numbers of the visible NPUs; like CUDA's, the list ends at the first number that does not exist."""
    text = os.environ.get("GPU2NPU_NPUS", "8")
    if not text.isdecimal() or int(text) > _MOST:
        raise RuntimeError(f"GPU2NPU_NPUS is {text!r}: give the number of emulated NPUs, 0 to {_MOST}")
    installed = int(text)
    chosen = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if chosen is None:
        return tuple(range(installed))
    visible: list[int] = []
    for item in chosen.split(","):
        if not item.strip().isdecimal() or int(item) >= installed or int(item) in visible:
            break
        visible.append(int(item))
    return tuple(visible)


def _missing(index: int) -> str:
    return (
        f"Invalid NPU device ordinal: npu:{index} (visible NPUs: {device_count()}). Check GPU2NPU_NPUS and "
        "ASCEND_RT_VISIBLE_DEVICES"
    )


NPUS = VisibleDevices("npu", device_count, _missing)
current_device, set_device, index_of, check = NPUS.current_device, NPUS.set_device, NPUS.index_of, NPUS.check


class device(DeviceContext):  # noqa: N801
    """Context manager that changes the current NPU; None or a negative number changes nothing."""

    devices = NPUS


class device_of(device):  # noqa: N801
    """Context manager that makes the NPU of a tensor or storage current; nothing for one that is not on an NPU."""

    def __init__(self, tensor: torch.Tensor | torch.UntypedStorage | torch.TypedStorage) -> None:
        super().__init__(tensor.device.index if tensor.device.type == "npu" else -1)
