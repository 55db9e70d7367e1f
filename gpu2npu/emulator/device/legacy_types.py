"""The types of tensors by device and dtype, `torch.npu.FloatTensor` or `torch.cuda.FloatTensor`."""

from __future__ import annotations

from typing import Any

import torch

from gpu2npu.emulator.device.visible_devices import VisibleDevices

_DTYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


class LegacyTensorType(type):
    """Such a type: calling makes a tensor on the current device, `isinstance` asks device and dtype. Its `name` is
    qualified."""

    devices: VisibleDevices
    dtype: torch.dtype
    name: str

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        made: torch.Tensor = getattr(torch, cls.__name__)(*args, **kwargs)
        return made.to(torch.device(cls.devices.kind, cls.devices.current_device()))

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and instance.device.type == cls.devices.kind
            and instance.dtype is cls.dtype
        )


def legacy_types(devices: VisibleDevices) -> dict[str, LegacyTensorType]:
    """The types for devices of one kind, by their names."""
    module = f"torch.{devices.kind}"
    return {
        name: LegacyTensorType(
            name, (), {"devices": devices, "dtype": dtype, "name": f"{module}.{name}", "__module__": module}
        )
        for name, dtype in _DTYPES.items()
    }
