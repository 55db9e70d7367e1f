"""Calls that fail on the NPU for their dtype, an argument or a layout, where the text of the call decides it.

The dtypes of tensors are those of `dtypes`, which follow their values through a file and what it imports.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cache, partial
from typing import Any

from msgspec.structs import replace

from gpu2npu.analysis.code import Code
from gpu2npu.analysis.torch_apis.calls import ShownArguments, contracts, is_mentioned_near, is_on_cpu, message
from gpu2npu.analysis.torch_apis.dtypes import Tensors
from gpu2npu.analysis.torch_apis.tensor_labels import DTYPES, may_have_float64
from gpu2npu.python.meaning.types import OTHER
from gpu2npu.python.text.source import vocabulary
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.records import Finding, FindingKind, Severity
from gpu2npu.rulebook.in_code import NPU_LIMIT
from gpu2npu.support.behaviour import (
    DIFFERS,
    HANGS,
    IGNORED,
    NEEDS,
    OTHER_DTYPE,
    RAISES,
    SLOW,
    Row,
    behaviour,
    lifted,
    names,
    parameters,
    rows_for,
    rows_of,
)
from gpu2npu.support.chips import DEFAULT_CHIP
from gpu2npu.support.conditions import ALL_DTYPES, CallFacts, TensorFacts, necessary
from gpu2npu.support.conditions import DTYPES as DTYPE_GROUPS
from gpu2npu.support.verdicts import ApiVerdict, VerdictKind

# A device that the text does not name is taken for the NPU.
_TAKEN_AS_WRITTEN = frozenset({"device_type"})
# Nothing follows from it: PyTorch allows the result.
_UNREPORTED = (IGNORED,)
_KINDS = {
    RAISES: FindingKind.UNSUPPORTED,
    HANGS: FindingKind.UNSUPPORTED,
    DIFFERS: FindingKind.REVIEW,
    OTHER_DTYPE: FindingKind.REVIEW,
    NEEDS: FindingKind.REVIEW,
    SLOW: FindingKind.REVIEW,
}
_MODULE = "torch.nn.Module"
_TENSOR = "torch.Tensor"
_PRODUCT = "torch.Tensor.__matmul__"
_ELEMENTS = "torch.Tensor.__getitem__"
_OPERATORS: Mapping[type[ast.operator], str] = {
    **dict(zip((ast.MatMult, ast.Mult, ast.Mod), (_PRODUCT, "torch.mul", "torch.remainder"), strict=True)),
    **{kind: f"torch.{kind.__name__.lower()}" for kind in (ast.Add, ast.Sub, ast.Div)},
}
_EINSUM = "torch.einsum"
_CASTS = frozenset({f"{_TENSOR}.double", f"{_TENSOR}.to", f"{_TENSOR}.type"})
_DEFAULT = "float32"
_EVERY = "tensors"
_SET = "value"  # what a limited attribute is assigned
_DTYPE_NAMES = ALL_DTYPES | DTYPE_GROUPS.keys()
_FLOAT64 = "float64"
_OF_DTYPES = (
    r"dtype|float64|[dD]ouble|complex|cfloat|fft|stft|polar|numpy|int8|int16|int32|int64|\b(?:long|short|half|bool)\b|"
    r"bfloat16|float16|arange|rand(?:int|perm)|(?:Long|Int|Half)Tensor|proj_size|dilation"
)
_OTHER_DEFAULT = re.compile(r"set_default_(?:device|tensor_type)|with torch\.device\(")
_MANY_DIMENSIONS = re.compile(r"tensors\.rank > (\d+)")
_OF_NAMES = re.compile(r"\w+ (?:==|in) \(?torch\.[\w.]+(?:, torch\.[\w.]+)*\)?")
# Without one of these words a file makes no tensor of the dtypes, and shows none that it is given.
_WORDS = {
    "float64": _FLOAT64,
    **dict.fromkeys(("complexes", "complex64"), "complex|cfloat|cdouble|fft|stft|polar"),
    "complex128": "complex128|cdouble|fft|stft|polar|view_as_complex",
    "complex32": "complex32|chalf|ComplexHalf",
    **dict.fromkeys(("float16", "bfloat16"), r"float16|\bhalf\b|Half"),
    **{name: name for name in ("uint16", "uint32", "uint64")},
    **{
        each[0]: rf"\b{each[0]}|{each[1]}"
        for each in (("uint8", "[bB]yte"), ("int8", "[cC]har"), ("int16", "[sS]hort"))
    },
    "bool": r"\bbool\b",
    "float8s": "float8",
}


def limit_findings(code: Code, version: str, chips: Sequence[str] = (DEFAULT_CHIP,)) -> list[Finding]:
    """The findings of one module for families of chips (of CHIPS), in the order of their places."""
    found = []
    for node, api, given in _limited(_File(code, version, tuple(chips))):
        for met, on in _met(api, given, version, chips):
            if (met.unless and is_mentioned_near(code, met.unless)) or _is_on_host(met, given, code):
                continue
            some = on if len(on) < len(chips) else []
            text = _text(api, met, some)
            severity = Severity.ADVICE if met.outcome == SLOW else Severity.CHANGE
            found.append(Finding(code.file.span(node), NPU_LIMIT, _kind(met), api, text, severity, row=met.id))
        if (gone := lifted(api, given, version)) is not None:
            text = f"Before torch_npu {gone[1]}: {_text(api, gone[0], [])}"
            place, kind = code.file.span(node), FindingKind.REVIEW
            found.append(Finding(place, NPU_LIMIT, kind, api, text, Severity.NOTE, row=gone[0].id))
    return sorted(set(found), key=lambda finding: (finding.span, finding.api))


@cache
def _words(api: str) -> Set[re.Pattern[str]]:
    """The expressions of which a file has one where a call of an API may have a tensor that its rows name."""
    conditions = [necessary(each.when) for each in rows_of(api) if each.when]
    words: set[str] = set()
    for each in conditions:
        if many := _MANY_DIMENSIONS.fullmatch(each):
            words.add(rf"(?:\d+, *){{{many[1]}}}\d")
            continue
        if re.search(r"\.(?:shape|rank|numel)", each):  # no word is needed for these
            return {re.compile("")}
        dtypes = {word for word in re.findall(r"\w+", each) if word in _DTYPE_NAMES}
        if _OF_NAMES.fullmatch(each):  # of what has a name in torch, no tensor is asked
            words.update(name.rpartition(".")[2] for name in re.findall(r"torch[\w.]+", each))
        elif re.fullmatch(r"(?:\w+\.)?dtype (?:==|in) [\w(), ]+", each) and dtypes <= _WORDS.keys():
            words.update(_WORDS[dtype] for dtype in dtypes)
        else:
            words.add(_OF_DTYPES)
    return set(map(re.compile, words or {_OF_DTYPES}))


class _File:
    """A file, its tensors, and what its text has been searched for."""

    def __init__(self, code: Code, version: str, chips: tuple[str, ...]) -> None:
        self.code, self.target = code, (version, chips)
        self.tensors = Tensors(code.names)
        self.layers = [each for each in _called_layers() if each[0].rpartition(".")[2] in code.text]
        self._searched: dict[re.Pattern[str], bool] = {}
        self._may_meet: dict[str, bool] = {}

    def may_meet(self, api: str) -> bool:
        """Return whether the text, or for a collective what the file imports, has one of the words without which no
        call of an API has such a tensor. For what is called more often imports would take too long."""
        if api not in self._may_meet:
            words = _words(api)
            for each in words - self._searched.keys():
                self._searched[each] = self._has(each)
            has_one = any(map(self._searched.__getitem__, words))
            self._may_meet[api] = has_one or (api.startswith("torch.distributed.") and self._imports(words))
        return self._may_meet[api]

    def _imports(self, words: Set[re.Pattern[str]]) -> bool:
        """Return whether a file of the project that this one imports has one of some words."""
        names = self.code.names
        facts = (names.project.facts(each, names.path) for each in names.project.imported_by(names.path))
        return any(each.search(" ".join(one.names | one.texts)) for one in facts if one is not None for each in words)

    def _has(self, expression: re.Pattern[str]) -> bool:
        text, pattern = self.code.text, expression.pattern
        if pattern == _FLOAT64:
            return may_have_float64(text)
        if pattern == _OF_DTYPES and "tensor(" in text:
            return True
        return expression.search(text if "," in pattern else vocabulary(text)) is not None


def _limited(file: _File) -> Iterator[tuple[ast.expr, str, CallFacts]]:
    """Each call, operator and assigned attribute that is limited, with its API and what is known of its tensors."""
    code = file.code
    for call, scope in code.calls:
        yield from ((call, api, given) for api, given in _apis(call, scope, file))
    yield from _of_operators(file)
    for node, scope in code.mentions:
        is_set = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in _settings()
        statement = code.file.parents[node] if is_set else None
        if isinstance(statement, ast.Assign) and (api := code.qualified(node, scope)) in names():
            yield node, api or "", CallFacts({_SET: _value(_SET, True, statement.value, 0, scope, code, file.tensors)})


def _of_operators(file: _File) -> Iterator[tuple[ast.expr, str, CallFacts]]:
    """Each arithmetic with tensors, and each tensor that is indexed with a tensor."""
    code, tensors = file.code, file.tensors
    kinds = {kind: api for kind, api in _OPERATORS.items() if file.may_meet(api)}
    picks = file.may_meet(_ELEMENTS)
    for node in code.file.parents if kinds or picks else ():
        if isinstance(node, ast.BinOp) and (api := kinds.get(type(node.op))) is not None:
            facts = tuple(map(tensors.facts, tensors.operands(node)))
            on = {each.device for each in facts}
            if "cpu" not in on and (api == _PRODUCT or ("npu" in on and facts[0].dtype)):  # "%d" % x is text
                yield node, api, CallFacts(others=facts)
        elif picks and isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            for base, index in [each] if (each := tensors.operands(node)) else []:
                by = tensors.label(index)
                known = tensors.facts(base)
                if by.dtype is not None and not by.is_number and by.name not in DTYPES and known.device != "cpu":
                    yield node, _ELEMENTS, CallFacts({"self": known})


def _met(api: str, given: CallFacts, version: str, chips: Sequence[str]) -> list[tuple[Row, list[str]]]:
    """The rows that a call meets, each with the chips on which it does."""
    found: dict[str, tuple[Row, list[str]]] = {}
    for chip in chips:
        met = behaviour(api, given, version, chip)
        if met is not None and met.outcome not in _UNREPORTED:
            found.setdefault(met.id, (met, []))[1].append(chip)
    return list(found.values())


def _is_on_host(met: Row, given: CallFacts, code: Code) -> bool:
    """Return whether a call is of tensors that are made without a device, where no other one is the default."""
    devices = {each.device for each in given.tensors}
    return (
        "cpu" in devices and "npu" not in devices and not met.depends_on_device and not _OTHER_DEFAULT.search(code.text)
    )


def _kind(met: Row) -> FindingKind:
    """Leave what the text does not show, such as the device, for a person to look at."""
    return FindingKind.REVIEW if met.depends_on_device else _KINDS.get(met.outcome, FindingKind.FALLBACK)


def _text(api: str, met: Row, chips: Sequence[str]) -> str:
    """The evidence and advice; `chips` are those it is for, none where it is for all that were named."""
    on = f"On {' and '.join(chips)}: " if chips else ""
    sentences = message(ApiVerdict(api, VerdictKind.UNSUPPORTED, f"{met.evidence} ({met.source})", met.advice))
    return f"{on}{sentences} [{met.id}]"


def _apis(call: ast.Call, scope: Scope, file: _File) -> Iterator[tuple[str, CallFacts]]:
    """The limited API that a call is of, if one, with its facts: a function or class, or a method of a tensor or a
    module, of which the receiver is looked at last, since that takes longest."""
    function, code, tensors = call.func, file.code, file.tensors
    qualified = code.qualified(function, scope)
    if qualified is not None:
        if qualified in names() and not is_on_cpu(call):
            yield qualified, _given(qualified, call, scope, file)
    elif isinstance(function, ast.Attribute) and function.attr in _limited_methods() and not is_on_cpu(call):
        method, owner = function.attr, function.value
        for api in (f"{_MODULE}.{method}", f"{_TENSOR}.{method}"):
            if api not in names():
                continue
            given = _given(api, call, scope, file)
            if any(each.applies_to(given) for each in rows_for(api, *file.target)) and (
                _is_of(api, owner, scope, code, given)
                or (api in _CASTS and tensors.is_computed_with(tensors.call(call)))
            ):
                yield api, given
                return
    elif file.layers:
        kinds = code.types.of(function, scope)  # of what was made before: loss = nn.CTCLoss()
        called = (api for layer, api in file.layers if kinds == {layer})
        yield from ((api, _given(api, call, scope, file)) for api in called)


def _is_of(api: str, owner: ast.expr, scope: Scope, code: Code, given: CallFacts) -> bool:
    """Return whether what a method is called on is certainly a tensor, or a module of torch's."""
    if api.startswith(_TENSOR):
        facts = given.arguments.get("self")
        return (isinstance(facts, TensorFacts) and facts.dtype is not None) or code.types.is_tensor(owner, scope)
    owners = code.types.owners(code.types.of(owner, scope), api.rpartition(".")[2])
    return bool(owners) and all(each.startswith("torch.nn.") for each in owners)


