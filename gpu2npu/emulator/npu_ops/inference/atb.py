"""Operators of Ascend's Transformer Boost (`torch.ops.atb`, in torch_npu by the same names): vLLM's way of inference.

Definitions and arguments are those of op-plugin's `op_plugin/ops/atb`, which torch_npu has from 2.5.1 on. Keys and
values are in caches of blocks (blocks, block size, heads, head size). Each writes its result into a tensor.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu2npu.emulator.device.dispatch import support_table
from gpu2npu.emulator.registration import Function, implement

_library = torch.library.Library("atb", "FRAGMENT")


def names() -> frozenset[str]:
    """The operators that the release in use has."""
    release = support_table.release()
    if release is not None and tuple(map(int, release.split(".")[:2])) < (2, 5):
        return frozenset()
    return frozenset(schema.partition("(")[0] for schema in _OPERATORS)


def install() -> None:
    """Define the operators."""
    for schema, function in _OPERATORS.items():
        _library.define(schema)
        implement(_library, schema.partition("(")[0], function, "PrivateUse1")


def _attend(query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Tensor | None = None) -> Tensor:
    """Attention of one sequence: (rows, heads, size) over (columns, key heads, size), in float32."""
    groups = query.size(1) // key.size(1)
    rows, columns, values = (each.float().transpose(0, 1) for each in (query, key, value))
    scores = rows @ columns.repeat_interleave(groups, 0).transpose(1, 2) * scale
    if mask is not None:
        scores = scores + mask.float()
    return (torch.softmax(scores, -1) @ values.repeat_interleave(groups, 0)).transpose(0, 1)


def paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    out: Tensor,
    *,
    workspace: Tensor | None = None,
) -> None:
    """A new token of each sequence over the tokens that it has in the caches."""
    tokens, size = query.reshape(len(context_lens), num_heads, -1), key_cache.size(1)
    results = []
    for token, blocks, length in zip(tokens, block_table.long(), context_lens.tolist(), strict=True):
        chosen = blocks[: -(-length // size)]
        key, value = (
            each[chosen].reshape(len(chosen) * size, num_kv_heads, -1)[:length] for each in (key_cache, value_cache)
        )
        results.append(_attend(token[None], key, value, scale_value))
    out.copy_(torch.cat(results).reshape(out.shape))


def paged_attention_workspace(query: Tensor, *args: object) -> Tensor:
    """Memory of the operator, of which none is needed."""
    return torch.empty(0, dtype=torch.uint8, device=query.device)


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    scale_value: float,
    num_heads: int,
    num_kv_heads: int,
    out: Tensor,
) -> None:
    """Prompts behind one another, of `seq_len` tokens each; `mask` is added to the scores."""
    lengths, results = seq_len.tolist(), []
    heads = (num_heads, num_kv_heads, num_kv_heads)
    parts = [
        each.reshape(-1, count, each.numel() // sum(lengths) // count).split(lengths)
        for each, count in zip((query, key, value), heads, strict=True)
    ]
    for batch, (rows, columns, values) in enumerate(zip(*parts, strict=True)):
        own = mask if mask.dim() == 2 else mask[batch if mask.size(0) > 1 else 0]
        results.append(_attend(rows, columns, values, scale_value, own[..., : len(rows), : len(rows)]))
    out.copy_(torch.cat(results).reshape(out.shape))


def reshape_and_cache(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_indices: Tensor) -> None:
    """Put the keys and values of tokens into their slots of the caches."""
    for tokens, cache in ((key, key_cache), (value, value_cache)):
        cache.view(-1, *cache.shape[2:])[slot_indices.long()] = tokens.reshape(-1, *cache.shape[2:])


def rotary_embedding(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, is_neox_style: bool
) -> None:
    """Turn queries and keys by their positions, halves of a head against each other, or neighbours."""
    cosine, sine = cos_sin_cache.float()[positions.flatten().long()].unsqueeze(1).chunk(2, -1)
    for tensor in (query, key):
        heads = tensor.float().reshape(len(cosine), -1, head_size)
        turning, rest = heads[..., : cosine.size(-1) * 2], heads[..., cosine.size(-1) * 2 :]
        first, second = turning.chunk(2, -1) if is_neox_style else (turning[..., ::2], turning[..., 1::2])
        turned = (first * cosine - second * sine, second * cosine + first * sine)
        joined = torch.cat(turned, -1) if is_neox_style else torch.stack(turned, -1).flatten(-2)
        tensor.copy_(torch.cat((joined, rest), -1).reshape(tensor.shape))


_PAGED = (
    "Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, int num_heads, float scale_value, "
    "Tensor block_table, Tensor context_lens, Tensor(a!) out"
)
_OPERATORS: dict[str, Function] = {
    f"_npu_paged_attention({_PAGED}, *, Tensor? workspace=None) -> ()": paged_attention,
    f"_npu_paged_attention_get_workspace({_PAGED}) -> Tensor": paged_attention_workspace,
    "_npu_flash_attention(Tensor query, Tensor key, Tensor value, Tensor mask, Tensor seq_len, float scale_value, "
    "int num_heads, int num_kv_heads, Tensor(a!) out) -> ()": flash_attention,
    "_npu_reshape_and_cache(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, "
    "Tensor slot_indices) -> ()": reshape_and_cache,
    "_npu_rotary_embedding(Tensor positions, Tensor(a!) query, Tensor(b!) key, int head_size, Tensor cos_sin_cache, "
    "bool is_neox_style) -> ()": rotary_embedding,
}
