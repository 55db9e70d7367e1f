"""Advice on precision, where the number formats of an NPU are not those of a GPU, each with the source of the fact."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.analysis.code import Code
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import argument_of
from gpu2npu.records import Advice, AdviceKind

_MODULE = "torch.nn.Module"
DOUBLE = "float64-in-cube-unit"
HALF = "float16-overflow"

# Layers whose forward pass is a matrix product or a convolution.
_CUBE_LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in ("Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
                 "ConvTranspose3d", "LSTM", "GRU", "RNN", "MultiheadAttention", "TransformerEncoderLayer")
)  # fmt: skip
_DOUBLES = frozenset({"torch.float64", "torch.double", "torch.DoubleTensor", "torch.cuda.DoubleTensor"})
_HALVES = frozenset({"torch.float16", "torch.half"})
_AUTOCASTS = frozenset({"torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast"})
_DEFAULTS = frozenset({"torch.set_default_dtype", "torch.set_default_tensor_type"})

_WHY_DOUBLE = (
    "The cube unit of an Ascend chip has no float64: matrix products and convolutions of it raise (CANN's error "
    "EZ1001, not implemented for DT_DOUBLE). Use float32 here, or keep this part on the CPU."
)
_WHY_HALF = (
    "On chips without inf and nan in float16 (torch.npu.utils.is_support_inf_nan() is False) what overflows becomes "
    "65504, and no isinf() sees it: scale losses with torch_npu's GradScaler, which asks the chip instead "
    "(torch_npu/npu/amp/grad_scaler.py), or use bfloat16."
)


def numeric_advice(code: Code) -> list[Advice]:
    """The advice for one code, in the order of its places."""
    found = {Advice(code.file.span(node), rule, AdviceKind.PRECISION, api, why)
             for node, rule, api, why in (*_doubles(code), *_halves(code))}  # fmt: skip
    return sorted(found, key=lambda advice: (advice.span, advice.rule))


_Found = Iterator[tuple[ast.expr, str, str, str]]


def _doubles(code: Code) -> _Found:
    if "float64" not in code.text and "double" not in code.text.lower():
        return
    for call, scope in code.calls:
        name = code.qualified(call.func, scope)
        default = name in _DEFAULTS and bool(call.args) and _means(code, call.args[0], scope, _DOUBLES)
        if default or (name in _CUBE_LAYERS and _means(code, argument_of(call, "dtype"), scope, _DOUBLES)):
            yield call, DOUBLE, str(name), _WHY_DOUBLE
        elif _is_module_method(call, scope, code, "double"):
            yield call, DOUBLE, f"{_MODULE}.double", _WHY_DOUBLE


def _halves(code: Code) -> _Found:
    if "float16" not in code.text and "half" not in code.text:
        return
    for call, scope in code.calls:
        name = code.qualified(call.func, scope)
        if name in _AUTOCASTS and _means(code, argument_of(call, "dtype"), scope, _HALVES):
            yield call, HALF, str(name), _WHY_HALF
        elif _is_module_method(call, scope, code, "half"):
            yield call, HALF, f"{_MODULE}.half", _WHY_HALF


def _means(code: Code, node: ast.expr | None, scope: Scope, names: frozenset[str]) -> bool:
    return node is not None and code.qualified(node, scope) in names


def _is_module_method(call: ast.Call, scope: Scope, code: Code, method: str) -> bool:
    """Return whether a call is of this method of a code, without arguments."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr != method or call.args or call.keywords:
        return False
    owners = code.types.owners(code.types.of(function.value, scope), method)
    return bool(owners) and all(owner.startswith("torch.nn.") for owner in owners)
