"""Tokens to experts by a routing map and back, and networks of experts, against their definitions."""

import pytest
import torch
import torch.nn.functional as F
import torch_npu


def routing(tokens, experts, top):
    chosen = torch.rand(tokens, experts).topk(top).indices
    return torch.zeros(tokens, experts).scatter_(1, chosen, 1).bool()


@pytest.mark.parametrize("with_probabilities", [True, False])
def test_there_and_back(with_probabilities):
    x, chosen = torch.randn(6, 4), routing(6, 5, 2)
    probs = torch.rand(6, 5)
    ours, theirs = (each.clone().requires_grad_() for each in (x.npu(), x))
    weights, reference = (each.clone().requires_grad_() for each in (probs.npu(), probs))
    given = weights if with_probabilities else None
    tokens, order, back = torch_npu.npu_moe_token_permute_with_routing_map(
        ours, chosen.npu(), probs=given, num_out_tokens=12
    )
    rows = torch.cat([chosen[:, expert].nonzero().flatten() for expert in range(5)])
    assert torch.equal(tokens.detach().cpu(), x[rows])
    assert back.dtype is torch.int32
    assert all(torch.equal(tokens[back[i]].cpu(), x[i // 2]) for i in range(12))
    if with_probabilities:
        assert torch.equal(order.detach().cpu(), probs.t()[chosen.t()])
    found = torch_npu.npu_moe_token_unpermute_with_routing_map(
        tokens * 2, back, [6, 4], probs=given, routing_map=chosen.npu()
    )
    factor = (reference * chosen).sum(1, keepdim=True) if with_probabilities else 2.0
    expected = theirs * 2 * factor
    torch.testing.assert_close(found.cpu(), expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(ours.grad.cpu(), theirs.grad)
    if with_probabilities:
        torch.testing.assert_close(weights.grad.cpu(), reference.grad)


def test_tokens_with_different_numbers_of_experts_are_refused():
    x, chosen = torch.randn(2, 4).npu(), torch.tensor([[1, 1, 1], [1, 0, 0]]).bool().npu()
    tokens, _, back = torch_npu.npu_moe_token_permute_with_routing_map(x, chosen, num_out_tokens=4)
    with pytest.raises(NotImplementedError, match="equally many experts"):
        torch_npu.npu_moe_token_unpermute_with_routing_map(tokens, back, [2, 4], routing_map=chosen)


def test_experts_of_equal_capacity():
    x, chosen, probs = torch.randn(6, 4), routing(6, 3, 2), torch.rand(6, 3)
    tokens, weights, rows = torch_npu.npu_moe_token_permute_with_routing_map(
        x.npu(), chosen.npu(), probs=probs.npu(), num_out_tokens=9, drop_and_pad=True
    )
    assert (tokens.shape, rows.shape) == ((9, 4), (9,))
    for place, row in enumerate(rows.tolist()):
        expert = place // 3
        assert chosen[row, expert] or chosen[:, expert].sum() <= place % 3
        assert torch.equal(tokens[place].cpu(), x[row])
        assert weights[place].item() == probs[row, expert].item()
    back = torch_npu.npu_moe_token_unpermute_with_routing_map(
        tokens, rows, [6, 4], probs=probs.npu(), routing_map=chosen.npu(), drop_and_pad=True
    )
    expected = torch.zeros(6, 4).index_add(0, rows.cpu().long(), x[rows.cpu().long()] * weights.cpu()[:, None])
    torch.testing.assert_close(back.cpu(), expected)


def test_networks():
    x, first, second = torch.randn(5, 4), torch.randn(2, 4, 6), torch.randn(2, 6, 4)
    before, after = torch.randn(2, 6), torch.randn(2, 4)
    one = torch_npu.npu_ffn(
        x.npu(), first[0].npu(), second[0].npu(), "relu", bias1=before[0].npu(), bias2=after[0].npu()
    )
    torch.testing.assert_close(one.cpu(), F.relu(x @ first[0] + before[0]) @ second[0] + after[0])
    for tokens in ({"expert_tokens": [2, 3]}, {"expert_tokens_index": [2, 5]}):
        both = torch_npu.npu_ffn(x.npu(), first.npu(), second.npu(), "silu", **tokens)
        expected = torch.cat([F.silu(x[:2] @ first[0]) @ second[0], F.silu(x[2:] @ first[1]) @ second[1]])
        torch.testing.assert_close(both.cpu(), expected)
    with pytest.raises(NotImplementedError, match="gated networks"):
        torch_npu.npu_ffn(x.npu(), first[0].npu(), second[0].npu(), "swiglu")
