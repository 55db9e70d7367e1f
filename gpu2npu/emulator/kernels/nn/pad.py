"""Padding by reflection and by replication, of one to three dimensions, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.kernels.sampling.separable import applied, selection, taken

Sizes = Sequence[int]


def _reflected(size: int, before: int, after: int) -> Array:
    if before >= size or after >= size:
        raise RuntimeError(
            f"Padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {after}) at a dimension of size {size}"
        )
    at = np.abs(np.arange(-before, size + after))
    return np.where(at >= size, 2 * (size - 1) - at, at)


def _replicated(size: int, before: int, after: int) -> Array:
    return np.clip(np.arange(-before, size + after), 0, size - 1)


def _sources(where: Callable[[int, int, int], Array], shape: Sizes, padding: Sizes) -> list[Array]:
    """For each padded dimension, the source of every element; `padding` begins with the last dimension."""
    count = len(padding) // 2
    pairs = [(padding[2 * each], padding[2 * each + 1]) for each in reversed(range(count))]
    return [where(size, *pair) for size, pair in zip(shape[len(shape) - count :], pairs, strict=True)]


def _padding(name: str, where: Callable[[int, int, int], Array]) -> None:
    @kernel(f"aten::{name}")
    def forward(self: Array, padding: Sizes) -> Array:
        """self with (before, after) elements more in its last dimensions, the last one first."""
        return taken(self, _sources(where, self.shape, padding))

    @kernel(f"aten::{name}_backward")
    def backward(grad_output: Array, self: Array, padding: Sizes) -> Array:
        """The gradient, in self's shape."""
        sources = _sources(where, self.shape, padding)
        sizes = self.shape[self.ndim - len(sources) :]
        matrices = [selection(each, size).T for each, size in zip(sources, sizes, strict=True)]
        return rounded(applied(wide(grad_output), matrices), grad_output.dtype)


for _count in (1, 2, 3):
    _padding(f"reflection_pad{_count}d", _reflected)
    _padding(f"replication_pad{_count}d", _replicated)
