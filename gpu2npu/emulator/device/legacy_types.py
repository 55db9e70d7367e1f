"""The types of old of tensors and storages by device and dtype, `torch.npu.FloatTensor`, `torch.npu.FloatStorage`."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from gpu2npu.emulator.device.visible_devices import VisibleDevices

T = TypeVar("T", bound=type)

_DTYPES = {
    "Float": torch.float32,
    "Double": torch.float64,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Long": torch.int64,
    "Int": torch.int32,
    "Short": torch.int16,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "Bool": torch.bool,
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


class LegacyStorageType(type):
    """A type of typed storages: calling makes one on the current device, of a length or of values."""

    devices: VisibleDevices
    dtype: torch.dtype

    def __call__(cls, *args: Any) -> torch.TypedStorage:
        if len(args) == 1 and isinstance(args[0], int):
            return torch.empty(args[0], dtype=cls.dtype, device=cls.devices.kind)._typed_storage()
        values = list(args[0]) if args else []
        return torch.tensor(values, dtype=cls.dtype, device=cls.devices.kind)._typed_storage()

    def __instancecheck__(cls, instance: object) -> bool:
        is_storage = isinstance(instance, torch.TypedStorage)
        return is_storage and instance.device.type == cls.devices.kind and instance.dtype == cls.dtype  # type: ignore[attr-defined]


def legacy_types(devices: VisibleDevices) -> dict[str, LegacyTensorType]:
    """The types of tensors for devices of one kind, by their names."""
    return _made(LegacyTensorType, "Tensor", devices)


def legacy_storages(devices: VisibleDevices) -> dict[str, LegacyStorageType]:
    """The types of storages for devices of one kind, by their names."""
    return _made(LegacyStorageType, "Storage", devices)


def _made(kind: type[T], suffix: str, devices: VisibleDevices) -> dict[str, T]:
    module = f"torch.{devices.kind}"
    return {
        f"{name}{suffix}": kind(
            f"{name}{suffix}",
            (),
            {"devices": devices, "dtype": dtype, "name": f"{module}.{name}{suffix}", "__module__": module},
        )
        for name, dtype in _DTYPES.items()
    }
