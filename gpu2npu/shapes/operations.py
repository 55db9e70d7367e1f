"""The operations of torch as terms, by function, by method and by operator."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpu2npu.python.tree.syntax import last_name
from gpu2npu.shapes.terms import FLOAT32, Term, const, dtypes, negated

if TYPE_CHECKING:
    from gpu2npu.shapes.reading import TermReader

_UNARY = {name: name for name in ("rsqrt", "sqrt", "neg", "sigmoid", "tanh", "erf", "exp", "log",
    "log1p", "silu", "softplus")} | {"expit": "sigmoid"}  # fmt: skip
_BINARY = {"mul": "mul", "multiply": "mul", "add": "add", "sub": "sub", "div": "div", "true_divide": "div",
    "divide": "div", "matmul": "matmul", "bmm": "matmul"}  # fmt: skip
# Operations by the number of values that they take, and nothing else, and their name here.
_OF_VALUES = {"masked_fill": (3, "masked"), "nll_loss": (2, "nll_loss")}
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
        return Term("rsqrt", right.args, through=right.assignments)
    exponential = _one_more_than(right) if op == "div" else None
    if exponential is not None and exponential.op == "exp":  # left / (1 + exp(-x))
        gate = Term("logistic", (negated(exponential.args[0]),), through=right.assignments)
        return gate if left.number == 1 else Term("mul", (left, gate))
    return Term(op, (left, right))


def _one_more_than(term: Term) -> Term | None:
    """The value that another is one more than."""
    for one, other in (term.args, term.args[::-1]) if term.op == "add" else ():
        if one.number == 1:
            return other
    return None


def function(name: str, x: Term) -> Term:
    """The value of a function of one value; log(1 + exp(x)) is softplus(x)."""
    inner = x if name == "log1p" else _one_more_than(x) if name == "log" else None
    if inner is not None and inner.op == "exp":
        return Term("softplus", inner.args, through=x.assignments)
    if name == "sqrt" and x.number is not None and x.number >= 0:
        return const(math.sqrt(x.number))
    return Term(name, (x,))


def called(reading: TermReader, call: ast.Call) -> Term | None:
    """The value of a call of one of torch's functions or methods; None for any other."""
    keywords = {each.arg or "**": each.value for each in call.keywords}
    if any(isinstance(each, ast.Starred) for each in call.args) or "**" in keywords or "out" in keywords:
        return None
    qualified = reading.qualified(call.func)
    if qualified == "torch.finfo":
        return Term("finfo")
    if not qualified and len(call.args) == 1 and not keywords and _may_be_module(call):
        found = _of_module(reading, call)
        if found is not None:
            return found
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


# What variables for modules that are followed are called, before their types are looked for.
_WORDS_OF_MODULES = re.compile(r"(?i)drop|act|s[ie]|gelu|soft|attend|nonlin|gate|norm|ln")
_WITH_WEIGHTS = {"torch.nn.Dropout": "dropout", "torch.nn.LayerNorm": "layer_norm"}  # terms that name the module
_MODULES = {f"torch.nn.{name}": name.lower() for name in ("SiLU", "Sigmoid", "Tanh", "Softplus", "GELU", "Softmax")}


def _may_be_module(call: ast.Call) -> bool:
    """Return whether a call of one value may be of a module that is followed, by its name or by the sum it is given."""
    return isinstance(call.args[0], ast.BinOp) or _WORDS_OF_MODULES.search(ast.unparse(call.func)) is not None


