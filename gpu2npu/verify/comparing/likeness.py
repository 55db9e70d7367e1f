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
    """Return whether two tensors have the same numbers in another order, by their largest one and their sums, also of
    squares, as a recording has no more (two draws of labels of ten classes agree in these once in 2,000 times, of a
    hundred once in 10 million). A tensor of two numbers, such as a mask, does not show an order."""
    if (one.shape, one.largest, one.unfinite) != (other.shape, other.largest, other.unfinite):
        return False
    have_one_sum = abs(one.mean - other.mean) <= _SUMS * one.largest
    have_one_norm = math.isclose(one.norm, other.norm, rel_tol=_SUMS)
    return have_one_sum and have_one_norm and not _has_one_size(one)


def _has_one_size(tensor: Tensor) -> bool:
    """Return whether all numbers of a tensor but zeros have the size of the largest, as in a mask or in signs: their
    squares are then that size times the sum, where none is negative, or times the number of all, where none is 0."""
    squares, count = tensor.norm**2, math.prod(tensor.shape)
    sums = (abs(tensor.mean) * count, tensor.largest * count)
    return any(math.isclose(squares, total * tensor.largest, rel_tol=SAME) for total in sums)


def is_simple(ratio: float) -> bool:
    """Return whether a number is a whole one above 1 or the inverse of one: 1 itself says nothing."""
    if not ratio > 0:
        return False
    whole = ratio if ratio >= 1 else 1 / ratio
    return round(whole) > 1 and abs(whole - round(whole)) <= SAME * whole


def scaled(tensor: Tensor, factor: float) -> Tensor:
    return Tensor(tensor.shape, tensor.dtype, tensor.norm * abs(factor), 0.0, 0.0, 0, (), tensor.sketch * factor)


def is_near(sketch: Vector, tensor: Tensor, tolerance: float) -> bool:
    return bool(np.linalg.norm(sketch - tensor.sketch) <= max(FACTOR * tolerance, SAME) * tensor.norm)
