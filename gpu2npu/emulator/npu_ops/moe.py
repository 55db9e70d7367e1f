"""torch_npu's operators for mixtures of experts: gating, routing of tokens to experts and back."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.nn.softmax import softmax
from gpu2npu.emulator.kernels.pointwise.unary import logistic
from gpu2npu.emulator.kernels.promotion import F32, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema


def _top(scores: Array, k: int) -> Array:
    """Indices of the k largest of the last dimension, largest first, the lower index first among equals."""
    return np.argsort(-scores, axis=-1, kind="stable")[..., :k]


@kernel("npu::npu_moe_gating_top_k_softmax")
def npu_moe_gating_top_k_softmax(x: Array, finished: Array | None = None, k: int = 1) -> tuple[Array, Array, Array]:
    """The k largest of softmax(x) in each row; their experts, int32; and row numbers, int32, counted column by column.

    Experts of finished rows are the number of experts.
    """
    p = softmax(wide(x), -1)
    experts = _top(p, k)
    y = np.take_along_axis(p, experts, -1)
    if finished is not None:
        experts = np.where(finished.astype(bool)[..., None], x.shape[-1], experts)
    rows = int(np.prod(x.shape[:-1], dtype=int))
    row_idx = np.arange(rows * k, dtype=np.int32).reshape(k, rows).T.reshape(y.shape)
    return rounded(y, x.dtype), experts.astype(np.int32), row_idx


@by_schema(kernel, "npu::npu_moe_gating_top_k_softmax_v2")
def npu_moe_gating_top_k_softmax_v2(a: Arguments) -> tuple[Array, Array, Array]:
    """The k largest of softmax(x), or where `renorm` the softmax of the k largest; experts; softmax(x) if asked for."""
    p = softmax(wide(a.x), -1)
    experts = _top(p, a.k)
    y = softmax(np.take_along_axis(wide(a.x), experts, -1), -1) if a.renorm else np.take_along_axis(p, experts, -1)
    if a.finished is not None:
        experts = np.where(a.finished.astype(bool)[..., None], a.x.shape[-1], experts)
    every = rounded(p, F32) if a.output_softmax and not a.renorm else np.empty(0, F32)
    return rounded(y, a.x.dtype), experts.astype(np.int32), every


@by_schema(kernel, "npu::npu_moe_gating_top_k")
def npu_moe_gating_top_k(a: Arguments) -> tuple[Array, Array, Array]:
    """Grouped gating: k experts from the `k_group` best of `group_count` groups; biased scores choose.

    A group's score is its largest entry, or with `group_select_mode` 1 the sum of its two largest. `norm_type` 0 is
    softmax, 1 sigmoid, whose weights are divided by their sum plus eps.
    """
    if a.renorm or a.tid2eid is not None:
        raise NotImplementedError("npu_moe_gating_top_k with renorm=1 or a hash table of experts")
    values = wide(a.x)
    scores = logistic(values) if a.norm_type else softmax(values, -1)
    choice = scores if a.bias is None else scores + wide(a.bias)
    if a.group_count > 1:
        groups = choice.reshape(len(a.x), a.group_count, -1)
        ranked = np.sort(groups, axis=-1)
        marks = ranked[..., -2:].sum(axis=-1) if a.group_select_mode else ranked[..., -1]
        retained = np.zeros((len(a.x), a.group_count), bool)
        np.put_along_axis(retained, _top(marks, a.k_group), True, 1)
        choice = np.where(retained[..., None], groups, -np.inf).reshape(a.x.shape)
    experts = _top(choice, a.k)
    y = np.take_along_axis(scores, experts, -1)
    if a.norm_type:
        y = y / (y.sum(axis=-1, keepdims=True) + np.float32(a.eps))
    normed = rounded(scores, F32) if a.out_flag else np.empty(0, F32)
    return rounded(y * np.float32(a.routed_scaling_factor), a.x.dtype), experts.astype(np.int32), normed


@kernel("npu::npu_moe_init_routing")
def npu_moe_init_routing(x: Array, row_idx: Array, expert_idx: Array, active_num: int) -> tuple[Array, Array, Array]:
    """Tokens sorted by expert.

    Returns:
        (min(rows, active_num) * k, H) tokens; (rows * k,) the place of each row number; (rows * k,) sorted experts.
    """
    order = np.argsort(expert_idx.reshape(-1), kind="stable")
    rows = row_idx.reshape(-1)[order]
    places = np.empty(rows.size, np.int32)
    places[rows] = np.arange(rows.size, dtype=np.int32)
    count = min(len(x), active_num) * expert_idx.shape[1]
    return x[rows[:count] % len(x)], places, expert_idx.reshape(-1)[order].astype(np.int32)


@kernel("npu::npu_moe_compute_expert_tokens")
def npu_moe_compute_expert_tokens(sorted_expert_for_source_row: Array, num_expert: int) -> Array:
    """(num_expert,) int32: how many tokens the experts up to each have."""
    return np.searchsorted(sorted_expert_for_source_row, np.arange(num_expert), side="right").astype(np.int32)


@by_schema(kernel, "npu::npu_moe_finalize_routing")
def npu_moe_finalize_routing(a: Arguments) -> Array:
    """(rows, H): the experts' results of each row, plus the experts' bias, by the scales; and the skips added."""
    if a.drop_pad_mode:
        raise NotImplementedError("npu_moe_finalize_routing with a drop_pad_mode")
    top = a.scales.shape[1] if a.scales is not None else int(a.k or 1)
    rows = a.expanded_src_to_dst_row.size // top
    taken = wide(a.expanded_permuted_rows)[a.expanded_src_to_dst_row.reshape(top, rows)]  # (k, rows, H)
    if a.bias is not None and a.export_for_source_row is not None:
        taken = taken + wide(a.bias)[a.export_for_source_row.T]
    if a.scales is not None:
        taken = taken * wide(a.scales).T[..., None]
    result = taken.sum(axis=0)
    for skip in (a.skip1, a.skip2):
        if skip is not None:
            result = result + wide(skip)
    return rounded(result, a.expanded_permuted_rows.dtype)


def _retained_tokens(count: int, num_out_tokens: int | None) -> int:
    if not num_out_tokens:
        return count
    return min(num_out_tokens, count) if num_out_tokens > 0 else count + num_out_tokens


@by_schema(kernel, "npu::npu_moe_token_permute")
def npu_moe_token_permute(a: Arguments) -> tuple[Array, Array]:
    """Tokens (N, H) copied to each of their experts (N, top k), sorted by expert; and each copy's place, int32."""
    flat = a.indices.reshape(-1)
    order = np.argsort(flat, kind="stable")
    places = np.empty(flat.size, np.int32)
    places[order] = np.arange(flat.size, dtype=np.int32)
    top = flat.size // max(len(a.tokens), 1)
    return a.tokens[order[: _retained_tokens(flat.size, a.num_out_tokens)] // max(top, 1)], places


def _copies(rows: Array, sorted_indices: Array) -> Array:
    """The row of each copy, 0 for those that were cut off."""
    inside = sorted_indices < len(rows)
    taken = wide(rows)[np.where(inside, sorted_indices, 0)]
    return np.where(inside[:, None], taken, taken.dtype.type(0))


@by_schema(kernel, "npu::npu_moe_token_permute_grad")
def npu_moe_token_permute_grad(a: Arguments) -> Array:
    """The gradient for the tokens: the sum over their copies."""
    copies = _copies(a.grad_permuted_tokens, a.sorted_indices)
    return rounded(copies.reshape(len(a.tokens), -1, a.tokens.shape[1]).sum(1), a.tokens.dtype)


@by_schema(kernel, "npu::npu_moe_token_unpermute")
def npu_moe_token_unpermute(a: Arguments) -> Array:
    """(N, H): each token's copies from its experts, times `probs` (N, top k), added up."""
    top = 1 if a.probs is None else a.probs.shape[1]
    copies = _copies(a.permuted_tokens, a.sorted_indices).reshape(-1, top, a.permuted_tokens.shape[1])
    if a.probs is not None:
        copies = copies * wide(a.probs)[..., None]
    return rounded(copies.sum(axis=1), a.permuted_tokens.dtype)


@by_schema(kernel, "npu::npu_moe_token_unpermute_grad")
def npu_moe_token_unpermute_grad(a: Arguments) -> tuple[Array, Array | None]:
    """Gradients for the copies and, where there are any, for `probs`."""
    top = 1 if a.probs is None else a.probs.shape[1]
    grad = np.repeat(wide(a.grad_unpermuted_tokens)[:, None], top, axis=1)
    grad_probs = None
    if a.probs is not None:
        copies = _copies(a.permuted_tokens, a.sorted_indices).reshape(grad.shape)
        grad_probs = rounded((grad * copies).sum(axis=-1), a.probs.dtype)
        grad = grad * wide(a.probs)[..., None]
    result = np.zeros(a.permuted_tokens.shape, F32)
    inside = a.sorted_indices < len(a.permuted_tokens)
    result[a.sorted_indices[inside]] = grad.reshape(-1, a.permuted_tokens.shape[1])[inside]
    return rounded(result, a.permuted_tokens.dtype), grad_probs


@by_schema(kernel, "npu::npu_grouped_matmul")
def npu_grouped_matmul(a: Arguments) -> list[Array]:
    """Products x[i] @ weight[i] + bias[i]; or of the groups of rows of one x, given by running ends or by counts.

    `group_type` 0 groups the rows of x, -1 nothing; `group_list_type` 0 means running ends, 1 counts. `split_item`
    2 and 3 join the results into one tensor.
    """
    rows = list(a.x)
    weights = [each for matrix in a.weight for each in (matrix if matrix.ndim == 3 else [matrix])]
    biases = None if not a.bias else [each for vector in a.bias for each in (vector if vector.ndim == 2 else [vector])]
    if a.group_list is not None:
        if a.group_type not in (0, None) or len(rows) != 1:
            raise NotImplementedError(f"npu_grouped_matmul with group_type {a.group_type}")
        ends = np.cumsum(a.group_list) if a.group_list_type == 1 else a.group_list
        starts = [0, *[int(end) for end in ends[:-1]]]
        rows = [rows[0][start : int(end)] for start, end in zip(starts, ends, strict=True)]
    results = []
    for i, (part, matrix) in enumerate(zip(rows, weights, strict=True)):
        y = wide(part) @ wide(matrix)
        results.append(rounded(y if biases is None else y + wide(biases[i]), part.dtype))
    return [np.concatenate(results)] if a.split_item in (2, 3) else results
