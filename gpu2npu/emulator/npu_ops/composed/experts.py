"""Mixtures of experts by a routing map (tokens, experts), as Megatron has them, and networks of several experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gpu2npu.emulator.npu_ops.composite import composite

npu = torch.ops.npu


@composite("npu_moe_token_permute_with_routing_map")
def npu_moe_token_permute_with_routing_map(
    tokens: Tensor,
    routing_map: Tensor,
    *,
    probs: Tensor | None = None,
    num_out_tokens: int | None = None,
    drop_and_pad: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The tokens of each expert in turn, their probabilities, and the way back, int32.

    The way back is the place of each token's copies, token by token; with `drop_and_pad`, where each expert takes
    the same number of tokens, it is the token at each place.
    """
    chosen = routing_map.bool().t()
    if drop_and_pad:
        capacity = (num_out_tokens or len(tokens)) // routing_map.shape[1]
        rows = torch.argsort(chosen.int(), dim=1, descending=True, stable=True)[:, :capacity]
        weights = tokens.new_empty(0) if probs is None else probs.t().gather(1, rows).flatten()
        return tokens.index_select(0, rows.flatten()), weights, rows.flatten().int()
    rows = torch.nonzero(chosen)[:, 1]
    weights = tokens.new_empty(0) if probs is None else torch.masked_select(probs.t(), chosen)
    return tokens.index_select(0, rows), weights, torch.argsort(rows, stable=True).int()


@composite("npu_moe_token_unpermute_with_routing_map")
def npu_moe_token_unpermute_with_routing_map(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    restore_shape: Sequence[int],
    *,
    probs: Tensor | None = None,
    routing_map: Tensor | None = None,
    drop_and_pad: bool = False,
) -> Tensor:
    """(tokens, hidden): the sum of each token's copies, by the probabilities that the routing map chooses."""
    if drop_and_pad:
        if probs is not None:
            capacity = len(sorted_indices) // probs.shape[1]
            weights = probs.t().gather(1, sorted_indices.long().view(-1, capacity)).reshape(-1, 1)
            permuted_tokens = permuted_tokens * weights
        zeros = permuted_tokens.new_zeros(list(restore_shape))
        return zeros.index_add(0, sorted_indices, permuted_tokens)
    if routing_map is not None and (routing_map.bool().sum(1) != len(sorted_indices) // restore_shape[0]).any():
        raise NotImplementedError(
            "npu_moe_token_unpermute_with_routing_map: the emulated NPU takes tokens with equally many experts only"
        )
    copies = permuted_tokens.index_select(0, sorted_indices).view(restore_shape[0], -1, restore_shape[1])
    if probs is not None:
        if routing_map is None:
            raise RuntimeError("npu_moe_token_unpermute_with_routing_map: probs need a routing_map")
        copies = copies * torch.masked_select(probs, routing_map.bool()).view(restore_shape[0], -1, 1)
    return copies.sum(1)


_ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "fastgelu": lambda x: npu.npu_fast_gelu(x),
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
}


@composite("npu_ffn")
def npu_ffn(
    x: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    activation: str,
    *,
    expert_tokens: Sequence[int] | None = None,
    expert_tokens_index: Sequence[int] | None = None,
    bias1: Tensor | None = None,
    bias2: Tensor | None = None,
    inner_precise: int | None = None,
    **quantization: Any,
) -> Tensor:
    """activation(x @ weight1 + bias1) @ weight2 + bias2, of each expert where the tokens of each are given."""
    if activation not in _ACTIVATIONS or any(value is not None for value in quantization.values()):
        raise NotImplementedError("torch_npu.npu_ffn: the emulated NPU does not compute gated or quantized networks")

    def network(rows: Tensor, *weights: Tensor | None) -> Tensor:
        inner = _ACTIVATIONS[activation](_linear(rows, weights[0], weights[1]))
        return _linear(inner, weights[2], weights[3]).to(x.dtype)

    weights = (weight1, bias1, weight2, bias2)
    if expert_tokens is not None:
        expert_tokens_index = torch.tensor(expert_tokens).cumsum(0).tolist()
    if expert_tokens_index is None:
        return network(x, *weights)
    parts, start = [], 0
    for expert, end in enumerate(expert_tokens_index):
        parts.append(network(x[start:end], *(None if each is None else each[expert] for each in weights)))
        start = end
    return torch.cat(parts)


def _linear(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    assert weight is not None
    return x @ weight if bias is None else x @ weight + bias
