"""Query, key and value of inference cut into sequences: layouts, lengths, blocks of a paged cache, int8 caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide

VARLEN = "TND"
Lengths = Sequence[int] | None


@dataclass(frozen=True)
class Layout:
    """The order of a tensor's dimensions: `name` is an `input_layout`, for `heads` heads."""

    name: str
    heads: int

    def split(self, x: Array) -> list[Array]:
        """Each batch as (heads, S, D); for TND all tokens as one.

        Raises:
            NotImplementedError: The layout is another.
        """
        if self.name == "BSH" and x.ndim == 3:
            return list(x.reshape(*x.shape[:2], self.heads, -1).transpose(0, 2, 1, 3))
        if self.name == "BSND" and x.ndim == 4:
            return list(x.transpose(0, 2, 1, 3))
        if self.name in ("BNSD", "BNSD_BSND") and x.ndim == 4:
            return list(x)
        if self.name == VARLEN and x.ndim == 3:
            return [x.transpose(1, 0, 2)]
        raise NotImplementedError(f"input_layout {self.name!r} of a tensor of shape {list(x.shape)}")

    def joined(self, parts: list[Array], rows: int, dtype: np.dtype) -> Array:
        """The inverse, for results (heads, S, D): padded with zeros to `rows` rows a batch, or in all for TND."""
        depth = parts[0].shape[-1]
        if self.name == VARLEN:
            values = np.concatenate([part.transpose(1, 0, 2) for part in parts])
            result = np.zeros((rows, self.heads, depth), np.float32)
            result[: len(values)] = values
            return rounded(result, dtype)
        result = np.zeros((len(parts), self.heads, rows, depth), np.float32)
        for batch, part in enumerate(parts):
            result[batch, :, : part.shape[1]] = part
        if self.name == "BNSD":
            return rounded(result, dtype)
        result = result.transpose(0, 2, 1, 3)
        return rounded(result.reshape(*result.shape[:2], -1) if self.name == "BSH" else result, dtype)


def cut(parts: list[Array], lengths: Lengths, layout: Layout) -> list[Array]:
    """The sequences at their lengths: one length for all or one for each batch; the ends of all where TND."""
    if layout.name == VARLEN:
        assert lengths is not None
        starts = [0, *lengths[:-1]]
        return [parts[0][:, start:end] for start, end in zip(starts, lengths, strict=True)]
    if not lengths:
        return parts
    each = list(lengths) * len(parts) if len(lengths) == 1 else list(lengths)
    return [part[:, :length] for part, length in zip(parts, each, strict=False)]


def paged(cache: Array, table: Array, lengths: Lengths, heads: int, block_size: int) -> list[Array]:
    """The sequences (heads, S, D) whose blocks `table` (B, blocks) lists, of a cache of blocks.

    The cache is (blocks, block_size, heads * D), (blocks, heads, block_size, D) or (blocks, block_size, heads, D).

    Raises:
        NotImplementedError: The cache has another shape.
    """
    assert lengths is not None
    if cache.ndim == 3:
        blocks = cache.reshape(*cache.shape[:2], heads, -1)
    elif cache.ndim == 4 and cache.shape[1:3] == (heads, block_size):
        blocks = cache.transpose(0, 2, 1, 3)
    elif cache.ndim == 4 and cache.shape[1:3] == (block_size, heads):
        blocks = cache
    else:
        raise NotImplementedError(f"a cache of shape {list(cache.shape)}, of {heads} heads in blocks of {block_size}")
    size = blocks.shape[1]
    each = list(lengths) * len(table) if len(lengths) == 1 else list(lengths)
    parts = []
    for row, length in zip(table, each, strict=False):
        count = -(-length // size)
        tokens = blocks[row[:count]].reshape(count * size, heads, -1)[:length]
        parts.append(tokens.transpose(1, 0, 2))
    return parts


def restored(parts: list[Array], scale: Array | None, offset: Array | None) -> list[Array]:
    """Keys or values in float32: (x + offset) * scale by channel, of heads * D numbers, where they are int8.

    Raises:
        NotImplementedError: They are int8 without such a scale, or the scale is one of tokens.
    """
    if scale is None:
        if any(part.dtype == np.int8 for part in parts):
            raise NotImplementedError("keys and values in int8 without antiquant_scale")
        return [wide(part) for part in parts]
    heads, _, depth = parts[0].shape
    if scale.size != heads * depth:
        raise NotImplementedError(f"an antiquant_scale of shape {list(scale.shape)}")
    shape = (heads, 1, depth)
    shift = np.float32(0) if offset is None else wide(offset).reshape(shape)
    return [(part.astype(np.float32) + shift) * wide(scale).reshape(shape) for part in parts]
