"""torch_npu's attention for inference against PyTorch's on the CPU."""

import pytest
import torch
import torch.nn.functional as F
import torch_npu

HEADS, SHARED, DEPTH, SCALE = 4, 2, 8, 8**-0.5
TRIANGLE = torch.triu(torch.ones(2048, 2048), diagonal=1).bool()


def laid(x, layout):
    """(B, N, S, D) in a layout."""
    if layout.startswith("BNSD"):
        return x
    x = x.transpose(1, 2)
    return x.flatten(2) if layout == "BSH" else x


def made(batch=2, rows=5, columns=7, shared=SHARED):
    return torch.randn(batch, HEADS, rows, DEPTH), *torch.randn(2, batch, shared, columns, DEPTH)


def expected(q, k, v, **options):
    return F.scaled_dot_product_attention(q, k, v, scale=SCALE, enable_gqa=True, **options)


def close(ours, wanted):
    torch.testing.assert_close(ours.cpu(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("beyond_the_table")
@pytest.mark.parametrize("layout", ["BSH", "BSND", "BNSD", "BNSD_BSND"])
def test_prompts_in_every_layout(layout):
    tensors = made()
    given = [laid(each, layout).contiguous().npu() for each in tensors]
    options = {"num_heads": HEADS, "num_key_value_heads": SHARED, "input_layout": layout}
    wanted = laid(expected(*tensors), "BSND" if layout == "BNSD_BSND" else layout)
    close(torch_npu.npu_prompt_flash_attention(*given, scale_value=SCALE, **options), wanted)
    both, sums = torch_npu.npu_fused_infer_attention_score(*given, scale=SCALE, softmax_lse_flag=True, **options)
    close(both, wanted)
    scores = tensors[0] @ tensors[1].repeat_interleave(2, 1).transpose(-1, -2) * SCALE
    close(sums, scores.logsumexp(-1, keepdim=True))


@pytest.mark.usefixtures("beyond_the_table")
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_masks(mode):
    q, k, v = made(rows=5, columns=7)
    mask = torch.rand(2, 1, 5, 7) > 0.7
    mask[..., 0] = False
    causal = torch.ones(5, 7).tril(0 if mode == 2 else 2).bool()
    found = torch_npu.npu_fused_infer_attention_score(
        q.npu(), k.npu(), v.npu(), atten_mask=(TRIANGLE if mode > 1 else mask).npu(), num_heads=HEADS,
        num_key_value_heads=SHARED, scale=SCALE, input_layout="BNSD", sparse_mode=mode,
    )[0]  # fmt: skip
    close(found, expected(q, k, v, attn_mask=causal if mode > 1 else ~mask))


@pytest.mark.usefixtures("beyond_the_table")
def test_lengths_of_sequences():
    q, k, v = made()
    found = torch_npu.npu_prompt_flash_attention(
        q.npu(), k.npu(), v.npu(), num_heads=HEADS, num_key_value_heads=SHARED, scale_value=SCALE,
        input_layout="BNSD", actual_seq_lengths=[3, 5], actual_seq_lengths_kv=[6, 2],
    )  # fmt: skip
    close(found[:1, :, :3], expected(q[:1, :, :3], k[:1, :, :6], v[:1, :, :6]))
    close(found[1:], expected(q[1:], k[1:, :, :2], v[1:, :, :2]))
    assert not found[0, :, 3:].any()


def test_tokens_of_all_sequences_in_a_row():
    q, k, v = made(rows=5, columns=7)
    rows, columns = [3, 5], [6, 2]

    def together(x, lengths):
        return torch.cat([x[b, :, :n].transpose(0, 1) for b, n in enumerate(lengths)])

    found, _ = torch_npu.npu_fused_infer_attention_score_v2(
        together(q, rows).npu(), together(k, columns).npu(), together(v, columns).npu(), num_query_heads=HEADS,
        num_key_value_heads=SHARED, softmax_scale=SCALE, input_layout="TND", actual_seq_qlen=[3, 8],
        actual_seq_kvlen=[6, 8],
    )  # fmt: skip
    parts = [
        expected(q[b : b + 1, :, : rows[b]], k[b : b + 1, :, :n], v[b : b + 1, :, :n]) for b, n in enumerate(columns)
    ]
    close(found, torch.cat([part[0].transpose(0, 1) for part in parts]))


@pytest.mark.usefixtures("beyond_the_table")
@pytest.mark.parametrize("shape", ["BnBsH", "BnNBsD", "BnBsND"])
def test_a_new_token_over_a_paged_cache(shape):
    q, k, v = made(rows=1, columns=12)
    table, size = torch.tensor([[4, 0, 2], [1, 5, 3]]).int(), 4

    def cache(x):
        blocks = torch.zeros(6, size, SHARED, DEPTH)
        for b in range(2):
            for place, block in enumerate(table[b].tolist()):
                blocks[block] = x[b, :, place * size : place * size + size].transpose(0, 1)
        return (
            {"BnBsH": blocks.flatten(2), "BnNBsD": blocks.transpose(1, 2), "BnBsND": blocks}[shape].contiguous().npu()
        )

    found = torch_npu.npu_incre_flash_attention(
        laid(q, "BSH").npu(), cache(k), cache(v), num_heads=HEADS, num_key_value_heads=SHARED, scale_value=SCALE,
        block_table=table.npu(), block_size=size, actual_seq_lengths=[10, 3],
    )  # fmt: skip
    for b, length in enumerate((10, 3)):
        one = slice(b, b + 1)
        close(found[one], laid(expected(q[one], k[one, :, :length], v[one, :, :length]), "BSH"))


@pytest.mark.usefixtures("beyond_the_table")
def test_a_cache_in_int8_and_a_result_in_int8():
    q = torch.randn(2, HEADS, 1, DEPTH)
    k, v = (torch.randint(-100, 100, (2, HEADS, 6, DEPTH), dtype=torch.int8) for _ in "kv")
    scale, offset = torch.rand(2, HEADS, 1, DEPTH) * 0.02, torch.randint(-9, 9, (2, HEADS, 1, DEPTH)).float()
    given = {"num_heads": HEADS, "scale_value": SCALE, "input_layout": "BNSD"}
    found = torch_npu.npu_incre_flash_attention(
        q.npu(), k.npu(), v.npu(), antiquant_scale=scale.npu(), antiquant_offset=offset.npu(), **given
    )
    plain = [(each.float() + offset[i]) * scale[i] for i, each in enumerate((k, v))]
    close(found, expected(q, *plain))
    rounding = torch.full((1,), 40.0)
    whole = torch_npu.npu_incre_flash_attention(
        q.npu(), *(each.npu() for each in plain), quant_scale2=rounding.npu(), **given
    )
    assert whole.dtype is torch.int8
    assert (whole.cpu().float() - (found.cpu() * 40).round().clamp(-128, 127)).abs().max() <= 1
    with pytest.raises(NotImplementedError, match="int8 without antiquant_scale"):
        torch_npu.npu_incre_flash_attention(q.npu(), k.npu(), v.npu(), **given)


@pytest.mark.usefixtures("beyond_the_table")
def test_rotary_parts_and_shifts():
    q, k, v = made(shared=HEADS)
    rope_q, rope_k, shift = torch.randn(2, HEADS, 5, 4), torch.randn(2, HEADS, 7, 4), torch.randn(1, HEADS, 5, 7)
    found, nothing = torch_npu.npu_fused_infer_attention_score(
        q.npu(), k.npu(), v.npu(), query_rope=rope_q.npu(), key_rope=rope_k.npu(), pse_shift=shift.npu(),
        num_heads=HEADS, scale=SCALE, input_layout="BNSD",
    )  # fmt: skip
    close(found, expected(torch.cat((q, rope_q), -1), torch.cat((k, rope_k), -1), v, attn_mask=shift))
    assert nothing.tolist() == [0]


@pytest.mark.usefixtures("beyond_the_table")
def test_what_is_not_computed_is_named():
    q, k, v = (each.npu() for each in made(shared=HEADS))
    with pytest.raises(NotImplementedError, match="score_v2: the emulated NPU does not compute learnable_sink"):
        torch_npu.npu_fused_infer_attention_score_v2(
            q, k, v, learnable_sink=torch.ones(HEADS).npu(), num_query_heads=HEADS, input_layout="BNSD"
        )
