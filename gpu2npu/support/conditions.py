"""The language in which the table of behaviour says when a row holds: a small part of Python's expressions.

    self.dtype in (float64, complex64)          attn_mask.dtype == bool and attn_mask.shape[-2] != query.shape[-2]
    tensors.dtype in integers                   op == torch.distributed.ReduceOp.AVG
    x.rank > 8 or x.shape[-1] % 2 != 0          dilation not in (1, (1, 1))

A name is an argument of the call, a dtype or a group of them (`integers`, `floats`, `complexes`, `float8s`), or, where
it begins with `torch.`, itself. `tensors` are all tensors of the call, and a list of tensors is each of them: a
comparison with several holds where it holds for one. Tensors have `dtype`, `rank`, `shape`, `numel`, `layout` and
`device`; a run also knows the `least` and the `greatest` of their numbers, and whether they are `ascending`. `len(x)`
counts what a list has, `factor(n)` is the largest prime factor of a number. A comparison with what is not there (the
dtype of None, a dimension that a tensor has not) does not hold, not even `!=`.

An answer is True, False or UNKNOWN: a source shows only some of what a run knows.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import prod
from typing import Any, Final

from msgspec import Struct, field

DTYPES: Final = {
    "floats": ("float16", "bfloat16", "float32", "float64"),
    "integers": ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
    "complexes": ("complex32", "complex64", "complex128"),
    "float8s": ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
}
ALL_DTYPES: Final = frozenset(dtype for group in DTYPES.values() for dtype in group) | {"bool"}
_TENSORS = "tensors"
VALUES: Final = frozenset({"least", "greatest", "ascending"})
_ATTRIBUTES = frozenset({"dtype", "rank", "shape", "numel", "layout", "device"}) | VALUES
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.In: lambda value, values: value in values,
    ast.NotIn: lambda value, values: value not in values,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
}


class _Mark:
    """A value that is none: UNKNOWN and what is not there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __bool__(self) -> bool:
        return False


UNKNOWN: Final = _Mark("UNKNOWN")
_MISSING: Final = _Mark("MISSING")


class TensorFacts(Struct, frozen=True):
    """The facts known of one tensor: None where a fact is not. `dtype` is "float64", `device` "npu" or "cpu"; a
    dimension of `shape` is None where it is not known."""

    dtype: str | None = None
    shape: tuple[int | None, ...] | None = None
    layout: str | None = None
    device: str | None = None
    least: float | None = None
    greatest: float | None = None
    ascending: bool | None = None


