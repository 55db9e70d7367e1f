import torch
import torch.nn.functional as F
import torch_npu


def dense(query, key, value, scale, mask=None):
    """(rows, heads, size) over (columns, key heads, size)."""
    key, value = (each.repeat_interleave(query.size(1) // key.size(1), 1) for each in (key, value))
    parts = (each.transpose(0, 1)[None] for each in (query, key, value))
    return F.scaled_dot_product_attention(*parts, attn_mask=mask, scale=scale)[0].transpose(0, 1)


def test_attention_over_blocks_of_a_cache():
    torch.manual_seed(0)
    lengths, table = [5, 9], torch.tensor([[3, 0, 1], [2, 4, 5]], dtype=torch.int32)
    keys, values = (torch.randn(14, 2, 8) for _ in range(2))
    caches = [torch.zeros(6, 4, 2, 8).npu() for _ in range(2)]
    starts = [blocks.long().repeat_interleave(4)[:length] * 4 for blocks, length in zip(table, lengths, strict=True)]
    slots = torch.cat([start + torch.arange(len(start)) % 4 for start in starts])
    torch_npu._npu_reshape_and_cache(keys.npu(), values.npu(), *caches, slots.int().npu())
    query, out = torch.randn(2, 4, 8), torch.zeros(2, 4, 8).npu()
    given = (query.npu(), *caches, 2, 4, 0.3, table.npu(), torch.tensor(lengths, dtype=torch.int32), out)
    workspace = torch_npu._npu_paged_attention_get_workspace(*given)
    torch_npu._npu_paged_attention(*given, workspace=workspace)
    expected = [
        dense(query[i : i + 1], each[0], each[1], 0.3)
        for i, each in enumerate(zip(keys.split(lengths), values.split(lengths), strict=True))
    ]
    torch.testing.assert_close(out.cpu(), torch.cat(expected))


def test_prompts_behind_one_another():
    torch.manual_seed(0)
    lengths = [3, 5]
    query, key, value = (torch.randn(8, heads, 4) for heads in (4, 2, 2))
    mask = torch.full((6, 6), -1e4).triu(1)
    out = torch.zeros(8, 16).npu()
    torch_npu._npu_flash_attention(
        query.flatten(1).npu(), key.npu(), value.npu(), mask.npu(), torch.tensor(lengths), 0.5, 4, 2, out
    )
    parts = zip(*(each.split(lengths) for each in (query, key, value)), strict=True)
    expected = torch.cat([dense(*part, 0.5, mask[: len(part[0]), : len(part[0])]) for part in parts])
    torch.testing.assert_close(out.cpu(), expected.flatten(1))


def test_rotation_by_positions():
    torch.manual_seed(0)
    angles = torch.randn(10, 3)
    cache = torch.cat((angles.cos(), angles.sin()), 1)
    positions = torch.tensor([4, 1])
    for neox in (True, False):
        query, key = torch.randn(2, 2 * 8), torch.randn(2, 8)
        moved = [query.npu(), key.npu()]
        torch_npu._npu_rotary_embedding(positions.npu(), *moved, 8, cache.npu(), neox)
        for before, after in zip((query, key), moved, strict=True):
            heads = before.view(2, -1, 8)
            pairs = heads[..., :6].unflatten(-1, (2, 3) if neox else (3, 2)).movedim(-2 if neox else -1, 0)
            turned = torch.view_as_complex(torch.stack((pairs[0], pairs[1]), -1).contiguous())
            turned = turned * torch.polar(torch.ones(2, 1, 3), angles[positions][:, None])
            parts = (turned.real, turned.imag)
            joined = torch.cat(parts, -1) if neox else torch.stack(parts, -1).flatten(-2)
            expected = torch.cat((joined, heads[..., 6:]), -1).view_as(before)
            torch.testing.assert_close(after.cpu(), expected)
