"""Tensors of two programs that are one another, or a number times one another, as far as sketches show."""

from __future__ import annotations

import math

import numpy as np

from gpu2npu.verify.comparing.tolerance import FACTOR
from gpu2npu.verify.recording.records import Tensor, Vector

SAME = 1e-3  # share of the norm within which a tensor is another one times a number
_SUMS = 1e-7  # share within which two sums of the same numbers are one, in whatever order (measured: 4e-8)


def is_same_batch(one: Tensor, other: Tensor) -> bool:
    """Compare two tensors; one that holds a single number in all places, such as labels of a GAN, is not a batch."""
    is_constant = abs(other.mean) >= other.largest * (1 - SAME)
    return not is_constant and one.shape == other.shape and np.array_equal(one.sketch, other.sketch)


def is_reordered(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same numbers in another order; two numbers alone do not show it."""
    if (one.shape, one.largest, one.unfinite) != (other.shape, other.largest, other.unfinite):
        return False
    squares, count = one.norm**2, math.prod(one.shape)
    has_two = any(
        math.isclose(squares, size * one.largest, rel_tol=SAME) for size in (abs(one.mean) * count, one.largest * count)
    )
    is_near = math.isclose(one.norm, other.norm, rel_tol=_SUMS) and abs(one.mean - other.mean) <= _SUMS * one.largest
    return is_near and not has_two


def is_simple(ratio: float) -> bool:
    if not ratio > 0:
        return False
    whole = ratio if ratio >= 1 else 1 / ratio
    return abs(whole - round(whole)) <= SAME * whole


def scaled(tensor: Tensor, factor: float) -> Tensor:
    return Tensor(tensor.shape, tensor.dtype, tensor.norm * abs(factor), 0.0, 0.0, 0, (), tensor.sketch * factor)


def is_near(sketch: Vector, tensor: Tensor, tolerance: float) -> bool:
    return bool(np.linalg.norm(sketch - tensor.sketch) <= max(FACTOR * tolerance, SAME) * tensor.norm)
