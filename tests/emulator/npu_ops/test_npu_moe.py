import pytest
import torch
import torch_npu


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gating(dtype):
    x = torch.randn(6, 8).to(dtype)
    y, experts, rows = torch_npu.npu_moe_gating_top_k_softmax(x.npu(), None, 2)
    values, indices = x.float().softmax(-1).topk(2)
    torch.testing.assert_close(y.cpu(), values.to(dtype), rtol=1e-2, atol=1e-2)
    assert torch.equal(experts.cpu(), indices.int())
    assert rows.tolist() == [[i, i + 6] for i in range(6)]
    done = torch.tensor([True] + [False] * 5).npu()
    assert torch_npu.npu_moe_gating_top_k_softmax(x.npu(), done, 2)[1][0].tolist() == [8, 8]


def test_gating_of_the_second_version_gives_the_whole_softmax_unless_it_renormalises():
    x = torch.randn(6, 8)
    values, indices = x.softmax(-1).topk(2)
    y, experts, every = torch_npu.npu_moe_gating_top_k_softmax_v2(x.npu(), k=2, output_softmax=True)
    torch.testing.assert_close((y.cpu(), every.cpu()), (values, x.softmax(-1)))
    assert torch.equal(experts.cpu(), indices.int())
    y, experts, every = torch_npu.npu_moe_gating_top_k_softmax_v2(x.npu(), k=2, renorm=1, output_softmax=True)
    torch.testing.assert_close(y.cpu(), x.topk(2).values.softmax(-1))
    assert torch.equal(experts.cpu(), indices.int()) and every.numel() == 0


def test_grouped_gating():
    x, bias = torch.randn(5, 8), torch.randn(8)
    y, experts, normed = torch_npu.npu_moe_gating_top_k(
        x.npu(), 2, bias=bias.npu(), k_group=2, group_count=4, norm_type=1, out_flag=True, routed_scaling_factor=2.5
    )
    scores = x.sigmoid()
    groups = (scores + bias).view(5, 4, 2)
    best = groups.amax(-1).topk(2).indices
    mask = torch.zeros(5, 4).scatter_(1, best, 1).bool()[..., None].expand(5, 4, 2).reshape(5, 8)
    indices = (scores + bias).masked_fill(~mask, -torch.inf).topk(2).indices
    weights = scores.gather(1, indices)
    assert torch.equal(experts.cpu().long(), indices)
    torch.testing.assert_close(y.cpu(), 2.5 * weights / weights.sum(-1, keepdim=True))
    torch.testing.assert_close(normed.cpu(), scores)


def test_a_layer_of_experts_routes_there_and_back():
    tokens, experts = torch.randn(6, 4), 3
    y, chosen, rows = torch_npu.npu_moe_gating_top_k_softmax(torch.randn(6, experts).npu(), None, 2)
    expanded, places, ordered = torch_npu.npu_moe_init_routing(tokens.npu(), rows, chosen, 6)
    assert ordered.diff().min() >= 0
    ends = torch_npu.npu_moe_compute_expert_tokens(ordered, experts)
    assert ends.tolist() == [int((chosen <= e).sum()) for e in range(experts)]
    weights = [torch.randn(4, 4) for _ in range(experts)]
    outputs = torch_npu.npu_grouped_matmul(
        [expanded], [w.npu() for w in weights], group_list=ends.long(), split_item=3, group_type=0
    )[0]
    result = torch_npu.npu_moe_finalize_routing(outputs, None, None, None, y, places, chosen)
    expected = sum(
        y.cpu()[:, k : k + 1] * torch.stack([t @ weights[e] for t, e in zip(tokens, chosen.cpu()[:, k], strict=True)])
        for k in range(2)
    )
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_permute_and_unpermute_with_gradients(agrees, dtype):
    indices = torch.tensor([[0, 2], [1, 0], [2, 1], [0, 1]])
    order = indices.flatten().argsort(stable=True)
    agrees(
        lambda t: torch_npu.npu_moe_token_permute(t, indices.npu()), lambda t: t[order // 2],
        torch.randn(4, 5), dtype=dtype,
    )  # fmt: skip
    places = torch_npu.npu_moe_token_permute(torch.randn(4, 5).npu(), indices.npu())[1]
    assert torch.equal(places.cpu().long(), order.argsort())
    agrees(
        lambda t, p: torch_npu.npu_moe_token_unpermute(t, places, p),
        lambda t, p: (t[order.argsort()].view(4, 2, 5) * p[..., None]).sum(1),
        torch.randn(8, 5), torch.rand(4, 2), dtype=dtype,
    )  # fmt: skip
    assert torch_npu.npu_moe_token_permute(torch.randn(4, 5).npu(), indices.npu(), 3)[0].shape == (3, 5)


def test_grouped_products_of_lists():
    xs, ws, bs = ([torch.randn(s) for s in shapes] for shapes in ([(2, 3), (4, 3)], [(3, 5), (3, 5)], [(5,), (5,)]))
    ours = torch_npu.npu_grouped_matmul(*([t.npu() for t in ts] for ts in (xs, ws)), bias=[b.npu() for b in bs])
    for y, x, w, b in zip(ours, xs, ws, bs, strict=True):
        torch.testing.assert_close(y.cpu(), x @ w + b)
