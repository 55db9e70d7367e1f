"""The values of tensors in host memory, without a copy where the device's memory is the host's."""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np
import torch

Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]

_RETAINED = (torch.float32, torch.float64)
_COUNTED = (torch.int64, torch.bool)


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's values on the CPU; where the device's memory is the host's, without a copy."""
    kind = tensor.device.type
    detached = tensor.detach()
    if kind == "cpu":
        return detached
    emulated = sys.modules.get("gpu2npu.emulator.device.tensor")
    if kind == "npu" and emulated is not None:
        return emulated.host(detached.resolve_conj().resolve_neg())  # type: ignore[no-any-return]
    played = sys.modules.get("gpu2npu.verify.reference.tensors")
    if kind == "cuda" and played is not None:
        return played.host(detached)  # type: ignore[no-any-return]
    return detached.cpu()


def values_of(tensor: torch.Tensor) -> Vector:
    """The elements of a tensor in order, float64 where it is float64 or complex128, else float32.

    Booleans count as 0 and 1, complex numbers as their two parts. Not to be written to.
    """
    emulated = sys.modules.get("gpu2npu.emulator.device.tensor")
    if tensor.dtype in _RETAINED:
        if emulated is not None and tensor.get_device() >= 0 and not tensor.is_neg():
            return emulated.array(tensor).reshape(-1)  # type: ignore[no-any-return]
        return on_host(tensor).resolve_neg().numpy().reshape(-1)
    if tensor.dtype in _COUNTED and emulated is not None and tensor.get_device() >= 0:
        return emulated.array(tensor).astype(np.float32).reshape(-1)  # type: ignore[no-any-return]
    values = on_host(tensor)
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    if values.dtype not in _RETAINED:
        values = values.to(torch.float32)
    return values.resolve_neg().numpy().reshape(-1)
