"""The upkeep of paged caches of keys and values: tokens into their slots, and out again."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema

_CACHES = 4  # dimensions: blocks, block size, heads, depth; or blocks, parts of depth, block size, width of a part


def _store(tokens: Array, cache: Array, slots: Array, mode: str | None) -> None:
    """Tokens (T, heads, D) into their slots of a cache (blocks, size, heads, D), or (blocks, parts, size, width), which
    the mode "Norm" has not."""
    if cache.ndim != _CACHES or tokens.ndim != 3:
        raise NotImplementedError(f"a cache of shape {list(cache.shape)} for tokens of shape {list(tokens.shape)}")
    heads, depth = tokens.shape[1:]
    valid = slots >= 0
    if cache.shape[2:] == (heads, depth):
        blocks, places = np.divmod(slots[valid], cache.shape[1])
        cache[blocks, places] = tokens[valid]
        return
    parts, size, width = cache.shape[1:]
    if mode == "Norm" or parts * width != heads * depth:
        raise RuntimeError(f"tokens of shape {list(tokens.shape)} do not fit a cache of shape {list(cache.shape)}")
    blocks, places = np.divmod(slots[valid], size)
    cache[blocks, :, places] = tokens[valid].reshape(-1, parts, width)


@by_schema(kernel, "npu::npu_scatter_pa_kv_cache")
def npu_scatter_pa_kv_cache(a: Arguments) -> None:
    """Write the tokens' keys and values into both caches, each token at its slot; a negative slot is none."""
    if a.compress_lens is not None or a.compress_seq_offsets is not None or a.seq_lens is not None:
        raise NotImplementedError("compressed caches")
    _store(a.key, a.key_cache, a.slot_mapping, a.cache_mode)
    _store(a.value, a.value_cache, a.slot_mapping, a.cache_mode)


@by_schema(kernel, "npu::npu_gather_pa_kv_cache")
def npu_gather_pa_kv_cache(a: Arguments) -> None:
    """Write the keys and values of all sequences, one after the other, into `key` and `value` (T, heads, D).

    The caches are (blocks, size, heads, D), and `seq_lens` holds lengths, or their sums from 0 on.
    """
    if a.seq_offset is not None or a.key.shape[1:] != a.key_cache.shape[2:]:
        raise NotImplementedError("a seq_offset, or caches in another order")
    lengths = np.diff(a.seq_lens) if a.is_seq_lens_cumsum else a.seq_lens
    size, start = a.key_cache.shape[1], 0
    for table, length in zip(a.block_tables, lengths, strict=True):
        blocks, places = np.divmod(np.arange(length), size)
        a.key[start : start + length] = a.key_cache[table[blocks], places]
        a.value[start : start + length] = a.value_cache[table[blocks], places]
        start += int(length)
