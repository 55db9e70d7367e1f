"""Calls that fail on the NPU for their dtype, an argument or a layout, where the text of the call settles it.

The dtype of a tensor is known where it is made with one, or converted to one, in the call or in the only assignment of
its variable. Everything else is left to what follows tensors further.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gpu2npu.analysis.code import Code
from gpu2npu.analysis.done_calls import keyword, values_of
from gpu2npu.analysis.torch_apis.calls import message
from gpu2npu.python.tree.scopes import Parameter, Scope
from gpu2npu.python.tree.syntax import defaults
from gpu2npu.records import Finding, FindingKind, Severity
from gpu2npu.rulebook.in_code import NPU_LIMIT
from gpu2npu.support.limits import DEFAULT_CHIP, DIFFERS, IGNORED, NOT_LISTED, Given, Limit, limit, limited_names
from gpu2npu.support.verdicts import Verdict, VerdictKind

_DTYPES = {
    f"torch.{spelling}": name
    for name, spellings in {
        "float64": ("float64", "double", "DoubleTensor", "cuda.DoubleTensor"),
        "float32": ("float32", "float", "FloatTensor", "cuda.FloatTensor"),
        "float16": ("float16", "half", "HalfTensor", "cuda.HalfTensor"),
        "bfloat16": ("bfloat16",),
        "complex64": ("complex64", "cfloat"),
        "complex128": ("complex128", "cdouble"),
        "uint8": ("uint8", "ByteTensor"),
        "int8": ("int8", "CharTensor"),
        "int16": ("int16", "short", "ShortTensor"),
        "int32": ("int32", "int", "IntTensor"),
        "int64": ("int64", "long", "LongTensor"),
        "bool": ("bool", "BoolTensor"),
    }.items()
    for spelling in spellings
}
# Methods of a tensor that convert it, and those that keep its dtype.
_CONVERTING = {
    name: _DTYPES[f"torch.{name}"] for name in ("double", "float", "half", "bfloat16", "long", "int", "short")
}
_KEEPING = frozenset({"cuda", "npu", "to", "clone", "detach", "contiguous", "requires_grad_", "view", "reshape", "t"})
# Where positions stand for arguments that limits name.
_POSITIONS = {
    **{f"torch.nn.MaxPool{n}d": {3: "dilation"} for n in (1, 2, 3)},
    **{f"torch.nn.functional.max_pool{n}d": {4: "dilation"} for n in (1, 2, 3)},
    **{f"torch.max_pool{n}d": {4: "dilation"} for n in (1, 2, 3)},
    "torch.set_default_dtype": {0: "dtype"},
    "torch.set_default_tensor_type": {0: "dtype"},
    "torch.autocast": {0: "device_type", 1: "dtype"},
    "torch.amp.autocast": {0: "device_type", 1: "dtype"},
}
# A device that the text does not say is taken for the NPU.
_TAKEN_AS_WRITTEN = frozenset({"device_type"})
# Nothing follows from these: PyTorch allows the result, or the documentation is silent.
_UNREPORTED = (IGNORED, NOT_LISTED)
_DEPTH = 4
_MODULE = "torch.nn.Module"
_PRODUCT = "torch.Tensor.__matmul__"


def limit_findings(code: Code, version: str, chips: Sequence[str] = (DEFAULT_CHIP,)) -> list[Finding]:
    """The findings of one module for families of chips (of limits.CHIPS), in the order of their places."""
    found = []
    for node, api, given in _limited(code):
        for met, on in _met(api, given, version, chips):
            some = on if len(on) < len(chips) else []
            text = _text(api, met, some)
            found.append(Finding(code.file.span(node), NPU_LIMIT, _kind(met), api, text, Severity.CHANGE))
    return sorted(set(found), key=lambda finding: (finding.span, finding.api))


def _limited(code: Code) -> Iterator[tuple[ast.expr, str, Given]]:
    """Each call of a limited API and each matrix product, with the API and what is known of its tensors."""
    for call, scope in code.calls:
        for api in _apis(call, scope, code):
            yield call, api, _given(api, call, scope, code)
    for product, scope in code.products:
        if isinstance(product.op, ast.MatMult):
            dtypes = (_dtype(each, scope, code, _DEPTH) for each in (product.left, product.right))
            yield product, _PRODUCT, Given(tuple(each for each in dtypes if each), devices=("npu",))


def _met(api: str, given: Given, version: str, chips: Sequence[str]) -> list[tuple[Limit, list[str]]]:
    """The limits that a call meets, each with the chips on which it does."""
    found: dict[str, tuple[Limit, list[str]]] = {}
    for chip in chips:
        met = limit(api, given, version, chip)
        if met is not None and met.outcome not in _UNREPORTED:
            found.setdefault(met.id, (met, []))[1].append(chip)
    return list(found.values())


def _kind(met: Limit) -> FindingKind:
    """Leave what nobody can tell from the text, such as the device, for a person to look at."""
    return FindingKind.REVIEW if met.outcome == DIFFERS or met.devices else FindingKind.UNSUPPORTED


def _text(api: str, met: Limit, chips: Sequence[str]) -> str:
    """The evidence and advice; `chips` are those it is for, none where it is for all that were asked about."""
    on = f"On {' and '.join(chips)}: " if chips else ""
    return on + message(Verdict(api, VerdictKind.UNSUPPORTED, f"{met.evidence} ({met.source})", met.advice))


def _apis(call: ast.Call, scope: Scope, code: Code) -> Iterator[str]:
    """The limited API that a call is of, if one: a function or class, or a method of a tensor or a module."""
    function = call.func
    qualified = code.qualified(function, scope)
    if qualified is not None:
        if qualified in limited_names() and not _is_on_cpu(call, scope, code):
            yield qualified
    elif isinstance(function, ast.Attribute):
        if f"torch.Tensor.{function.attr}" in limited_names() and _dtype(function.value, scope, code, _DEPTH):
            yield f"torch.Tensor.{function.attr}"
        elif f"{_MODULE}.{function.attr}" in limited_names():
            owners = code.types.owners(code.types.of(function.value, scope), function.attr)
            if owners and all(owner.startswith("torch.nn.") for owner in owners):
                yield f"{_MODULE}.{function.attr}"


def _is_on_cpu(call: ast.Call, scope: Scope, code: Code) -> bool:
    device = keyword(call, "device")
    return isinstance(device, ast.Constant) and device.value == "cpu"


def _given(api: str, call: ast.Call, scope: Scope, code: Code) -> Given:
    named = {each.arg: each.value for each in call.keywords if each.arg is not None}
    positions = _POSITIONS.get(api, {})
    named |= {name: call.args[index] for index, name in positions.items() if index < len(call.args)}
    stated = [_DTYPES.get(code.qualified(named["dtype"], scope) or "")] if "dtype" in named else []
    operands = [each for index, each in enumerate(call.args) if index not in positions]
    if isinstance(call.func, ast.Attribute):
        operands.append(call.func.value)
    dtypes = [*stated, *(_dtype(each, scope, code, _DEPTH) for each in operands)]
    texts = {name: _written(name, value, scope, code) for name, value in named.items()}
    known = {name: text for name, text in texts.items() if text is not None}
    return Given(tuple(each for each in dtypes if each), devices=("npu",), arguments=known)


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


def _dtype(node: ast.expr, scope: Scope, code: Code, depth: int) -> str | None:
    """The dtype of a tensor, where the expression or the only assignment of its variable states one."""
    if depth == 0:
        return None
    if isinstance(node, ast.Name):
        values = values_of(node, scope)
        value = values[0].value if len(values) == 1 else None
        return _dtype(value, scope, code, depth - 1) if value is not None else None
    if not isinstance(node, ast.Call):
        return None
    made = code.qualified(node.func, scope)
    if made is not None:
        stated = keyword(node, "dtype")
        if stated is None or not made.startswith("torch."):
            return _DTYPES.get(made) if made.endswith("Tensor") else None
        return _DTYPES.get(code.qualified(stated, scope) or "")
    if not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr in _CONVERTING:
        return _CONVERTING[node.func.attr] if _is_tensor(node.func.value, scope, code, depth - 1) else None
    if node.func.attr not in _KEEPING:
        return None
    stated = keyword(node, "dtype") or (node.args[0] if node.func.attr == "to" and node.args else None)
    converted = _DTYPES.get(code.qualified(stated, scope) or "") if stated is not None else None
    return converted or _dtype(node.func.value, scope, code, depth - 1)


def _is_tensor(node: ast.expr, scope: Scope, code: Code, depth: int) -> bool:
    """Tell whether an expression is certainly a tensor: what a function of torch made."""
    if isinstance(node, ast.Name) and depth > 0:
        values = values_of(node, scope)
        value = values[0].value if len(values) == 1 else None
        return value is not None and _is_tensor(value, scope, code, depth - 1)
    if not isinstance(node, ast.Call):
        return False
    made = code.qualified(node.func, scope) or ""
    if made.startswith("torch."):
        return made.count(".") == 1 and made.rpartition(".")[2].islower()
    return isinstance(node.func, ast.Attribute) and depth > 0 and _is_tensor(node.func.value, scope, code, depth - 1)