@cache
def _limited_methods() -> frozenset[str]:
    """The last names of limited methods of tensors and modules."""
    named = (api.rpartition(".") for api in names())
    return frozenset(name for owner, _, name in named if owner in (_TENSOR, _MODULE))


@cache
def _settings() -> frozenset[str]:
    """The last names of limited attributes that are assigned."""
    return frozenset(name.rpartition(".")[2] for name in names() if tuple(parameters(name)) == (_SET,))


@cache
def _called_layers() -> tuple[tuple[str, str], ...]:
    """The layers that have rows about what they are called with, each with the name that these rows have."""
    return tuple((api.removesuffix(".forward"), api) for api in sorted(names()) if api.endswith(".forward"))


def _given(api: str, call: ast.Call, scope: Scope, file: _File) -> CallFacts:
    """The facts of a call: each argument's that the text shows, those of positions by the names that the rows have."""
    needed, code, tensors = _needed(api, *file.target), file.code, file.tensors
    is_layer = api.startswith("torch.nn.") and api.rpartition(".")[2][0].isupper()  # which takes no tensors
    every = _EVERY in needed and not is_layer
    place = tensors.call(call) if needed and file.may_meet(api) else 0
    places = tensors.arguments(place) if place else {}
    named = {each.arg: (each.value, places.get(each.arg, 0)) for each in call.keywords if each.arg is not None}
    named |= {key: (call, each) for key, each in places.items() if key not in named and key.isidentifier()}
    positional = [(each, places.get(str(index), 0)) for index, each in enumerate(call.args)]
    defaults = parameters(api)
    known = tuple(defaults)
    is_method = isinstance(call.func, ast.Attribute) and api.startswith((f"{_TENSOR}.", f"{_MODULE}."))
    if is_method and isinstance(call.func, ast.Attribute):
        positional.insert(0, (call.func.value, tensors.receiver(place)))
    if api == _EINSUM and not contracts(positional.pop(0)[0] if positional else None):
        return CallFacts()
    if any(isinstance(each, ast.Starred) for each, _ in positional):
        positional = []
    if "input" in named and known[:1] == ("self",):
        named["self"] = named.pop("input")
    others = []
    for position, value in enumerate(positional):
        if position < len(known) and not (api.endswith(".to") and position):
            named.setdefault(known[position], value)
        else:
            others.append(value)
    also = {"self", "dtype"}  # which show that it is a tensor's method, and the dtype of a layer's parameters
    given = ShownArguments(
        {
            name: partial(_value, name, needed.get(name) == frozenset({""}), *value, scope, code, tensors)
            for name, value in named.items()
            if every or name in needed or name in also
        }
    )
    is_call = bool(known) and (known[0] in named or defaults[known[0]] is not ...)  # with what it requires
    if is_call and all(each.arg for each in call.keywords) and len(positional) == len(call.args) + is_method:
        given.known |= {name: value for name, value in defaults.items() if value is not ... and name not in named}
    if api.endswith((".to", ".type")):
        otherwise = given.known.pop("dtype", None)
        shown = given.pending.get("dtype", lambda: otherwise)
        given.pending["dtype"] = lambda: tensors.stated(places) or shown()
    if api in _CASTS and "self" in given.pending:
        given.pending["self"] = partial(_cast, given.pending["self"], call, tensors)
    if api.endswith((".to", ".type")) and len(call.args) + len(call.keywords) == 1:
        given.known["device"] = None
    others_known = [tensors.facts(each) for _, each in others] if every else []
    if every and any(each.depends_on_device for each in rows_of(api)):
        on = [] if _are_of_numpy(positional, scope, code, tensors) else [TensorFacts(device="npu")]
        others_known += on  # a device that the text does not name is taken for the NPU
    if _EVERY in needed and api.startswith("torch.nn.") and (made := given.get("dtype")) is not None:
        others_known.append(TensorFacts(made))  # the parameters of a layer
    return CallFacts(given, tuple(others_known))


