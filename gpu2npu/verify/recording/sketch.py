"""A tensor in 32 numbers, from two of which the distance of two tensors follows.

Every element is added, with a fixed random sign, to one of 32 sums (a count sketch: Charikar, Chen, Farach-Colton,
2002). The sketch is linear, and the squared length of a difference of sketches is the squared distance of the tensors,
with a relative standard deviation of sqrt(2 / 32).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from gpu2npu.verify.recording.format import BUCKETS, FIRST
from gpu2npu.verify.recording.host import Vector, values_of
from gpu2npu.verify.recording.records import Rows

_PERIOD = 1 << 18  # signs repeat after as many elements
_BLOCK = 1 << 16  # elements that are summed up at once: they stay in a core's cache
_ROW = 1024  # elements that are added in float32, and their sums in float64
FEW = 4096  # elements up to which float64 takes no longer
_SQUARABLE = 1e-12, 1e15  # between these, float32 holds the squares of the largest elements of a block, and their sum


class Summary(NamedTuple):
    """The recorded facts of a tensor: `norm`, `mean` and `largest` (by magnitude) are of its finite elements."""

    shape: tuple[int, ...]
    dtype: str
    norm: float
    mean: float
    largest: float
    unfinite: int
    first: tuple[float, ...]
    sketch: np.ndarray[tuple[int], np.dtype[np.float32]]


class _Block(NamedTuple):
    """The share of a run of elements in a summary: squares, sum, largest magnitude, unfinite, BUCKETS sums."""

    squares: float
    total: float
    largest: float
    unfinite: int
    sums: np.ndarray[tuple[int], np.dtype[np.float64]]


_NOTHING = _Block(0.0, 0.0, 0.0, 0, np.zeros(BUCKETS))


@functools.cache
def _signs() -> tuple[Vector, Vector]:
    """The signs of elements, as float32 and as float64."""
    bits = np.random.Generator(np.random.Philox(key=2026)).integers(0, 2, _PERIOD, dtype=np.int8)
    signs = bits.astype(np.float32) * 2 - 1
    return signs, signs.astype(np.float64)


@functools.cache
def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def summary(tensor: torch.Tensor) -> Summary:
    """Summarise a tensor of any dtype: booleans count as 0 and 1, complex numbers as their two parts."""
    return summary_of(tensor, values_of(tensor))


def summary_of(tensor: torch.Tensor, flat: Vector) -> Summary:
    """Summarise a tensor whose elements are in `flat`."""
    blocks = list(_blocks(flat)) or [_NOTHING]
    block = blocks[0] if len(blocks) == 1 else functools.reduce(_joined, blocks)
    return Summary(
        shape=tuple(tensor.shape),
        dtype=_name(tensor.dtype),
        norm=math.sqrt(block.squares),
        mean=block.total / (flat.size or 1),
        largest=block.largest,
        unfinite=block.unfinite,
        first=tuple(flat[:FIRST].tolist()),
        sketch=block.sums.astype(np.float32),
    )


@functools.lru_cache(64)
def _layout(sizes: tuple[int, ...]) -> tuple[list[int], Vector]:
    """The offsets of vectors of these sizes, each padded to whole rows of BUCKETS, and the signs of all elements."""
    ends = np.cumsum([padded(size) for size in sizes])
    starts = [0, *ends[:-1].tolist()]
    signs = np.zeros(ends[-1])
    for start, size in zip(starts, sizes, strict=True):
        signs[start : start + size] = _signs()[1][:size]
    return starts, signs


def padded(size: int) -> int:
    """The elements of whole rows of BUCKETS that hold a vector of a size."""
    return -(-size // BUCKETS) * BUCKETS


def fill_rows(rows: Rows, values: Vector, sizes: tuple[int, ...]) -> None:
    """Summarise vectors of at most FEW elements at once, a row each: each by itself costs many calls of NumPy.

    `values` are float64, each vector padded with zeros; what is not finite is set to 0 in it.
    """
    starts, signs = _layout(sizes)
    rows["first"] = values[np.add.outer(starts, np.arange(FIRST))]
    largest = np.maximum(np.maximum.reduceat(values, starts), -np.minimum.reduceat(values, starts))
    for number in np.flatnonzero(~np.isfinite(largest)).tolist():
        part = values[starts[number] : starts[number] + sizes[number]]
        finite = np.isfinite(part)
        rows["unfinite"][number] = part.size - np.count_nonzero(finite)
        part[~finite] = 0.0
        largest[number] = np.abs(part).max()
    rows["largest"] = largest
    rows["mean"] = np.add.reduceat(values, starts) / sizes
    signed = values * signs
    rows["sketch"] = np.add.reduceat(signed.reshape(-1, BUCKETS), [start // BUCKETS for start in starts], axis=0)
    rows["norm"] = np.sqrt(np.add.reduceat(np.multiply(values, values, out=signed), starts))


def _joined(one: _Block, other: _Block) -> _Block:
    return _Block(
        one.squares + other.squares,
        one.total + other.total,
        max(one.largest, other.largest),
        one.unfinite + other.unfinite,
        one.sums + other.sums,
    )


def _blocks(flat: Vector) -> Iterator[_Block]:
    """Sum up float32 or float64 elements in blocks: rows in float32 where that is exact enough, else in float64."""
    size = flat.size
    if size <= FEW:
        if size:
            yield _in_float64(flat, 0)
        return
    for start in range(0, size, _BLOCK):
        part = flat[start : start + _BLOCK]
        whole = part.size - part.size % _ROW if flat.dtype == np.float32 else 0
        quick = _in_float32(part[:whole], start % _PERIOD) if whole else None
        if quick is not None:
            yield quick
        for rest in range(whole if quick is not None else 0, part.size, FEW):
            yield _in_float64(part[rest : rest + FEW], (start + rest) % _PERIOD)


def _in_float32(part: Vector, start: int) -> _Block | None:
    """Sum up rows of _ROW elements, whose signs begin at `start`.

    None where squares leave float32's range, or an element is not finite.
    """
    largest = max(float(np.maximum.reduce(part)), -float(np.minimum.reduce(part)))
    if largest == 0:
        return _NOTHING
    if not _SQUARABLE[0] < largest < _SQUARABLE[1]:
        return None
    rows = part.reshape(-1, _ROW)
    signs = _signs()[0][start : start + part.size].reshape(-1, _ROW)
    return _Block(
        squares=math.fsum(np.matmul(rows[:, None, :], rows[:, :, None]).ravel().tolist()),
        total=math.fsum(np.einsum("ij->i", rows).tolist()),
        largest=largest,
        unfinite=0,
        sums=np.add.reduce(np.einsum("ij,ij->j", rows, signs).astype(np.float64).reshape(-1, BUCKETS), axis=0),
    )


def _in_float64(part: Vector, start: int) -> _Block:
    """Sum up at most FEW elements, whose signs begin at `start`; those that are not finite count as 0.

    Of more, the library that NumPy takes products from starts threads, which takes longer than the product.
    """
    values, unfinite = part, 0
    largest = max(float(np.maximum.reduce(part)), -float(np.minimum.reduce(part)))
    if not math.isfinite(largest):
        finite = np.isfinite(part)
        unfinite = int(part.size - np.count_nonzero(finite))
        values = np.where(finite, part, 0.0)
        largest = float(np.abs(values).max())
    signs = _signs()[1][start : start + part.size]
    padded = np.zeros(-(-part.size // BUCKETS) * BUCKETS)
    signed = padded[: part.size]
    np.multiply(values, signs, out=signed)
    return _Block(
        squares=float(signed.dot(signed)),
        total=float(signed.dot(signs)),
        largest=largest,
        unfinite=unfinite,
        sums=np.add.reduce(padded.reshape(-1, BUCKETS), axis=0),
    )
