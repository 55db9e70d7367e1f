"""`torch.npu.FloatStorage` and its kin, the typed storages of old."""

from __future__ import annotations

from typing import Any

import torch

from gpu2npu.emulator.device.frontend import LEGACY_TYPES


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


_made = {
    name.replace("Tensor", "Storage"): _LegacyStorageType(
        name.replace("Tensor", "Storage"), (), {"dtype": kind.dtype, "__module__": "torch.npu"}
    )
    for name, kind in LEGACY_TYPES.items()
}
__all__ = list(_made)
globals().update(_made)
