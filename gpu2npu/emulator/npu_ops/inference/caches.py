"""The upkeep of paged caches of keys and values: tokens into their slots, and out again."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array
from gpu2npu.emulator.kernels.registry import kernel

_CACHES = 4  # dimensions: blocks, block size, heads, depth; or blocks, parts of depth, block size, width of a part


def _store(tokens: Array, cache: Array, slots: Array) -> None:
    """Tokens (T, heads, D) into their slots of a cache (blocks, size, heads, D), or (blocks, parts, size, width)."""
    if cache.ndim != _CACHES or tokens.ndim != 3:
        raise NotImplementedError(f"a cache of shape {list(cache.shape)} for tokens of shape {list(tokens.shape)}")
    heads, depth = tokens.shape[1:]
    valid = slots >= 0
    if cache.shape[2:] == (heads, depth):
        blocks, places = np.divmod(slots[valid], cache.shape[1])
        cache[blocks, places] = tokens[valid]
        return
    parts, size, width = cache.shape[1:]
    if parts * width != heads * depth:
        raise RuntimeError(f"tokens of shape {list(tokens.shape)} do not fit a cache of shape {list(cache.shape)}")
    blocks, places = np.divmod(slots[valid], size)
    cache[blocks, :, places] = tokens[valid].reshape(-1, parts, width)


@kernel("npu::npu_scatter_pa_kv_cache")
def npu_scatter_pa_kv_cache(
    key: Array,
    value: Array,
    key_cache: Array,
    value_cache: Array,
    slot_mapping: Array,
    *,
    compress_lens: Array | None = None,
    compress_seq_offsets: Array | None = None,
    seq_lens: Array | None = None,
    cache_mode: str | None = "PA_NZ",
) -> None:
    """Write the tokens' keys and values into both caches, each token at its slot; a negative slot is none."""
    if compress_lens is not None or compress_seq_offsets is not None or seq_lens is not None:
        raise NotImplementedError("compressed caches")
    _store(key, key_cache, slot_mapping)
    _store(value, value_cache, slot_mapping)


@kernel("npu::npu_gather_pa_kv_cache")
def npu_gather_pa_kv_cache(
    key_cache: Array,
    value_cache: Array,
    block_tables: Array,
    seq_lens: Array,
    key: Array,
    value: Array,
    *,
    seq_offset: Array | None = None,
    is_seq_lens_cumsum: bool = False,
) -> None:
    """Write the keys and values of all sequences, one after the other, into `key` and `value` (T, heads, D).

    The caches are (blocks, size, heads, D), and `seq_lens` holds lengths, or their sums from 0 on.
    """
    if seq_offset is not None or key.shape[1:] != key_cache.shape[2:]:
        raise NotImplementedError("a seq_offset, or caches in another order")
    lengths = np.diff(seq_lens) if is_seq_lens_cumsum else seq_lens
    size, start = key_cache.shape[1], 0
    for table, length in zip(block_tables, lengths, strict=True):
        blocks, places = np.divmod(np.arange(length), size)
        key[start : start + length] = key_cache[table[blocks], places]
        value[start : start + length] = value_cache[table[blocks], places]
        start += int(length)
