"""Which of torch_npu's operators are differentiated, and by which of its other operators.

The pairs are those of `op_plugin/config/derivatives.yaml` in Ascend's op-plugin, from which torch_npu is built, and of
the mixture-of-experts operators in torch_npu 2.13.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch

from gpu2npu.emulator.custom.gradient import Formula, Gradient, node

Arguments = SimpleNamespace
Results = tuple[Any, ...]
npu = torch.ops.npu

GRADIENTS: dict[str, Gradient] = {}


def _gradient(*names: str, differentiable: tuple[int, ...] = (0,)) -> Callable[[Formula], Formula]:
    def register(formula: Formula) -> Formula:
        for name in names:
            GRADIENTS[name] = Gradient(formula, differentiable)
        return formula

    return register


def nodes() -> dict[str, Callable[..., Any]]:
    """The autograd function of each differentiable operator, by name."""
    result = {}
    for name, gradient in GRADIENTS.items():
        packet, _, overload = name.partition(".")
        result[name] = node(getattr(getattr(npu, packet), overload or "default"), gradient)
    return result


def _pick(names: str, values: Any) -> Mapping[str, Any]:
    return dict(zip(names.split(), values, strict=False))


@_gradient("fast_gelu", "npu_fast_gelu")
def _fast_gelu(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": npu.npu_fast_gelu_backward(g[0], a.self)}


@_gradient("npu_gelu")
def _gelu(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": npu.npu_gelu_backward(g[0], a.self, approximate=a.approximate)}


@_gradient("npu_silu")
def _silu(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": npu.npu_silu_backward(g[0], a.self, y[0])}


@_gradient("npu_mish")
def _mish(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": npu.npu_mish_backward(g[0], a.self)}


@_gradient("npu_swiglu")
def _swiglu(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": npu.npu_swiglu_backward(g[0], a.self, a.dim)}


@_gradient("npu_geglu")
def _geglu(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": npu.npu_geglu_grad(g[0], a.self, y[1], a.dim, a.approximate, a.activate_left)}


@_gradient("npu_rotary_mul")
def _rotary_mul(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    if a.rotate is not None:
        raise RuntimeError("npu_rotary_mul is not differentiable when it is given rotate")
    return _pick("self r1 r2", npu.npu_rotary_mul_backward(g[0], a.self, a.r1, a.r2, a.rotary_mode))


@_gradient("npu_rms_norm")
def _rms_norm(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    grad, grad_gamma = npu.npu_rms_norm_backward(g[0], a.self, a.gamma, y[1])
    return {"self": grad, "gamma": grad_gamma.to(a.gamma.dtype)}


@_gradient("npu_add_layer_norm", differentiable=(0, 3))
def _add_layer_norm(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    found = npu.npu_add_layer_norm_backward(g[0], a.x1, a.x2, y[2], y[1], a.gamma, g[3])
    return {
        "x1": found[0],
        "x2": found[1].to(a.x2.dtype),
        "gamma": found[2].to(a.gamma.dtype),
        "beta": found[3].to(a.beta.dtype),
    }


@_gradient("npu_deep_norm", differentiable=(2,))
def _deep_norm(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    dx, dgx, dbeta, dgamma = npu.npu_deep_norm_backward(g[2], a.x, a.gx, a.gamma, y[0], y[1], a.alpha)
    return {"x": dx, "gx": dgx, "beta": dbeta.to(a.beta.dtype), "gamma": dgamma.to(a.gamma.dtype)}


@_gradient("npu_group_norm_swish")
def _group_norm_swish(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    wanted = [a.needs[name] for name in ("input", "weight", "bias")]
    found = npu.npu_group_norm_swish_grad(
        g[0], a.input, a.num_groups, a.weight, a.bias, y[1], y[2], wanted, a.swish_scale
    )
    return _pick("input weight bias", found)


@_gradient("npu_linear")
def _linear(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    grad_input, grad_weight = npu.npu_linear_backward(g[0], a.input, a.weight)
    bias = g[0].reshape(-1, g[0].shape[-1]).sum(0) if a.needs["bias"] else None
    return {"input": grad_input, "weight": grad_weight, "bias": bias}


@_gradient("npu_bmmV2")
def _bmm_v2(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {
        "self": npu.npu_bmm_v2_mat1_backward(g[0], a.self, a.mat2, a.self.shape) if a.needs["self"] else None,
        "mat2": npu.npu_bmm_v2_mat2_backward(g[0], a.self, a.mat2, a.mat2.shape) if a.needs["mat2"] else None,
    }


@_gradient("npu_confusion_transpose")
def _confusion_transpose(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": npu.npu_confusion_transpose_backward(g[0], a.perm, a.self.shape, not a.transpose_first)}


@_gradient("_npu_dropout", "npu_dropout_do_mask")
def _dropout(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": npu.npu_dropout_backward(g[0], y[1], a.p)}


@_gradient("_dropout_with_byte_mask")
def _byte_dropout(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": npu._dropout_with_byte_mask_backward(g[0], y[1], a.p)}


@_gradient("npu_dropout_with_add_softmax", differentiable=(2,))
def _dropout_with_add_softmax(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    found = npu.npu_dropout_with_add_softmax_backward(g[2], y[0], y[1], a.alpha, a.prob, a.dim)
    return _pick("self x1", found)


@_gradient("npu_scaled_masked_softmax")
def _scaled_masked_softmax(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"x": npu.npu_scaled_masked_softmax_backward(g[0], y[0], a.mask, a.scale, a.fixed_triu_mask)}


@_gradient("npu_fusion_attention")
def _fusion_attention(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    found = npu.npu_fusion_attention_grad(
        a.query,
        a.key,
        a.value,
        g[0],
        a.head_num,
        a.input_layout,
        pse=a.pse,
        padding_mask=a.padding_mask,
        atten_mask=a.atten_mask,
        softmax_max=y[1],
        softmax_sum=y[2],
        softmax_in=y[3],
        attention_in=y[0],
        scale_value=a.scale,
        keep_prob=a.keep_prob,
        pre_tockens=a.pre_tockens,
        next_tockens=a.next_tockens,
        inner_precise=a.inner_precise,
        seed=y[4],
        offset=y[5],
        numels=y[6],
        prefix=a.prefix,
        actual_seq_qlen=a.actual_seq_qlen,
        actual_seq_kvlen=a.actual_seq_kvlen,
        sparse_mode=a.sparse_mode,
        gen_mask_parallel=a.gen_mask_parallel,
        sync=a.sync,
        softmax_layout=a.softmax_layout,
        sink=a.sink,
    )
    return _pick("query key value pse", found)


@_gradient("npu_fusion_attention_v2")
def _fusion_attention_v2(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    found = npu.npu_fusion_attention_grad_v2(
        a.query,
        a.key,
        a.value,
        g[0],
        a.head_num,
        a.input_layout,
        pse=a.pse,
        padding_mask=a.padding_mask,
        atten_mask=a.atten_mask,
        softmax_max=y[1],
        softmax_sum=y[2],
        softmax_in=y[3],
        attention_in=y[0],
        query_rope=a.query_rope,
        key_rope=a.key_rope,
        scale_value=a.scale,
        keep_prob=a.keep_prob,
        pre_tokens=a.pre_tokens,
        next_tokens=a.next_tokens,
        inner_precise=a.inner_precise,
        seed=y[4],
        offset=y[5],
        numels=y[6],
        prefix=a.prefix,
        actual_seq_qlen=a.actual_seq_qlen,
        actual_seq_kvlen=a.actual_seq_kvlen,
        sparse_mode=a.sparse_mode,
        pse_type=a.pse_type,
        softmax_layout=a.softmax_layout,
    )
    return {"query": found[0], "key": found[1], "value": found[2], "pse": found[3]}


@_gradient("npu_fused_attention_score_fwd")
def _fused_attention_score(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    found = npu.npu_fused_attention_score_backward(
        g[0],
        y[1],
        a.query_layer,
        a.key_layer,
        a.value_layer,
        y[2],
        a.scale,
        a.keep_prob,
        a.query_transpose,
        a.key_transpose,
        a.value_transpose,
        a.dx_transpose,
    )
    return _pick("query_layer key_layer value_layer", found)


@_gradient("npu_giou")
def _giou(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return _pick("self gtboxes", npu.npu_giou_backward(g[0], a.self, a.gtboxes, a.trans, a.is_cross, a.mode))


@_gradient("npu_diou")
def _diou(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return _pick("self gtboxes", npu.npu_diou_backward(g[0], a.self, a.gtboxes, a.trans, a.is_cross, a.mode))


@_gradient("_npu_ciou")
def _ciou(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return _pick("self gtboxes", npu.npu_ciou_backward(g[0], a.self, a.gtboxes, y[1], a.trans, a.is_cross, a.mode))


@_gradient("npu_cross_entropy_loss")
def _cross_entropy_loss(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    grad = npu.npu_cross_entropy_loss_backward(
        g[0], y[1], a.target, a.weight, None, None, a.reduction, a.ignore_index, a.label_smoothing
    )
    return {"input": grad}


@_gradient("npu_softmax_cross_entropy_with_logits")
def _softmax_cross_entropy(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": npu.npu_softmax_cross_entropy_with_logits_backward(g[0], a.self, a.labels)}


@_gradient("npu_max.dim")
def _max(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": npu.npu_max_backward(g[0], a.dim, y[1], a.self.shape, a.keepdim)}


@_gradient("npu_min.dim")
def _min(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": npu.npu_min_backward(g[0], a.dim, y[1], a.self.shape, a.keepdim)}


@_gradient("npu_ps_roi_pooling")
def _ps_roi_pooling(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    grad = npu.npu_ps_roi_pooling_backward(g[0], a.rois, a.spatial_scale, a.group_size, a.output_dim, a.self.shape[2:])
    return {"self": grad}


@_gradient("npu_deformable_conv2d")
def _deformable_conv2d(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    found = npu.npu_deformable_conv2dbk(
        a.input,
        g[0],
        y[1],
        a.weight,
        a.offset,
        a.kernel_size,
        a.stride,
        a.padding,
        a.dilation,
        a.groups,
        a.deformable_groups,
        a.modulated,
    )
    return _pick("input weight offset bias", found)


@_gradient("npu_gather_sparse_index")
def _gather_sparse_index(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"input": npu.npu_gather_sparse_index_backward(g[0], a.input.shape, a.index)}


@_gradient("npu_moe_token_permute")
def _moe_token_permute(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"tokens": npu.npu_moe_token_permute_grad(a.tokens, g[0], a.indices, y[1], a.padded_mode)}


@_gradient("npu_moe_token_unpermute")
def _moe_token_unpermute(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    found = npu.npu_moe_token_unpermute_grad(
        a.permuted_tokens, g[0], a.sorted_indices, a.probs, a.padded_mode, a.restore_shape
    )
    return _pick("permuted_tokens probs", found)


@_gradient("_npu_format_cast", "npu_format_cast")
def _format_cast(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": g[0]}


@_gradient("npu_dtype_cast", "_npu_dtype_cast")
def _dtype_cast(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return {"self": g[0].to(a.self.dtype)}
