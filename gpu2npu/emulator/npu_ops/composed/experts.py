"""Mixtures of experts by a routing map (tokens, experts), as Megatron has them, and networks of several experts."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema
from gpu2npu.emulator.npu_ops.composite import composite

npu = torch.ops.npu


@by_schema(composite, "npu_moe_token_permute_with_routing_map")
def npu_moe_token_permute_with_routing_map(a: Arguments) -> tuple[Tensor, Tensor, Tensor]:
    """The tokens of each expert in turn, their probabilities, and the way back, int32.

    The way back is the place of each token's copies, token by token; with `drop_and_pad`, where each expert takes
    the same number of tokens, it is the token at each place.
    """
    chosen = a.routing_map.bool().t()
    if a.drop_and_pad:
        capacity = (a.num_out_tokens or len(a.tokens)) // a.routing_map.shape[1]
        rows = torch.argsort(chosen.int(), dim=1, descending=True, stable=True)[:, :capacity]
        weights = a.tokens.new_empty(0) if a.probs is None else a.probs.t().gather(1, rows).flatten()
        return a.tokens.index_select(0, rows.flatten()), weights, rows.flatten().int()
    rows = torch.nonzero(chosen)[:, 1]
    weights = a.tokens.new_empty(0) if a.probs is None else torch.masked_select(a.probs.t(), chosen)
    return a.tokens.index_select(0, rows), weights, torch.argsort(rows, stable=True).int()


@by_schema(composite, "npu_moe_token_unpermute_with_routing_map")
def npu_moe_token_unpermute_with_routing_map(a: Arguments) -> Tensor:
    """(tokens, hidden): the sum of each token's copies, by the probabilities that the routing map chooses."""
    permuted_tokens = a.permuted_tokens
    if a.drop_and_pad:
        if a.probs is not None:
            capacity = len(a.sorted_indices) // a.probs.shape[1]
            weights = a.probs.t().gather(1, a.sorted_indices.long().view(-1, capacity)).reshape(-1, 1)
            permuted_tokens = permuted_tokens * weights
        zeros = permuted_tokens.new_zeros(list(a.restore_shape))
        return zeros.index_add(0, a.sorted_indices, permuted_tokens)
    if a.routing_map is not None and (a.routing_map.bool().sum(1) != len(a.sorted_indices) // a.restore_shape[0]).any():
        raise NotImplementedError(
            "npu_moe_token_unpermute_with_routing_map: the emulated NPU takes tokens with equally many experts only"
        )
    copies = permuted_tokens.index_select(0, a.sorted_indices).view(a.restore_shape[0], -1, a.restore_shape[1])
    if a.probs is not None:
        if a.routing_map is None:
            raise RuntimeError("npu_moe_token_unpermute_with_routing_map: probs need a routing_map")
        copies = copies * torch.masked_select(a.probs, a.routing_map.bool()).view(a.restore_shape[0], -1, 1)
    return copies.sum(1)


_ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "fastgelu": lambda x: npu.npu_fast_gelu(x),
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
}


@by_schema(composite, "npu_ffn")
def npu_ffn(a: Arguments) -> Tensor:
    """activation(x @ weight1 + bias1) @ weight2 + bias2, of each expert where the tokens of each are given."""
    if a.activation not in _ACTIVATIONS:
        raise NotImplementedError("torch_npu.npu_ffn: the emulated NPU does not compute gated networks")

    def network(rows: Tensor, *weights: Tensor | None) -> Tensor:
        inner = _ACTIVATIONS[a.activation](_linear(rows, weights[0], weights[1]))
        return _linear(inner, weights[2], weights[3]).to(a.x.dtype)

    weights, ends = (a.weight1, a.bias1, a.weight2, a.bias2), a.expert_tokens_index
    if a.expert_tokens is not None:
        ends = torch.tensor(a.expert_tokens).cumsum(0).tolist()
    if ends is None:
        return network(a.x, *weights)
    parts, start = [], 0
    for expert, end in enumerate(ends):
        parts.append(network(a.x[start:end], *(None if each is None else each[expert] for each in weights)))
        start = end
    return torch.cat(parts)


def _linear(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    assert weight is not None
    return x @ weight if bias is None else x @ weight + bias