class CallFacts(Struct, frozen=True):
    """The facts known of one call: its arguments by name (TensorFacts, lists of them, values of Python, and for what
    has a name in torch that name), and tensors whose argument is not known. An argument that is not in it is UNKNOWN.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[TensorFacts, ...] = ()

    @property
    def tensors(self) -> tuple[TensorFacts, ...]:
        """Every tensor, those in lists included."""
        return (*(each for value in self.arguments.values() for each in _tensors(value)), *self.others)


class ConditionError(ValueError):
    """A condition that is not of the language; the message is for who writes the row."""


class Condition(Struct, frozen=True):
    """A condition, and what it depends on: `uses` are (argument, attribute), with "" for the value of the argument.

    `parts` are what `and` connects, those about values of arguments before those about tensors, which take longer to
    find.
    """

    text: str
    holds: Callable[[CallFacts], Any]
    uses: frozenset[tuple[str, str]]
    parts: tuple[Callable[[CallFacts], Any], ...] = ()

    def is_met(self, given: CallFacts) -> bool:
        """Return whether it certainly holds; nothing is asked after the first part that does not."""
        return all(_truth(part(given)) is True for part in self.parts)


@cache
def condition(text: str) -> Condition:
    """Parse a condition; the empty one always holds. Raises ConditionError."""
    if not text:
        return Condition(text, lambda _: True, frozenset())
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ConditionError(f"{text!r}: {error.msg}") from None
    uses: set[tuple[str, str]] = set()
    parts = []
    for each in tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]:
        used: set[tuple[str, str]] = set()
        value = _value(each, used, text)
        parts.append((any(attribute for _, attribute in used), value))
        uses |= used
    ordered = [value for _, value in sorted(parts, key=lambda part: part[0])]
    return Condition(text, _connected(ordered, is_and=True), frozenset(uses), tuple(ordered))


def necessary(text: str) -> str:
    """The part of a condition that has to hold in any case: what is before its first `and`, or the whole."""
    tree = ast.parse(text, mode="eval").body
    return ast.unparse(tree.values[0] if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else tree)


_Value = Callable[[CallFacts], Any]


class _Several(Struct, frozen=True):
    values: tuple[Any, ...]


def _value(node: ast.expr, uses: set[tuple[str, str]], text: str) -> _Value:
    """Return the function that gives the value of an expression for the facts of a call."""
    if isinstance(node, ast.Constant):
        return lambda _, value=node.value: value  # type: ignore[misc]
    if isinstance(node, ast.Name):
        return _named(node.id, uses)
    if isinstance(node, ast.Attribute):
        return _attribute(node, uses, text)
    if isinstance(node, (ast.Tuple, ast.List)):
        return _tuple([_value(each, uses, text) for each in node.elts])
    if isinstance(node, ast.BoolOp):
        parts = [_value(each, uses, text) for each in node.values]
        return _connected(parts, isinstance(node.op, ast.And))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        inner = _value(node.operand, uses, text)
        if isinstance(node.op, ast.Not):
            return lambda given: _not(_truth(inner(given)))
        return lambda given: _applied(operator.neg, inner(given))
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        function = _ARITHMETIC[type(node.op)]
        left, right = _value(node.left, uses, text), _value(node.right, uses, text)
        return lambda given: _applied(function, left(given), right(given))
    if isinstance(node, ast.Compare):
        return _compared(node, uses, text)
    if isinstance(node, ast.Subscript):
        whole, index = _value(node.value, uses, text), _value(node.slice, uses, text)
        return lambda given: _applied(_item, whole(given), index(given))
    if isinstance(node, ast.Call) and len(node.args) == 1 and (applying := _FUNCTIONS.get(ast.unparse(node.func))):
        argument = _value(node.args[0], uses, text)
        return lambda given: applying(argument(given))
    raise ConditionError(f"{text!r}: {ast.unparse(node)!r} is not of the language of conditions")


def _named(name: str, uses: set[tuple[str, str]]) -> _Value:
    if name in ALL_DTYPES:
        return lambda _: name
    if name in DTYPES:
        return lambda _: DTYPES[name]
    uses.add((name, ""))
    if name == _TENSORS:
        return lambda given: _Several(given.tensors)
    return lambda given: _listed(given.arguments.get(name, UNKNOWN))


def _attribute(node: ast.Attribute, uses: set[tuple[str, str]], text: str) -> _Value:
    dotted = ast.unparse(node)
    if dotted.startswith("torch."):
        return lambda _: dotted
    if node.attr not in _ATTRIBUTES or not isinstance(node.value, ast.Name):
        raise ConditionError(f"{text!r}: {dotted!r} is neither a name of torch nor one of {', '.join(_ATTRIBUTES)}")
    owner, attribute = _named(node.value.id, uses), node.attr
    uses.discard((node.value.id, ""))
    uses.add((node.value.id, attribute))
    return lambda given: _fact(owner(given), attribute)


def _fact(value: Any, attribute: str) -> Any:
    if isinstance(value, _Several):
        return _Several(tuple(_fact(each, attribute) for each in value.values))
    if value is UNKNOWN:
        return UNKNOWN
    if not isinstance(value, TensorFacts):
        return _MISSING
    if attribute in ("rank", "numel"):
        if value.shape is None or (attribute == "numel" and None in value.shape):
            return UNKNOWN
        return len(value.shape) if attribute == "rank" else prod(each or 0 for each in value.shape)
    known = getattr(value, attribute)
    return UNKNOWN if known is None else known


def _tuple(parts: list[_Value]) -> _Value:
    def value(given: CallFacts) -> Any:
        values = tuple(part(given) for part in parts)
        flat = tuple(each for one in values for each in (one if one in DTYPES.values() else (one,)))
        return UNKNOWN if any(each is UNKNOWN for each in flat) else flat

    return value


def _connected(parts: list[_Value], is_and: bool) -> _Value:
    def value(given: CallFacts) -> Any:
        result: Any = is_and
        for part in parts:
            truth = _truth(part(given))
            if truth is UNKNOWN:
                result = UNKNOWN
            elif truth is not is_and:
                return truth
        return result

    return value


def _compared(node: ast.Compare, uses: set[tuple[str, str]], text: str) -> _Value:
    values = [_value(each, uses, text) for each in (node.left, *node.comparators)]
    pairs = [
        (_COMPARISONS[type(op)], left, right) for op, left, right in zip(node.ops, values, values[1:], strict=False)
    ]

    def one(function: Callable[[Any, Any], bool], left: _Value, right: _Value) -> _Value:
        return lambda given: _truth(_applied(function, left(given), right(given)))

    return _connected([one(*pair) for pair in pairs], is_and=True)


def _applied(function: Callable[..., Any], *values: Any) -> Any:
    """The result for values, for each of several, UNKNOWN and missing ones giving the same; no result is missing."""
    for position, value in enumerate(values):
        if isinstance(value, _Several):
            before, after = values[:position], values[position + 1 :]
            return _Several(tuple(_applied(function, *before, each, *after) for each in value.values))
    if any(value is _MISSING for value in values):
        return _MISSING
    if any(value is UNKNOWN for value in values):
        return UNKNOWN
    try:
        return function(*values)
    except (TypeError, IndexError, ZeroDivisionError):
        return _MISSING


def _item(values: Any, index: Any) -> Any:
    found = values[index]
    return UNKNOWN if found is None else found


def _length(value: Any) -> Any:
    if isinstance(value, _Several):
        return len(value.values)
    return _applied(len, value)


def _factor(value: Any) -> Any:
    return _applied(_largest_factor, value)


def _largest_factor(number: int) -> int:
    found, divisor = 1, 2
    while divisor * divisor <= number:
        if number % divisor:
            divisor += 1
        else:
            found, number = divisor, number // divisor
    return max(found, number)


_FUNCTIONS: Final[Mapping[str, Callable[[Any], Any]]] = {"len": _length, "factor": _factor}


def _truth(value: Any) -> Any:
    """True, False or UNKNOWN; several hold where one does."""
    if isinstance(value, _Several):
        truths = [_truth(each) for each in value.values]
        return True if True in truths else UNKNOWN if UNKNOWN in truths else False
    return UNKNOWN if value is UNKNOWN else value is not _MISSING and bool(value)


def _not(truth: Any) -> Any:
    return UNKNOWN if truth is UNKNOWN else not truth


def _listed(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and any(isinstance(each, TensorFacts) for each in value):
        return _Several(tuple(value))
    return tuple(value) if isinstance(value, list) else value


def _tensors(value: Any) -> Iterator[TensorFacts]:
    if isinstance(value, TensorFacts):
        yield value
    elif isinstance(value, (list, tuple)):
        yield from (each for each in value if isinstance(each, TensorFacts))
