import math

import pytest
import torch
import torch.nn.functional as F
import torch_npu
from torch.func import grad, jvp, vmap

B, N, S, D = 2, 4, 6, 8
COMPRESSED = torch.triu(torch.ones(2048, 2048), diagonal=1).bool()
PREFIXED = torch.cat((COMPRESSED, torch.arange(2048).expand(1024, -1) >= 1024))  # of sparse_mode 6


def attend(q, k, v, scale, hidden=None, pse=None):
    """(B, N, S, D) by the formula; key and value heads are repeated."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2)
    scores = (scores if pse is None else scores + pse) * scale
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    p = scores.softmax(-1)
    return p.nan_to_num(0) @ v if hidden is not None else p @ v


def to_bnsd(x, layout, heads):
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return x.transpose(1, 2)
    x = x.transpose(0, 1) if layout == "SBH" else x
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def from_bnsd(x, layout):
    if layout == "BNSD":
        return x
    x = x.transpose(1, 2)
    if layout == "BSND":
        return x
    x = x.flatten(-2)
    return x.transpose(0, 1) if layout == "SBH" else x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("heads", [N, 2, 1])
@pytest.mark.parametrize("layout", ["BSH", "SBH", "BNSD", "BSND"])
def test_layouts_and_shared_heads(agrees, layout, heads, dtype):
    def formula(q, k, v, *rest):
        return from_bnsd(
            attend(to_bnsd(q, layout, N), to_bnsd(k, layout, heads), to_bnsd(v, layout, heads), 0.3), layout
        )

    query = from_bnsd(torch.randn(B, N, S, D), layout).contiguous()
    key, value = (from_bnsd(torch.randn(B, heads, 9, D), layout).contiguous() for _ in range(2))
    operator = lambda q, k, v, *rest: torch_npu.npu_fusion_attention(q, k, v, *rest, scale=0.3)  # noqa: E731
    agrees(operator, formula, query, key, value, N, layout, dtype=dtype)


def masks(mode, rows, columns):
    i, j = torch.arange(rows)[:, None], torch.arange(columns)[None, :]
    lag = columns - rows
    return {
        2: j > i,
        3: j > i + lag,
        4: (j < i + lag - 3) | (j > i + lag + 1),
        6: torch.stack([(j > i + lag) & (j >= n) for n in (4, 7)])[:, None],
    }[mode]


@pytest.mark.parametrize("mode", [2, 3, 4, 6])
@pytest.mark.parametrize(("rows", "columns"), [(6, 6), (5, 9), (9, 5)])
def test_causal_band_and_prefix_modes(agrees, mode, rows, columns):
    query, key, value = (torch.randn(B, N, n, D) for n in (rows, columns, columns))
    agrees(
        lambda q, k, v: torch_npu.npu_fusion_attention(
            q, k, v, N, "BNSD", scale=0.5, sparse_mode=mode, pre_tockens=3, next_tockens=1, prefix=[4, 7],
            atten_mask=(PREFIXED if mode == 6 else COMPRESSED).npu(),
        ),
        lambda q, k, v: attend(q, k, v, 0.5, masks(mode, rows, columns)),
        query, key, value,
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(B, N, S, S), (B, 1, S, S), (1, 1, S, S), (S, S)])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("kind", [torch.bool, torch.uint8])
def test_given_masks(agrees, shape, mode, kind):
    hidden = torch.rand(shape) < 0.4
    hidden[..., 0] = False
    agrees(
        lambda q, k, v: torch_npu.npu_fusion_attention(
            q, k, v, N, "BNSD", atten_mask=hidden.to(kind).npu(), sparse_mode=mode
        )[0],
        lambda q, k, v: attend(q, k, v, 1.0, hidden),
        *(torch.randn(B, N, S, D) for _ in range(3)),
    )


def test_a_mask_is_what_makes_the_sparse_mode_count(agrees):
    q = torch.randn(B, N, S, D)
    agrees(
        lambda t: torch_npu.npu_fusion_attention(t, t, t, N, "BNSD", sparse_mode=3, next_tockens=0)[0],
        lambda t: attend(t, t, t, 1.0),
        q,
    )
    band = torch.zeros(S, S, dtype=torch.bool).npu()
    ours = torch_npu.npu_fusion_attention(q.npu(), q.npu(), q.npu(), N, "BNSD", atten_mask=band, next_tockens=0)[0]
    torch.testing.assert_close(ours.cpu(), attend(q, q, q, 1.0, masks(2, S, S)))


@pytest.mark.parametrize("shape", [(B, N, S, S), (1, N, S, S), (B, N, 1, S)])
def test_position_encoding_is_added_before_the_scale_and_has_a_gradient(agrees, shape):
    agrees(
        lambda q, k, v, pse: torch_npu.npu_fusion_attention(q, k, v, N, "BNSD", pse=pse, scale=0.2),
        lambda q, k, v, pse: attend(q, k, v, 0.2, pse=pse),
        *(torch.randn(B, N, S, D) for _ in range(3)), torch.randn(shape),
    )  # fmt: skip


@pytest.mark.parametrize("mode", [0, 2, 3])
def test_sequences_of_several_lengths(agrees, mode):
    q_ends, k_ends = [3, 4, 9], [5, 7, 12]

    def formula(q, k, v):
        parts, begin_q, begin_k = [], 0, 0
        for end_q, end_k in zip(q_ends, k_ends, strict=True):
            part = (t[begin:end].transpose(0, 1)[None] for t, begin, end in
                    ((q, begin_q, end_q), (k, begin_k, end_k), (v, begin_k, end_k)))  # fmt: skip
            hidden = masks(mode, end_q - begin_q, end_k - begin_k) if mode else None
            parts.append(attend(*part, 0.4, hidden)[0].transpose(0, 1))
            begin_q, begin_k = end_q, end_k
        return torch.cat(parts)

    def operator(q, k, v):
        return torch_npu.npu_fusion_attention(
            q, k, v, N, "TND", scale=0.4, sparse_mode=mode, atten_mask=COMPRESSED.npu() if mode else None,
            actual_seq_qlen=q_ends, actual_seq_kvlen=k_ends,
        )  # fmt: skip

    agrees(operator, formula, torch.randn(9, N, D), torch.randn(12, 2, D), torch.randn(12, 2, D))
    assert operator(*(torch.ones(n, N, D).npu() for n in (9, 12, 12)))[1].shape == (9, N, 8)


def test_all_seven_results():
    q, k = torch.randn(B, N, S, D).half(), torch.randn(B, N, 9, D).half()
    y, largest, total, reserved, seed, offset, length = torch_npu.npu_fusion_attention(
        q.npu(), k.npu(), k.npu(), N, "BNSD", scale=0.25
    )
    scores = q.float() @ k.float().transpose(-1, -2) * 0.25
    torch.testing.assert_close(largest.cpu(), scores.amax(-1, keepdim=True).expand(B, N, S, 8))
    torch.testing.assert_close(
        total.cpu(), (scores - scores.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True).expand(B, N, S, 8)
    )
    assert (y.dtype, largest.dtype, reserved.numel()) == (torch.float16, torch.float32, 0)
    assert (seed, offset, length) == (0, 0, 0)


def test_the_third_version_gives_tensors_for_seed_and_offset():
    inputs = [torch.randn(9, N, D).npu().requires_grad_() for _ in range(3)]
    ends = torch.tensor([4, 9])
    first = torch_npu.npu_fusion_attention(
        *inputs, N, "TND", scale=0.4, actual_seq_qlen=ends.tolist(), actual_seq_kvlen=ends.tolist()
    )
    third = torch_npu.npu_fusion_attention_v3(
        *inputs, N, "TND", scale=0.4, actual_seq_qlen=ends.npu(), actual_seq_kvlen=ends.npu()
    )
    for ours, theirs in zip(third[:3], first, strict=False):
        assert torch.equal(ours, theirs)
    for number in third[4:]:
        assert (number.device.type, number.dtype, tuple(number.shape)) == ("npu", torch.int64, (1,))
    flow = torch.randn(9, N, D).npu()
    pairs = (torch.autograd.grad(y[0], inputs, flow) for y in (first, third))
    for theirs, ours in zip(*pairs, strict=True):
        assert torch.equal(ours, theirs)


def test_the_gradient_takes_the_statistics_of_more_keys():
    q, k, v, g = (torch.randn(1, 2, 6, 4) for _ in range(4))
    whole = [each.clone().requires_grad_() for each in (q, k, v)]
    attend(*whole, 0.3).backward(g)
    q, k, v, g = (each.npu() for each in (q, k, v, g))
    y, largest, total, *_ = torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD", scale=0.3)
    saved = {"softmax_max": largest, "softmax_sum": total, "attention_in": y, "scale_value": 0.3}
    halves = [
        torch_npu.npu_fusion_attention_grad(q, k[:, :, part], v[:, :, part], g, 2, "BNSD", **saved)
        for part in (slice(0, 3), slice(3, 6))
    ]
    dq = halves[0][0] + halves[1][0]
    dk, dv = (torch.cat([half[i] for half in halves], 2) for i in (1, 2))
    for ours, theirs in zip((dq, dk, dv), whole, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs.grad, rtol=1e-4, atol=1e-5)


def test_dropout_repeats_in_the_backward_pass_and_with_the_seed():
    torch.npu.manual_seed(3)
    inputs = [torch.randn(1, 2, 32, 8).npu().requires_grad_() for _ in range(3)]
    y, *_, seed, _, length = torch_npu.npu_fusion_attention(*inputs, 2, "BNSD", scale=0.3, keep_prob=0.7)
    assert seed
    assert length
    y.sum().backward()
    # Linear in the value: the gradient for it, dotted with it, is the result itself.
    torch.testing.assert_close((inputs[2].grad * inputs[2]).sum(), y.sum(), rtol=1e-4, atol=1e-4)
    torch.npu.manual_seed(3)
    again = torch_npu.npu_fusion_attention(*inputs, 2, "BNSD", scale=0.3, keep_prob=0.7)[0]
    assert torch.equal(y, again)
    ones = torch.ones(1, 2, 64, 8).npu()
    with_dropout = torch_npu.npu_fusion_attention(ones, ones, ones, 2, "BNSD", keep_prob=0.7)[0]
    assert 0.9 < with_dropout.mean().item() < 1.1
    assert not torch.equal(with_dropout, torch_npu.npu_fusion_attention(ones, ones, ones, 2, "BNSD", keep_prob=0.7)[0])
    drawn = [
        torch.ops.npu.npu_fusion_attention(ones, ones, ones, 2, "BNSD", keep_prob=0.7, seed=5, offset=i)[0]
        for i in (0, 0, 1)
    ]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_gradients_by_finite_differences():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 3, 4).npu().requires_grad_() for _ in range(3))
    operator = lambda *a: torch_npu.npu_fusion_attention(*a, 2, "BNSD", scale=0.7)[0]  # noqa: E731
    assert torch.autograd.gradcheck(operator, (q, k, v), eps=1e-2, atol=2e-3, rtol=2e-3, check_undefined_grad=False)


def test_what_is_wrong_or_not_computed_says_so():
    q = torch.randn(B, N, S, D).npu()
    with pytest.raises(NotImplementedError, match="with another mask than"):
        torch_npu.npu_fusion_attention(q, q, q, N, "BNSD", sparse_mode=2, atten_mask=~COMPRESSED.npu())
    with pytest.raises(NotImplementedError, match="npu_fusion_attention: the emulated NPU does not compute sink, only"):
        torch_npu.npu_fusion_attention(q, q, q, N, "BNSD", sink=torch.ones(N).npu())
    joined = q.transpose(0, 2).reshape(S, B, -1)  # "SBH"
    for shape in ((B + 1, N, S, S), (B, N + 1, S, S)):
        for given, layout in ((q, "BNSD"), (joined, "SBH")):
            with pytest.raises(RuntimeError, match=r"\[npu_fusion_attention-pse\]"):
                torch_npu.npu_fusion_attention(given, given, given, N, layout, pse=torch.zeros(shape).npu())


def test_attention_of_pytorch_is_the_operator_and_agrees(agrees):
    q, k = torch.randn(B, N, 4, D), torch.randn(B, N, S, D)
    named = [F.scaled_dot_product_attention] * 2
    agrees(*named, q, k, k.flip(0), is_causal=True)
    agrees(*named, q, k[:, :2], k[:, :2].flip(0), enable_gqa=True, scale=0.3)
    for shape in ((4, S), (1, S), (N, 4, S), (B, 1, 1, S)):
        mask = torch.rand(shape) > 0.3
        mask[..., 0] = True
        agrees(*named, q, k, k.flip(0), attn_mask=mask)
    agrees(*named, q[:0], k[:0], k[:0])
    agrees(*named, q[:0], k[:0, :2], k[:0, :2], enable_gqa=True)
    agrees(*named, torch.randn(2, N, 300, D), *[torch.randn(1, N, 300, D)] * 2)  # composed, as batches differ
    agrees(*named, torch.randn(1, N, 4, D), *[torch.randn(2, N, 4, D)] * 2)
    result = F.scaled_dot_product_attention(q.npu().requires_grad_(), k.npu(), k.npu())
    assert result.grad_fn.name() == "NpuFusionAttentionV3Backward0"


def test_transforms_of_attention():
    x = torch.randn(B, N, S, D)

    def loss(x):
        return F.scaled_dot_product_attention(x, x.flip(2), x.sin(), is_causal=True).square().sum()

    torch.testing.assert_close(grad(loss)(x.npu()).cpu(), grad(loss)(x))
    each = vmap(grad(lambda x: loss(x[None])))
    torch.testing.assert_close(each(x.npu()).cpu(), each(x))
    with pytest.raises(NotImplementedError, match="forward AD with npu_fusion_attention"):
        jvp(loss, (x.npu(),), (x.npu(),))


def test_attention_is_exported():
    class Attend(torch.nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x)

    x = torch.randn(B, N, S, D)
    exported = torch.export.export(Attend().npu(), (x.npu(),)).module()
    torch.testing.assert_close(exported(x.npu()).cpu(), Attend()(x))


def test_attention_that_drops_all_raises():
    x = torch.randn(B, N, S, D).npu()
    with pytest.raises(RuntimeError, match=r"keep_prob value must be in range of \(0, 1\], but got 0"):
        F.scaled_dot_product_attention(x, x, x, dropout_p=1.0)
