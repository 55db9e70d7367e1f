"""`torch.npu.FloatStorage` and its kin, the typed storages of old."""

from __future__ import annotations

from typing import Any

import torch


class _LegacyStorageType(type):
    """Calling makes a typed storage on the current NPU; `isinstance` asks its device and dtype."""

    dtype: torch.dtype

    def __call__(cls, *args: Any) -> torch.TypedStorage:
        if len(args) == 1 and isinstance(args[0], int):
            return torch.empty(args[0], dtype=cls.dtype, device="npu")._typed_storage()
        values = list(args[0]) if args else []
        return torch.tensor(values, dtype=cls.dtype, device="npu")._typed_storage()

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, torch.TypedStorage) and instance.device.type == "npu" and instance.dtype == cls.dtype
        )


def _legacy(name: str, dtype: torch.dtype) -> _LegacyStorageType:
    return _LegacyStorageType(name, (), {"dtype": dtype, "__module__": "torch.npu"})


BFloat16Storage = _legacy("BFloat16Storage", torch.bfloat16)
BoolStorage = _legacy("BoolStorage", torch.bool)
ByteStorage = _legacy("ByteStorage", torch.uint8)
CharStorage = _legacy("CharStorage", torch.int8)
DoubleStorage = _legacy("DoubleStorage", torch.float64)
FloatStorage = _legacy("FloatStorage", torch.float32)
HalfStorage = _legacy("HalfStorage", torch.float16)
IntStorage = _legacy("IntStorage", torch.int32)
LongStorage = _legacy("LongStorage", torch.int64)
ShortStorage = _legacy("ShortStorage", torch.int16)
