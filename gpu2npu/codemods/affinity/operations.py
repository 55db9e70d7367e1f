"""The operations of torch as terms, by function, by method and by operator."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpu2npu.codemods.affinity.terms import FLOAT32, Term, const

if TYPE_CHECKING:
    from gpu2npu.codemods.affinity.reading import TermReader

_UNARY = frozenset({"rsqrt", "sqrt", "neg", "sigmoid", "tanh", "erf"})
_BINARY = {"mul": "mul", "multiply": "mul", "add": "add", "sub": "sub", "div": "div", "true_divide": "div",
    "divide": "div", "matmul": "matmul", "bmm": "matmul"}  # fmt: skip
_OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow", ast.MatMult: "matmul",
}  # fmt: skip
_FOLDED: Mapping[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
}  # fmt: skip
_ROOTS = frozenset({"math.sqrt", "numpy.sqrt"})


def binary(operator: ast.operator, left: Term, right: Term) -> Term | None:
    """The value of `left operator right`; None for an operator that is not looked at."""
    op = _OPERATORS.get(type(operator))
    return operation(op, left, right) if op is not None else None


def operation(op: str, left: Term, right: Term) -> Term | None:
    """The value of an operation on two values; numbers are computed, and x * x is a power."""
    if left.number is not None and right.number is not None and op in _FOLDED:
        try:
            return const(float(_FOLDED[op](left.number, right.number)))
        except (ArithmeticError, TypeError, ValueError):
            return None
    if op == "mul" and left == right:
        return Term("pow", (left, const(2)))
    if op == "pow" and right.number is None:
        return None
    if op == "pow" and right.number in (0.5, -0.5):
        return Term("sqrt" if right.number == 0.5 else "rsqrt", (left,))
    if op == "div" and left.number == 1 and right.op == "sqrt":
        return Term("rsqrt", right.args)
    return Term(op, (left, right))


def called(reading: TermReader, call: ast.Call) -> Term | None:
    """The value of a call of one of torch's functions or methods; None for any other."""
    keywords = {each.arg or "**": each.value for each in call.keywords}
    if any(isinstance(each, ast.Starred) for each in call.args) or "**" in keywords or "out" in keywords:
        return None
    qualified = reading.qualified(call.func)
    if qualified == "torch.finfo":
        return Term("finfo")
    if not qualified and isinstance(call.func, ast.Attribute) and reading.is_dropout(call.func):
        plain = len(call.args) == 1 and not keywords
        return Term("dropout", (reading.term(call.args[0]), reading.term(call.func))) if plain else None
    if _is_infinity(call):
        return const(float(ast.literal_eval(call.args[0])))
    if qualified in _ROOTS and len(call.args) == 1:
        number = reading.term(call.args[0]).number
        return const(math.sqrt(number)) if number is not None and number >= 0 else None
    module, _, name = qualified.rpartition(".")
    if module in ("torch", "torch.nn.functional", "torch.special"):
        arguments = list(call.args)
        if not arguments and "input" in keywords:
            arguments = [keywords.pop("input")]
    elif isinstance(call.func, ast.Attribute) and not qualified:
        name, arguments = call.func.attr, [call.func.value, *call.args]
    else:
        return None
    return _operation(reading, name, arguments, keywords) if arguments else None


def _is_infinity(call: ast.Call) -> bool:
    """Return whether a call is `float("inf")` or `float("-inf")`."""
    text = call.args[0] if len(call.args) == 1 and isinstance(call.func, ast.Name) and call.func.id == "float" else None
    return isinstance(text, ast.Constant) and isinstance(text.value, str) and text.value.lower().lstrip("+-") == "inf"


def _operation(
    reading: TermReader, name: str, arguments: Sequence[ast.expr], keywords: Mapping[str, ast.expr]
) -> Term | None:
    if name in _SPECIAL:
        return _SPECIAL[name](reading, arguments, keywords)
    if keywords:
        return None
    if name in _UNARY and len(arguments) == 1:
        return Term(name, (reading.term(arguments[0]),))
    if name in _BINARY and len(arguments) == 2:
        return operation(_BINARY[name], *(reading.term(each) for each in arguments))
    if name == "reciprocal" and len(arguments) == 1:
        return operation("div", const(1), reading.term(arguments[0]))
    return None


