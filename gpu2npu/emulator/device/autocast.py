"""Autocast for the npu device: which operators run in 16 bits and which in float32.

The lists are PyTorch's own for accelerators (`AT_FORALL_*` in ATen/autocast_mode.h), as torch_npu registers them; a
backend written in C++ would register them with the same macros. Autograd sits below, so that casts are differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from gpu2npu.emulator.device.dispatch import signature
from gpu2npu.emulator.registration import implement


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LOWER_PRECISION = _names("""
    _convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input
    conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm
    baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell
    rnn_tanh_cell rnn_relu_cell _scaled_dot_product_flash_attention scaled_dot_product_attention
""")
FLOAT32 = _names("""
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
    pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim
    nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d
    hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
    multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits
    dist pdist cdist renorm logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d
    _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d
    _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa
""")
# These compute in float32 by their own `dtype` argument, unless it is given.
FLOAT32_BY_DTYPE = _names("""
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
    linalg_matrix_norm.str_ord sum sum.dim_IntList
""")
# And these by another overload, which has one.
FLOAT32_BY_OVERLOAD = {"norm.Scalar": "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype"}
WIDEST = _names("""
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
""")
BANNED = ("binary_cross_entropy",)

_KEY = "AutocastPrivateUse1"
_KEYS = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _KEY))
_to = torch.Tensor.to  # as it is now: tools that watch a program replace the methods of tensors
_without_autocast = torch._C._ExcludeDispatchKeyGuard

_aten = torch.library.Library("aten", "IMPL")
_every = torch.library.Library("_", "IMPL")

# The narrow copies of float32 weights, for as long as the outermost autocast region; the weight keeps its address.
_weights: dict[tuple[int, torch.dtype], tuple[torch.Tensor, torch.Tensor]] = {}

Operator = Callable[..., Any]


def install() -> None:
    """Register every listed operator; all others run as they are."""
    _every.fallback(torch.library.fallthrough_kernel, _KEY)
    for names, make in (
        (LOWER_PRECISION, _lower_precision),
        (FLOAT32, _float32),
        (FLOAT32_BY_DTYPE, _float32_by_dtype),
        (WIDEST, _widest),
        (BANNED, _banned),
    ):
        for name in names:
            op = signature.overload(f"aten::{name}")
            implement(_aten, op, make(op), _KEY)
    for name, wider in FLOAT32_BY_OVERLOAD.items():
        op = signature.overload(f"aten::{name}")
        implement(_aten, op, _float32_by_overload(op, signature.overload(f"aten::{wider}")), _KEY)
    clear = torch.clear_autocast_cache

    def clear_all() -> None:
        _weights.clear()
        clear()

    torch.clear_autocast_cache = clear_all


def _is_eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype is not torch.float64
        and value.device.type == "npu"
    )


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, (list, tuple)):
        return [_cast(item, dtype) for item in value]
    if not _is_eligible(value) or value.dtype is dtype:
        return value
    if not (
        value.dtype is torch.float32
        and value.requires_grad
        and value.is_leaf
        and not value._is_view()
        and torch.is_grad_enabled()
        and torch.is_autocast_cache_enabled()
    ):
        return _to(value, dtype)
    key = (id(value), dtype)
    if key not in _weights:
        _weights[key] = (value, _to(value, dtype))
    return _weights[key][1]


def _casting(op: OpOverload, choose: Callable[[tuple[Any, ...]], torch.dtype]) -> Operator:
    def run(*args: Any, **kwargs: Any) -> Any:
        with _without_autocast(_KEYS):
            dtype = choose(args)
            return op(
                *[_cast(value, dtype) for value in args],
                **{name: _cast(value, dtype) for name, value in kwargs.items()},
            )

    return run


def _lower_precision(op: OpOverload) -> Operator:
    return _casting(op, lambda args: torch.get_autocast_dtype("npu"))


def _float32(op: OpOverload) -> Operator:
    return _casting(op, lambda args: torch.float32)


def _widest(op: OpOverload) -> Operator:
    def choose(args: tuple[Any, ...]) -> torch.dtype:
        flat = [item for value in args for item in (value if isinstance(value, (list, tuple)) else (value,))]
        wide = any(_is_eligible(value) and value.dtype is torch.float32 for value in flat)
        return torch.float32 if wide else torch.get_autocast_dtype("npu")

    return _casting(op, choose)


def _float32_by_dtype(op: OpOverload) -> Operator:
    names = [argument.name for argument in op._schema.arguments]
    position = names.index("dtype")

    def run(*args: Any, **kwargs: Any) -> Any:
        with _without_autocast(_KEYS):
            given = args[position] if len(args) > position else kwargs.get("dtype")
            if given is None and _is_eligible(args[0]):
                args = args[:position]
                kwargs = {**kwargs, "dtype": torch.float32}
            return op(*args, **kwargs)

    return run


def _float32_by_overload(op: OpOverload, wider: OpOverload) -> Operator:
    defaults = {argument.name: argument.default_value for argument in op._schema.arguments}
    names = list(defaults)

    def run(*args: Any, **kwargs: Any) -> Any:
        with _without_autocast(_KEYS):
            if not _is_eligible(args[0]):
                return op(*args, **kwargs)
            given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
            return wider(*given.values(), dtype=torch.float32)

    return run


def _banned(op: OpOverload) -> Operator:
    def run(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
            "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
            "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
            "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
            "safe to autocast."
        )

    return run
