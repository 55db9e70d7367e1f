"""Tokens into the slots of paged caches and out again."""

import pytest
import torch
import torch_npu

SLOTS = torch.tensor([5, 0, 11, -1]).int()


def test_in_and_out():
    key, value = torch.randn(4, 2, 8), torch.randn(4, 2, 6)
    caches = torch.zeros(3, 4, 2, 8).npu(), torch.zeros(3, 4, 2, 6).npu()
    torch_npu.npu_scatter_pa_kv_cache(key.npu(), value.npu(), *caches, SLOTS.npu())
    for cache, tokens in zip(caches, (key, value), strict=True):
        flat = cache.cpu().flatten(0, 1)
        assert all(torch.equal(flat[slot], tokens[i]) for i, slot in enumerate(SLOTS.tolist()) if slot >= 0)
        assert flat.abs().sum(dim=(1, 2)).count_nonzero() == 3
    out = torch.zeros(5, 2, 8).npu(), torch.zeros(5, 2, 6).npu()
    table = torch.tensor([[1, 0], [2, 0]]).int().npu()
    torch_npu.npu_gather_pa_kv_cache(*caches, table, torch.tensor([2, 3]).int().npu(), *out)
    flat = caches[0].flatten(0, 1)
    assert torch.equal(out[0], flat[torch.tensor([4, 5, 8, 9, 10]).npu()])


def test_parts_of_the_depth_side_by_side():
    key = torch.randn(4, 2, 8)
    cache = torch.zeros(3, 4, 5, 4).npu()  # 3 blocks of 5 tokens, each token's 16 numbers in 4 parts of 4
    torch_npu.npu_scatter_pa_kv_cache(key.npu(), key.npu(), cache, cache.clone(), SLOTS.npu())
    for i, slot in enumerate(SLOTS.tolist()[:3]):
        assert torch.equal(cache[slot // 5, :, slot % 5].cpu().flatten(), key[i].flatten())
    with pytest.raises(RuntimeError, match="do not fit a cache"):
        torch_npu.npu_scatter_pa_kv_cache(
            key[:3].npu(), key[:3].npu(), cache, cache.clone(), SLOTS[:3].npu(), cache_mode="Norm"
        )