def _cast(ask: Callable[[], Any], call: ast.Call, tensors: Tensors) -> Any:
    """The facts of what is cast, which is written for what has another dtype."""
    facts = ask()
    given_to = tensors.functions(tensors.call(call)) if facts is None else ()
    if any("float64" in row.when for api in given_to for row in rows_of(api)):
        return TensorFacts(_DEFAULT, device="npu")  # its device is not shown: on the host it would not be computed with
    return replace(facts, dtype=_DEFAULT) if isinstance(facts, TensorFacts) and facts.dtype is None else facts


@cache
def _needed(api: str, version: str, chips: tuple[str, ...]) -> Mapping[str, frozenset[str]]:
    """The arguments that the rows of an API depend on there, each with the attributes; "" is the value."""
    uses = [use for each in rows_for(api, version, chips) for use in each.holds.uses]
    return {name: frozenset(attribute for one, attribute in uses if one == name) for name, _ in uses}


def _are_of_numpy(operands: list[tuple[ast.expr, int]], scope: Scope, code: Code, tensors: Tensors) -> bool:
    """Return whether what is given is an array of NumPy or of no tensor's type, which is on no NPU."""
    return bool(operands) and all(
        code.types.of(each, scope) == {OTHER} or tensors.label(place).of_numpy for each, place in operands
    )


