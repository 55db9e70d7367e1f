"""Collectives in a shapes-only run: ranks compare what they are about to do, and only integers move.

Integers carry what ranks agree on: counts, pickled objects, token ids. Floating-point numbers have no values.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gpu2npu.emulator.shapes import is_on, values


def moves(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether the bytes of a collective move; the same on all ranks, whose dtypes are compared."""
    return not is_on() or not any(tensor.is_floating_point() or tensor.is_complex() for tensor in tensors[:1])


def line() -> str:
    """The line that calls a collective, for the error of ranks that disagree: " at train.py:12"; else empty."""
    return f" at {values.running_line().name}" if is_on() else ""


def moved(tensors: object) -> None:
    """State that the results of a collective whose bytes move have values."""
    if is_on() and isinstance(tensors, (list, tuple)):
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and tensor.get_device() >= 0:
                values.mark(tensor, values.is_knowable(tensor.shape, tensor.dtype))


def note(what: str, tensors: Sequence[torch.Tensor], size: int) -> None:
    """Record a collective for the forecast."""
    if is_on():
        from gpu2npu.emulator.shapes import records

        records.collective(what.split()[0], tensors, size)
