"""Results whose memory overlaps itself or what they are computed from, which torch and op-plugin refuse to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu2npu.emulator.device.tensor import Array


def check(into: Array, inputs: Sequence[Any], whole: bool) -> None:
    """Raise the error of `assert_no_internal_overlap` and `assert_no_partial_overlap` (ATen/MemoryOverlap.cpp).

    Args:
        into: The memory of the tensor to write.
        inputs: The arrays, and lists of arrays, that the result was computed from.
        whole: Whether `into` may be one of them.

    Raises:
        RuntimeError: In torch's words.
    """
    if 0 in into.strides and _overlaps_itself(into):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    owner = _owner(into)
    for value in inputs:
        if value.__class__ is list:
            check(into, value, whole)
        elif value.__class__ is np.ndarray and _owner(value) is owner and _refused(into, value, whole):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                "memory location. Please clone() the tensor before performing the operation."
            )


def _owner(values: Array) -> Array:
    """The array of the whole block that a view is of."""
    base = values.base
    return base if base.__class__ is np.ndarray else values  # type: ignore[return-value]


def _overlaps_itself(values: Array) -> bool:
    """Return whether an expanded dimension makes several elements of one."""
    spread = any(size > 1 and not step for size, step in zip(values.shape, values.strides, strict=True))
    return spread and values.size > 0


def _refused(into: Array, other: Array, whole: bool) -> bool:
    """Return whether both are dense and share a part of their memory; sharing all of it counts unless `whole`."""
    if not (into.size and other.size and into.flags.forc and other.flags.forc):
        return False
    start, start_other = into.ctypes.data, other.ctypes.data
    if start == start_other and into.nbytes == other.nbytes:
        return not whole or into.strides != other.strides
    return start < start_other + other.nbytes and start_other < start + into.nbytes