def _of_module(reading: TermReader, call: ast.Call) -> Term | None:
    """The value of a call of a module of PyTorch, all of whose makings are written alike."""
    kind = reading.module(call.func)
    if kind in _WITH_WEIGHTS:
        return Term(_WITH_WEIGHTS[kind], (reading.term(call.args[0]), reading.term(call.func)))
    made = reading.makings(call.func) if kind in _MODULES else []
    if len(made) != 1 or len(made[0].args) > (kind == "torch.nn.Softmax"):
        return None
    given = {each.arg or "**": each.value for each in made[0].keywords}
    arguments = [call.args[0], *made[0].args]
    found = _operation(reading, _MODULES[kind], arguments, given) if given.keys() <= {"dim", "approximate"} else None
    return replace(found, is_certain=False) if found is not None else None


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
    count, op = _OF_VALUES.get(name, (0, ""))
    if op and len(arguments) == count:
        return Term(op, tuple(map(reading.term, arguments)))
    if name in _UNARY and len(arguments) == 1:
        return function(_UNARY[name], reading.term(arguments[0]))
    if name in _BINARY and len(arguments) == 2:
        found = operation(_BINARY[name], *(reading.term(each) for each in arguments))
        return replace(found, dimensions=3) if found is not None and name == "bmm" else found
    if name in ("reciprocal", "square") and len(arguments) == 1:
        x = reading.term(arguments[0])
        return operation("mul", x, x) if name == "square" else operation("div", const(1), x)
    return None


Arguments = Sequence[ast.expr]
Keywords = Mapping[str, ast.expr]


def _value(arguments: Arguments, keywords: Keywords, position: int, name: str) -> ast.expr | None:
    return arguments[position] if position < len(arguments) else keywords.get(name)


def number(reading: TermReader, node: ast.expr | None) -> float | None:
    return reading.term(node).number if node is not None else None


