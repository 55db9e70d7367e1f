"""A tensor in 32 numbers, from two of which the distance of two tensors follows.

Every element is added, with a fixed random sign, to one of 32 sums (a count sketch: Charikar, Chen, Farach-Colton,
2002). The sketch is linear, and the squared length of a difference of sketches is the squared distance of the tensors,
with a relative standard deviation of sqrt(2 / 32).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from gpu2npu.verify.recording.format import BUCKETS

_PERIOD = 1 << 18  # signs repeat after as many elements
_BLOCK = 1 << 16  # elements that are summed up at once: they stay in a core's cache
_ROW = 2048  # elements that are added in float32, and their sums in float64
_SQUARABLE = 1e-12, 1e15  # between these, float32 holds the squares of the largest elements of a block, and their sum
_FIRST = 4  # elements kept as they are


@dataclass(frozen=True)
class Summary:
    """The recorded facts of a tensor: `norm`, `mean` and `largest` (by magnitude) are of its finite elements."""

    shape: tuple[int, ...]
    dtype: str
    norm: float
    mean: float
    largest: float
    unfinite: int
    first: tuple[float, ...]
    sketch: np.ndarray[tuple[int], np.dtype[np.float32]]


@dataclass(frozen=True)
class _Block:
    """The share of a run of elements in a summary: squares, sum, largest magnitude, unfinite, BUCKETS sums."""

    squares: float
    total: float
    largest: float
    unfinite: int
    sums: np.ndarray[tuple[int], np.dtype[np.float64]]


@functools.cache
def _signs() -> torch.Tensor:
    bits = np.random.Generator(np.random.Philox(key=2026)).integers(0, 2, _PERIOD, dtype=np.int8)
    return torch.from_numpy(bits.astype(np.float32) * 2 - 1)


def summary(tensor: torch.Tensor) -> Summary:
    """Summarise a CPU tensor of any dtype: booleans count as 0 and 1, complex numbers as their two parts."""
    shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
    values = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    flat = values.reshape(-1)
    flat = flat if flat.dtype is torch.float64 else flat.to(torch.float32)
    blocks = list(_blocks(flat))
    return Summary(
        shape=shape,
        dtype=dtype,
        norm=math.sqrt(sum(block.squares for block in blocks)),
        mean=sum(block.total for block in blocks) / (flat.numel() or 1),
        largest=max((block.largest for block in blocks), default=0.0),
        unfinite=sum(block.unfinite for block in blocks),
        first=tuple(flat[:_FIRST].tolist()),
        sketch=sum((block.sums for block in blocks), np.zeros(BUCKETS)).astype(np.float32),
    )


def _blocks(flat: torch.Tensor) -> Iterator[_Block]:
    """Sum up a float32 or float64 tensor in blocks: rows in float32 where that is exact enough, else in float64."""
    signs = _signs()
    for start in range(0, flat.numel(), _BLOCK):
        part = flat[start : start + _BLOCK]
        sign = signs[start % _PERIOD :][: part.numel()]
        whole = part.numel() - part.numel() % _ROW if flat.dtype is torch.float32 else 0
        quick = _in_float32(part[:whole].view(-1, _ROW), sign[:whole].view(-1, _ROW)) if whole else None
        if quick is not None:
            yield quick
        rest = whole if quick is not None else 0
        if rest < part.numel():
            yield _in_float64(part[rest:], sign[rest:])


def _in_float32(rows: torch.Tensor, signs: torch.Tensor) -> _Block | None:
    """Sum up rows of _ROW elements; None where squares leave float32's range, or an element is not finite."""
    low, high = torch.aminmax(rows)
    largest = max(-float(low), float(high))
    if not _SQUARABLE[0] < largest < _SQUARABLE[1]:
        return None
    lengths = torch.linalg.vector_norm(rows, dim=1).numpy().astype(np.float64)
    return _Block(
        squares=float(lengths @ lengths),
        total=float(rows.sum(1).numpy().sum(dtype=np.float64)),
        largest=largest,
        unfinite=0,
        sums=(rows * signs).view(len(rows), -1, BUCKETS).sum(1).numpy().sum(0, dtype=np.float64),
    )


def _in_float64(part: torch.Tensor, signs: torch.Tensor) -> _Block:
    """Sum up elements of any size; those that are not finite count as 0."""
    values = part.numpy().astype(np.float64)
    finite = np.isfinite(values)
    unfinite = int(values.size - np.count_nonzero(finite))
    if unfinite:
        values = np.where(finite, values, 0.0)
    signed = np.zeros(-(-values.size // BUCKETS) * BUCKETS)
    np.multiply(values, signs.numpy(), out=signed[: values.size])
    return _Block(
        squares=float(np.dot(values, values)),
        total=float(values.sum()),
        largest=float(np.abs(values).max()),
        unfinite=unfinite,
        sums=signed.reshape(-1, BUCKETS).sum(0),
    )