def _is_constant(name: str) -> bool:
    """Return whether a qualified name is that of a constant of torch: those of classes are in capitals, and what is not
    is an attribute of their objects, which may have any value."""
    owner, _, leaf = name.rpartition(".")
    return name.startswith("torch.") and (leaf.isupper() or not owner.rpartition(".")[2][:1].isupper())


def _value(
    name: str, needs_value: bool, value: ast.expr, place: int, scope: Scope, code: Code, tensors: Tensors
) -> Any:
    """The value that conditions see of an argument: None where it is not shown."""
    qualified = code.qualified(value, scope)
    if qualified is not None:
        return DTYPES.get(qualified, qualified)
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    if needs_value and place and (numbers := tensors.numbers(place)):
        return numbers
    if needs_value and place and _is_constant(constant := tensors.label(place).name):
        return constant
    facts = tensors.facts(place)
    if facts != TensorFacts():
        return facts
    if isinstance(value, (ast.Call, ast.BinOp, ast.Subscript)):
        return None
    elements = tensors.elements(place)
    known = any(each != TensorFacts() for each in elements)  # numbers are no tensors, of which nothing is known
    shown = elements if known else tensors.number(place) if needs_value else None
    return ast.unparse(value) if shown is None and name in _TAKEN_AS_WRITTEN else shown
