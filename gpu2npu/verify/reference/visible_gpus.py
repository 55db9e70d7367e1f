"""The GPUs that there are, and the current one, per thread as with CUDA."""

from __future__ import annotations

import os

import torch

from gpu2npu.emulator.device.visible_devices import DeviceContext, VisibleDevices

_count = 0


def set_count(gpus: int) -> None:
    """Let the machine have that many GPUs."""
    global _count
    _count = gpus


def device_count() -> int:
    """Count the visible GPUs: all, less what CUDA_VISIBLE_DEVICES hides."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return _count
    visible = 0
    for word in chosen.split(","):
        if not word.strip().isdigit() or int(word) >= _count:
            break  # CUDA sees those before the first that it does not know
        visible += 1
    return visible


GPUS = VisibleDevices("cuda", device_count, lambda index: "CUDA error: invalid device ordinal")
current_device, set_device, index_of = GPUS.current_device, GPUS.set_device, GPUS.index_of


class device(DeviceContext):  # noqa: N801
    """Context manager that changes the current GPU; None or a negative number changes nothing."""

    devices = GPUS


class device_of(device):  # noqa: N801
    """Context manager that makes the GPU of a tensor current; nothing for one that is not on a GPU."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.get_device() if tensor.is_cuda else -1)