Arguments = Sequence[ast.expr]
Keywords = Mapping[str, ast.expr]


def _value(arguments: Arguments, keywords: Keywords, position: int, name: str) -> ast.expr | None:
    return arguments[position] if position < len(arguments) else keywords.get(name)


def _number(reading: TermReader, node: ast.expr | None) -> float | None:
    return reading.term(node).number if node is not None else None


def _power(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    exponent = _value(arguments, keywords, 1, "exponent")
    return operation("pow", reading.term(arguments[0]), reading.term(exponent)) if exponent is not None else None


def _square(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    return Term("pow", (reading.term(arguments[0]), const(2))) if len(arguments) == 1 and not keywords else None


def _mean(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """The mean over the last dimension, which is kept."""
    dim = _value(arguments, keywords, 1, "dim")
    keeps = _value(arguments, keywords, 2, "keepdim")
    if isinstance(dim, (ast.Tuple, ast.List)) and len(dim.elts) == 1:
        dim = dim.elts[0]
    keeps_dim = isinstance(keeps, ast.Constant) and keeps.value is True
    if _number(reading, dim) != -1 or not keeps_dim or keywords.keys() - {"dim", "keepdim"}:
        return None
    return Term("mean", (reading.term(arguments[0]),))


def _softmax(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """Softmax over the last dimension."""
    dim = _value(arguments, keywords, 1, "dim")
    dtype = keywords.get("dtype")
    if _number(reading, dim) != -1 or keywords.keys() - {"dim", "dtype"} or len(arguments) > 2:
        return None
    scores = reading.term(arguments[0])
    if dtype is not None:
        target = reading.term(dtype)
        if target.op not in ("float32", "dtype"):
            return None
        scores = Term("cast", (scores, target), through=(*scores.through, *target.through))
    return Term("softmax", (scores,))


def _cast(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """A conversion to float32, or to the dtype of a value."""
    dtype = _value(arguments, keywords, 1, "dtype")
    target = (
        reading.term(dtype) if dtype is not None and len(arguments) <= 2 and not keywords.keys() - {"dtype"} else None
    )
    if target is None or target.op not in ("float32", "dtype"):
        return None
    return Term("cast", (reading.term(arguments[0]), target))


def _float(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    return Term("cast", (reading.term(arguments[0]), FLOAT32)) if len(arguments) == 1 and not keywords else None


def _cast_as(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    if len(arguments) != 2 or keywords:
        return None
    return Term("cast", (reading.term(arguments[0]), Term("dtype", (reading.term(arguments[1]),))))


def _silu(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    return Term("silu", (reading.term(arguments[0]),)) if len(arguments) == 1 and not keywords else None


def _gelu(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    kind = keywords.get("approximate")
    if len(arguments) != 1 or keywords.keys() - {"approximate"}:
        return None
    if kind is not None and not (isinstance(kind, ast.Constant) and kind.value in ("none", "tanh")):
        return None
    return Term("gelu", (reading.term(arguments[0]),), value=kind.value if isinstance(kind, ast.Constant) else "none")


def _softplus(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    return Term("softplus", (reading.term(arguments[0]),)) if len(arguments) == 1 and not keywords else None


def _dropout(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """A value of which some elements are dropped, the probability, and whether they are."""
    p, training = (_value(arguments, keywords, at, name) for at, name in ((1, "p"), (2, "training")))
    if p is None or training is None or len(arguments) + len(keywords) != 3:
        return None
    return Term("dropout", tuple(reading.term(each) for each in (arguments[0], p, training)))


def _transposed(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """The last two dimensions swapped."""
    swapped = {_number(reading, each) for each in arguments[1:]}
    last = len(arguments) == 3 and not keywords and swapped == {-1, -2}
    return Term("transposed", (reading.term(arguments[0]),)) if last else None


def _chunk(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """The two halves of the last dimension."""
    count = _value(arguments, keywords, 1, "chunks")
    dim = _value(arguments, keywords, 2, "dim")
    halves = _number(reading, count) == 2 and _number(reading, dim) == -1 and not keywords.keys() - {"chunks", "dim"}
    return Term("halves", (reading.term(arguments[0]),)) if halves else None


def _joined(name: str) -> Callable[[TermReader, Arguments, Keywords], Term | None]:
    def joined(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
        dim = _value(arguments, keywords, 1, "dim")
        parts = arguments[0]
        if _number(reading, dim) != -1 or not isinstance(parts, (ast.Tuple, ast.List)) or len(parts.elts) != 2:
            return None
        return Term(name, tuple(reading.term(each) for each in parts.elts))

    return joined


def _flattened(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """The last two dimensions as one."""
    start = _value(arguments, keywords, 1, "start_dim")
    end = _value(arguments, keywords, 2, "end_dim")
    if _number(reading, start) != -2 or (end is not None and _number(reading, end) != -1):
        return None
    return Term("flattened", (reading.term(arguments[0]),))


def _masked(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    if len(arguments) != 3 or keywords:
        return None
    return Term("masked", tuple(reading.term(each) for each in arguments))


def _contiguous(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """The same values in another layout."""
    return reading.term(arguments[0]) if len(arguments) == 1 and not keywords else None


_SPECIAL: Mapping[str, Callable[[TermReader, Arguments, Keywords], Term | None]] = {
    "pow": _power, "square": _square, "mean": _mean, "softmax": _softmax, "to": _cast, "type": _cast, "float": _float,
    "type_as": _cast_as, "silu": _silu, "gelu": _gelu, "softplus": _softplus, "dropout": _dropout,
    "transpose": _transposed,
    "swapaxes": _transposed, "chunk": _chunk, "cat": _joined("cat"), "concat": _joined("cat"),
    "stack": _joined("stack"), "flatten": _flattened, "masked_fill": _masked, "contiguous": _contiguous,
}  # fmt: skip


def subscript(reading: TermReader, node: ast.Subscript) -> Term | None:
    """A half of the last dimension, or every other element of it: `x[..., :x.shape[-1] // 2]`, `x[..., ::2]`."""
    index = node.slice
    if isinstance(index, ast.Constant) and index.value in (0, 1):
        halves = reading.term(node.value)
        name = "second_half" if index.value else "first_half"
        return Term(name, halves.args, through=halves.through) if halves.op == "halves" else None
    dots, part = index.elts if isinstance(index, ast.Tuple) and len(index.elts) == 2 else (None, None)
    if not isinstance(dots, ast.Constant) or dots.value is not Ellipsis or not isinstance(part, ast.Slice):
        return None
    whole = reading.term(node.value)
    if part.step is not None:
        first = _number(reading, part.lower) if part.lower is not None else 0.0
        if part.upper is None and _number(reading, part.step) == 2 and first in (0, 1):
            return Term("odd" if first else "even", (whole,))
        return None
    if part.lower is None and part.upper is not None and is_half(reading, part.upper, whole):
        return Term("first_half", (whole,))
    if part.upper is None and part.lower is not None and is_half(reading, part.lower, whole):
        return Term("second_half", (whole,))
    return None


def is_half(reading: TermReader, node: ast.expr, whole: Term) -> bool:
    """Return whether an expression is half the size of the last dimension of a value."""
    node = reading.value_of(node)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv) or _number(reading, node.right) != 2:
        return False
    size = reading.value_of(node.left)
    if isinstance(size, ast.Call):  # x.size(-1)
        sized = isinstance(size.func, ast.Attribute) and size.func.attr == "size" and len(size.args) == 1
        return (
            sized
            and isinstance(size.func, ast.Attribute)
            and _number(reading, size.args[0]) == -1
            and reading.term(size.func.value) == whole
        )
    shaped = isinstance(size, ast.Subscript) and isinstance(size.value, ast.Attribute) and size.value.attr == "shape"
    if not shaped or not isinstance(size, ast.Subscript) or not isinstance(size.value, ast.Attribute):
        return False
    return _number(reading, size.slice) == -1 and reading.term(size.value.value) == whole