def _plus_product(product: str, factor: str) -> Callable[[TermReader, Arguments, Keywords], Term | None]:
    """The reader of calls of a function that adds the product of two values, times `factor`, to a third one, times
    `beta`; the third is not read where `beta` is 0."""

    def read(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
        if len(arguments) != 3 or keywords.keys() - {"beta", factor}:
            return None
        first, left, right = map(reading.term, arguments)
        beta, scale = (reading.term(keywords[each]) if each in keywords else const(1) for each in ("beta", factor))
        found = Term(product, (left, right), dimensions=3 if product == "matmul" else None)
        if scale.number != 1:
            found = Term("mul", (found, scale))
        if beta.number == 0:
            return found
        return Term("add", (first if beta.number == 1 else Term("mul", (first, beta)), found))

    return read


def _log_softmax(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """The logarithm of softmax over the classes, dimension 1; the last one may be another."""
    dim = number(reading, _value(arguments, keywords, 1, "dim"))
    if dim not in (1, -1) or keywords.keys() - {"dim"} or len(arguments) > 2:
        return None
    return Term("log_softmax", (reading.term(arguments[0]),), is_certain=dim == 1)


def _power(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    exponent = _value(arguments, keywords, 1, "exponent")
    return operation("pow", reading.term(arguments[0]), reading.term(exponent)) if exponent is not None else None


def _mean(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """The mean over the last dimension, which is kept."""
    dim = _value(arguments, keywords, 1, "dim")
    keeps = _value(arguments, keywords, 2, "keepdim")
    if isinstance(dim, (ast.Tuple, ast.List)) and len(dim.elts) == 1:
        dim = dim.elts[0]
    keeps_dim = isinstance(keeps, ast.Constant) and keeps.value is True
    if number(reading, dim) != -1 or not keeps_dim or keywords.keys() - {"dim", "keepdim"}:
        return None
    return Term("mean", (reading.term(arguments[0]),))


def _softmax(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """Softmax over the last dimension; by its number it is not certain where a part may have more dimensions."""
    dim = number(reading, _value(arguments, keywords, 1, "dim"))
    dtype = keywords.get("dtype")
    scores = reading.term(arguments[0])
    is_last = dim == -1 or (dim is not None and dim + 1 in scores.ranks)
    if not is_last or keywords.keys() - {"dim", "dtype"} or len(arguments) > 2:
        return None
    if dtype is not None:
        target = reading.term(dtype)
        if target.op not in ("float32", "dtype"):
            return None
        scores = Term("cast", (scores, target), through=(*scores.through, *target.through))
    return Term("softmax", (scores,), is_certain=dim == -1 or len(scores.ranks) == 1)


def _cast(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """A conversion to float32, or to the dtype of a value."""
    dtype = _value(arguments, keywords, 1, "dtype")
    if dtype is None or len(arguments) > 2 or keywords.keys() - {"dtype"}:
        return None
    target = reading.term(dtype)
    return _converted(reading.term(arguments[0]), target) if target.op in ("float32", "dtype") else None


def _converted(x: Term, target: Term) -> Term:
    """A value in some dtype; the value itself where it has the dtype."""
    found = Term("cast", (x, target))
    return x if x.op not in ("leaf", "cast") and dtypes(found) == dtypes(x) else found


def _float(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    return Term("cast", (reading.term(arguments[0]), FLOAT32)) if len(arguments) == 1 and not keywords else None


def _cast_as(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    if len(arguments) != 2 or keywords:
        return None
    return _converted(reading.term(arguments[0]), Term("dtype", (reading.term(arguments[1]),)))


def _gelu(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    kind = keywords.get("approximate")
    if len(arguments) != 1 or keywords.keys() - {"approximate"}:
        return None
    if kind is not None and not (isinstance(kind, ast.Constant) and kind.value in ("none", "tanh")):
        return None
    return Term("gelu", (reading.term(arguments[0]),), value=kind.value if isinstance(kind, ast.Constant) else "none")


def _dropout(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """A value of which some elements are dropped, the probability, and whether they are."""
    p, training = (_value(arguments, keywords, at, name) for at, name in ((1, "p"), (2, "training")))
    if p is None or training is None or len(arguments) + len(keywords) != 3:
        return None
    return Term("dropout", tuple(reading.term(each) for each in (arguments[0], p, training)))


def _transposed(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """The last two dimensions swapped."""
    swapped = {number(reading, each) for each in arguments[1:]}
    last = len(arguments) == 3 and not keywords and swapped == {-1, -2}
    return Term("transposed", (reading.term(arguments[0]),)) if last else None


def _permuted(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """All dimensions in their order but for the last two, which are swapped."""
    dims = arguments[1:]
    if len(dims) == 1 and isinstance(dims[0], (ast.Tuple, ast.List)):
        dims = dims[0].elts
    order = [number(reading, each) for each in dims]
    count = len(order)
    last = not keywords and count > 1 and order == [*range(count - 2), count - 1, count - 2]
    return Term("transposed", (reading.term(arguments[0]),)) if last else None


def _einsum(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """A product of matrices, such as `bid,bjd->bij`; what has dimensions of the batch elsewhere is not certain."""
    equation, *operands = arguments
    if len(operands) == 1 and isinstance(operands[0], (ast.Tuple, ast.List)):
        operands = operands[0].elts
    if not isinstance(equation, ast.Constant) or not isinstance(equation.value, str) or len(operands) != 2 or keywords:
        return None
    parts = _EQUATION.fullmatch("".join(equation.value.split()).replace("...", "_"))
    if parts is None:
        return None
    left, right, result = parts.groups()
    summed, batch = set(left) & set(right) - set(result), set(left) & set(right) & set(result)
    rows, columns = set(left) - set(right), set(right) - set(left)
    if not len(summed) == len(rows) == len(columns) == 1 or set(result) != batch | rows | columns:
        return None
    if any(len(set(each)) != len(each) for each in (left, right, result)):
        return None
    inner, row, column = (next(iter(each)) for each in (summed, rows, columns))
    x, y = (reading.term(each) for each in operands)
    x = x if left.endswith(inner) else Term("transposed", (x,))
    turned = Term("transposed", (y,))
    y = turned if right.endswith(inner) else Term("transposed", (turned,))  # which has two dimensions
    start = result[:-2]
    in_order = {row + column: True, column + row: False}.get(result[-2:])
    ends = ({row + inner, inner + row}, {column + inner, inner + column})
    is_certain = in_order is not None and all(
        each.startswith(start) and each[-2:] in end for each, end in zip((left, right), ends, strict=True)
    )
    product = Term("matmul", (x, y), is_certain=is_certain)
    return Term("transposed", (product,)) if in_order is False else product


_EQUATION = re.compile(r"(_?[a-zA-Z]{2,}),(_?[a-zA-Z]{2,})->(_?[a-zA-Z]{2,})")  # with _ for ...


def _chunk(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """The two halves of the last dimension."""
    count = _value(arguments, keywords, 1, "chunks")
    count = count if count is not None else keywords.get("indices_or_sections")
    dim = _value(arguments, keywords, 2, "dim")
    is_last = number(reading, dim) == -1 and not keywords.keys() - {"chunks", "indices_or_sections", "dim"}
    return Term("halves", (reading.term(arguments[0]),)) if is_last and number(reading, count) == 2 else None


def _split(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """The two halves of the last dimension, or parts of it of some size."""
    size = _value(arguments, keywords, 1, "split_size")
    size = size if size is not None else keywords.get("split_size_or_sections")
    dim = _value(arguments, keywords, 2, "dim")
    names = {"split_size", "split_size_or_sections", "dim"}
    if size is None or number(reading, dim) != -1 or keywords.keys() - names:
        return None
    whole = reading.term(arguments[0])
    sizes = size.elts if isinstance(size, (ast.Tuple, ast.List)) else [size]
    if all(reading.is_half(each, whole) for each in sizes) and len(sizes) <= 2:
        return Term("halves", (whole,))
    is_plain = isinstance(sizes[0], (ast.Name, ast.Attribute, ast.Constant))
    if not is_plain or len({ast.dump(each) for each in sizes}) != 1:
        return None
    return Term("parts", (whole, reading.term(sizes[0])))


def _joined(name: str) -> Callable[[TermReader, Arguments, Keywords], Term | None]:
    def joined(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
        dim = _value(arguments, keywords, 1, "dim")
        parts = arguments[0]
        if not _is_last(reading, dim) or not isinstance(parts, (ast.Tuple, ast.List)) or len(parts.elts) != 2:
            return None
        return Term(name, tuple(reading.term(each) for each in parts.elts))

    return joined


def _is_last(reading: TermReader, dim: ast.expr | None) -> bool:
    """Return whether a dimension is the last: -1, or `x.ndim - 1`."""
    is_count = isinstance(dim, ast.BinOp) and isinstance(dim.op, ast.Sub) and last_name(dim.left) in ("ndim", "dim")
    return number(reading, dim.right if is_count and isinstance(dim, ast.BinOp) else dim) == (1 if is_count else -1)


def _flattened(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """The last two dimensions as one."""
    start = _value(arguments, keywords, 1, "start_dim")
    end = _value(arguments, keywords, 2, "end_dim")
    if number(reading, start) != -2 or (end is not None and number(reading, end) != -1):
        return None
    return Term("flattened", (reading.term(arguments[0]),))


def _contiguous(reading: TermReader, arguments: Arguments, keywords: Keywords) -> Term | None:
    """The same values in another layout."""
    return reading.term(arguments[0]) if len(arguments) == 1 and not keywords else None


_SPECIAL: Mapping[str, Callable[[TermReader, Arguments, Keywords], Term | None]] = {
    "pow": _power, "mean": _mean, "softmax": _softmax, "to": _cast, "type": _cast, "float": _float,
    "type_as": _cast_as, "gelu": _gelu, "dropout": _dropout, "transpose": _transposed, "swapaxes": _transposed,
    "permute": _permuted, "einsum": _einsum, "chunk": _chunk, "tensor_split": _chunk, "split": _split,
    "cat": _joined("cat"), "concat": _joined("cat"), "stack": _joined("stack"), "flatten": _flattened,
    "contiguous": _contiguous, "addcmul": _plus_product("mul", "value"), "baddbmm": _plus_product("matmul", "alpha"),
    "log_softmax": _log_softmax,
}  # fmt: skip


def item(parts: Term, index: int) -> Term | None:
    """The first or second of two parts of the last dimension."""
    name = {"halves": "half", "parts": "part"}.get(parts.op)
    return Term(f"{'second' if index else 'first'}_{name}", parts.args, through=parts.through) if name else None
