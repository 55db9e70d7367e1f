"""A tensor in 32 numbers, from two of which the distance of two tensors follows.

Every element is added, with a fixed random sign, to one of 32 sums (a count sketch: Charikar, Chen, Farach-Colton,
2002). The sketch is linear, and the squared length of a difference of sketches is the squared distance of the tensors,
with a relative standard deviation of sqrt(2 / 32).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import torch

from gpu2npu.verify.recording.format import BUCKETS

_PERIOD = 1 << 18  # signs repeat after as many elements


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


_FIRST = 4  # elements kept as they are


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
    length = float(torch.linalg.vector_norm(flat, dtype=torch.float64)) if flat.numel() else 0.0
    unfinite = 0
    if not np.isfinite(length):
        finite = torch.isfinite(flat)
        unfinite = int(flat.numel() - finite.sum())
        flat = torch.where(finite, flat, torch.zeros((), dtype=flat.dtype))
        length = float(torch.linalg.vector_norm(flat, dtype=torch.float64))
    return Summary(
        shape=shape,
        dtype=dtype,
        norm=length,
        mean=float(flat.mean(dtype=torch.float64)) if flat.numel() else 0.0,
        largest=float(torch.linalg.vector_norm(flat, float("inf"))) if flat.numel() else 0.0,
        unfinite=unfinite,
        first=tuple(flat[:_FIRST].tolist()),
        sketch=_sketch(flat),
    )


def _sketch(flat: torch.Tensor) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    sums = torch.zeros(BUCKETS, dtype=torch.float64)
    signs = _signs()
    for start in range(0, flat.numel(), _PERIOD):
        part = flat[start : start + _PERIOD] * signs[: min(_PERIOD, flat.numel() - start)]
        whole = part.numel() - part.numel() % BUCKETS
        sums += part[:whole].view(-1, BUCKETS).sum(0, dtype=torch.float64)
        sums[: part.numel() - whole] += part[whole:]
    return sums.to(torch.float32).numpy()
