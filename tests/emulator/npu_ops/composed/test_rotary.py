"""Rotary embeddings of inference against rotations of pairs as complex numbers."""

import pytest
import torch
import torch_npu


def turned(pairs, angles):
    return torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles))


@pytest.mark.usefixtures("beyond_the_table")
def test_interleaved():
    x, angles = torch.randn(2, 3, 5, 8), torch.randn(2, 1, 5, 4)
    both = torch.cat((angles, angles), -1)
    ours = torch_npu.npu_interleave_rope(x.npu(), both.cos().npu(), both.sin().npu())
    expected = turned(x.unflatten(-1, (4, 2)), angles.expand(2, 3, 5, 4))
    torch.testing.assert_close(ours.cpu(), torch.cat((expected[..., 0], expected[..., 1]), -1))


@pytest.mark.parametrize("mode", ["half", "interleave"])
@pytest.mark.parametrize("sections", [None, [2, 1, 1]])
def test_by_positions(mode, sections):
    angles = torch.randn(10, 4)
    positions = torch.randint(0, 10, (3, 6) if sections else (6,))
    query, key = torch.randn(6, 3 * 12), torch.randn(6, 12)
    cache = torch.cat((angles.cos(), angles.sin()), -1)
    ours = torch_npu.npu_mrope(
        positions.npu(), query.npu(), key.npu(), cache.npu(), 12, mrope_section=sections, rotary_mode=mode
    )
    rows = [0, 0, 1, 2]
    chosen = (
        torch.stack([angles[positions[row], k] for k, row in enumerate(rows)], -1) if sections else angles[positions]
    )
    for found, given in zip(ours, (query, key), strict=True):
        heads = given.unflatten(-1, (-1, 12))
        part, angle = heads[..., :8], chosen[:, None].expand(*heads.shape[:2], 4)
        pairs = torch.stack(part.chunk(2, -1), -1) if mode == "half" else part.unflatten(-1, (4, 2))
        result = turned(pairs, angle)
        result = torch.cat((result[..., 0], result[..., 1]), -1) if mode == "half" else result.flatten(-2)
        torch.testing.assert_close(found.cpu(), torch.cat((result, heads[..., 8:]), -1).flatten(-2))
