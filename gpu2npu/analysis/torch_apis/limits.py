"""Calls that fail on the NPU for their dtype, an argument or a layout, where the text of the call settles it.

The dtypes of tensors are those of `dtypes`. Everything else is left to what follows tensors further.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache

from gpu2npu.analysis.code import Code
from gpu2npu.analysis.done_calls import keyword
from gpu2npu.analysis.torch_apis.calls import message
from gpu2npu.analysis.torch_apis.dtypes import DTYPES, dtype_of, is_of_numpy, stated_dtype, stays_on_cpu
from gpu2npu.python.meaning.types import OTHER
from gpu2npu.python.tree.scopes import Parameter, Scope
from gpu2npu.python.tree.syntax import defaults, string_value
from gpu2npu.records import Finding, FindingKind, Severity
from gpu2npu.rulebook.in_code import NPU_LIMIT
from gpu2npu.support.limits import (
    DEFAULT_CHIP,
    DIFFERS,
    IGNORED,
    NOT_LISTED,
    CallFacts,
    Limit,
    lifted,
    limit,
    limited_names,
    limits_of,
)
from gpu2npu.support.verdicts import ApiVerdict, VerdictKind

# Where positions stand for arguments that limits name.
_POSITIONS = {
    **{f"torch.nn.MaxPool{n}d": {3: "dilation"} for n in (1, 2, 3)},
    **{f"torch.nn.functional.max_pool{n}d": {4: "dilation"} for n in (1, 2, 3)},
    **{f"torch.max_pool{n}d": {4: "dilation"} for n in (1, 2, 3)},
    "torch.set_default_dtype": {0: "dtype"},
    "torch.set_default_tensor_type": {0: "dtype"},
    "torch.autocast": {0: "device_type", 1: "dtype"},
    "torch.amp.autocast": {0: "device_type", 1: "dtype"},
    "torch.distributed.all_reduce": {1: "op"},
    **{f"torch.distributed.{name}": {2: "op"} for name in ("reduce", "reduce_scatter", "reduce_scatter_tensor")},
}
# A device that the text does not say is taken for the NPU.
_TAKEN_AS_WRITTEN = frozenset({"device_type"})
# Nothing follows from these: PyTorch allows the result, or the documentation is silent.
_UNREPORTED = (IGNORED, NOT_LISTED)
_MODULE = "torch.nn.Module"
_PRODUCT = "torch.Tensor.__matmul__"
_EINSUM = "torch.einsum"
# Methods that meet a limit whatever the dtype of their tensor.
_OF_ANY_DTYPE = frozenset(
    name.rpartition(".")[2]
    for name in limited_names()
    if name.startswith("torch.Tensor.") and not any(each.dtypes or each.arguments for each in limits_of(name))
)


def limit_findings(code: Code, version: str, chips: Sequence[str] = (DEFAULT_CHIP,)) -> list[Finding]:
    """The findings of one module for families of chips (of limits.CHIPS), in the order of their places."""
    found = []
    for node, api, given in _limited(code):
        for met, on in _met(api, given, version, chips):
            some = on if len(on) < len(chips) else []
            text = _text(api, met, some)
            found.append(Finding(code.file.span(node), NPU_LIMIT, _kind(met), api, text, Severity.CHANGE))
        if (gone := lifted(api, given, version)) is not None:
            text = f"Before torch_npu {gone[1]}: {_text(api, gone[0], [])}"
            found.append(Finding(code.file.span(node), NPU_LIMIT, FindingKind.REVIEW, api, text, Severity.NOTE))
    return sorted(set(found), key=lambda finding: (finding.span, finding.api))


def _limited(code: Code) -> Iterator[tuple[ast.expr, str, CallFacts]]:
    """Each call of a limited API and each matrix product, with the API and what is known of its tensors."""
    for call, scope in code.calls:
        for api in _apis(call, scope, code):
            yield call, api, _given(api, call, scope, code)
    for product, scope in code.products:
        operands = (product.left, product.right)
        if isinstance(product.op, ast.MatMult) and not any(stays_on_cpu(each, scope, code) for each in operands):
            dtypes = (dtype_of(each, scope, code) for each in operands)
            yield product, _PRODUCT, CallFacts(tuple(each for each in dtypes if each), devices=("npu",))


def _met(api: str, given: CallFacts, version: str, chips: Sequence[str]) -> list[tuple[Limit, list[str]]]:
    """The limits that a call meets, each with the chips on which it does."""
    found: dict[str, tuple[Limit, list[str]]] = {}
    for chip in chips:
        met = limit(api, given, version, chip)
        if met is not None and met.outcome not in _UNREPORTED:
            found.setdefault(met.id, (met, []))[1].append(chip)
    return list(found.values())


def _kind(met: Limit) -> FindingKind:
    """Leave what the text does not show, such as the device, for a person to look at."""
    return FindingKind.REVIEW if met.outcome == DIFFERS or met.devices else FindingKind.UNSUPPORTED


def _text(api: str, met: Limit, chips: Sequence[str]) -> str:
    """The evidence and advice; `chips` are those it is for, none where it is for all that were named."""
    on = f"On {' and '.join(chips)}: " if chips else ""
    return on + message(ApiVerdict(api, VerdictKind.UNSUPPORTED, f"{met.evidence} ({met.source})", met.advice))


def _apis(call: ast.Call, scope: Scope, code: Code) -> Iterator[str]:
    """The limited API that a call is of, if one: a function or class, or a method of a tensor or a module."""
    function = call.func
    qualified = code.qualified(function, scope)
    if qualified is not None:
        if qualified in limited_names() and not _is_on_cpu(call):
            yield qualified
    elif isinstance(function, ast.Attribute) and function.attr in _limited_methods():
        if _is_on_cpu(call):
            return
        method, owner = function.attr, function.value
        if f"torch.Tensor.{method}" in limited_names() and (
            dtype_of(owner, scope, code) or (method in _OF_ANY_DTYPE and code.types.is_tensor(owner, scope))
        ):
            yield f"torch.Tensor.{method}"
        elif _may_be_limited(f"{_MODULE}.{method}", call, scope, code):
            owners = code.types.owners(code.types.of(owner, scope), method)
            if owners and all(each.startswith("torch.nn.") for each in owners):
                yield f"{_MODULE}.{method}"


def _may_be_limited(api: str, call: ast.Call, scope: Scope, code: Code) -> bool:
    """Return whether a limit is for the arguments of a call; tested before the receiver, which takes longer."""
    limits = limits_of(api)
    given = _given(api, call, scope, code) if limits else CallFacts()
    return any(each.applies_to(given) for each in limits)


@cache
def _limited_methods() -> frozenset[str]:
    """The last names of limited methods of tensors and modules."""
    named = (api.rpartition(".") for api in limited_names())
    return frozenset(name for owner, _, name in named if owner in ("torch.Tensor", _MODULE))


def _is_on_cpu(call: ast.Call) -> bool:
    device = keyword(call, "device")
    if device is None and call.args and isinstance(call.func, ast.Attribute) and call.func.attr == "to":
        device = call.args[0]
    return isinstance(device, ast.Constant) and device.value == "cpu"


def _given(api: str, call: ast.Call, scope: Scope, code: Code) -> CallFacts:
    named = {each.arg: each.value for each in call.keywords if each.arg is not None}
    positions = _POSITIONS.get(api, {})
    named |= {name: call.args[index] for index, name in positions.items() if index < len(call.args)}
    stated = [DTYPES.get(code.qualified(named["dtype"], scope) or "")] if "dtype" in named else []
    if api.endswith(".to"):
        stated.append(stated_dtype(call, scope, code))
    operands = [each for index, each in enumerate(call.args) if index not in positions]
    if isinstance(call.func, ast.Attribute):
        operands.append(call.func.value)
    if api == _EINSUM and not _contracts(operands.pop(0) if operands else None):
        return CallFacts()
    dtypes = [*stated, *(dtype_of(each, scope, code) for each in operands)]
    depends_on_device = any(each.devices for each in limits_of(api))
    is_other = (
        depends_on_device
        and len(operands) > 0
        and all(code.types.of(each, scope) == {OTHER} or is_of_numpy(each, scope, code) for each in operands)
    )
    texts = {name: _written(name, value, scope, code) for name, value in named.items()}
    known = {name: text for name, text in texts.items() if text is not None}
    devices = () if is_other else ("npu",)  # an array of NumPy is on no NPU
    return CallFacts(tuple(each for each in dtypes if each), devices=devices, arguments=known)


def _contracts(equation: ast.expr | None) -> bool:
    """Return whether an equation of einsum multiplies matrices: it sums over an index."""
    text = string_value(equation) if equation is not None else None
    before, arrow, after = (text or "").replace(" ", "").partition("->")
    return bool(text) and "," in before and (not arrow or bool(set(before) - set(after) - {",", "."}))


def _written(name: str, value: ast.expr, scope: Scope, code: Code) -> str | None:
    """The text of an argument; for a parameter that of its default, and None where the text does not say the value."""
    qualified = code.qualified(value, scope)
    if qualified is not None or name in _TAKEN_AS_WRITTEN or not isinstance(value, ast.Name | ast.Attribute):
        return qualified or ast.unparse(value)
    stated = _stated(value.id, scope) if isinstance(value, ast.Name) else None
    return ast.unparse(stated) if stated is not None else None


def _stated(name: str, scope: Scope) -> ast.expr | None:
    """The expression that a name is given, where it has one assignment or is a parameter with a default."""
    found = scope.lookup(name)
    if found is None or len(found[1]) != 1:
        return None
    binding, function = found[1][0], found[0].node
    if isinstance(binding, Parameter) and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return next((default for parameter, default in defaults(function) if parameter is binding.node), None)
    return scope.only_value(name)
