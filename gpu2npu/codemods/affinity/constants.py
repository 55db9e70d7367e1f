"""Numbers in float64 tensors, for which an NPU converts what they are multiplied with, or computes on the CPU."""

from __future__ import annotations

import ast

from gpu2npu.python.text.concrete import has_comment
from gpu2npu.python.text.templates import code
from gpu2npu.python.tree.syntax import is_unpacked
from gpu2npu.shapes.kind import AffinityReplacement
from gpu2npu.shapes.reading import TermReader

_FLOAT64 = frozenset({"torch.float64", "torch.double"})
# Of math, those that give one number: modf and frexp give two.
_MATH = frozenset(
    f"math.{name}"
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "comb", "copysign", "cos", "cosh",
        "degrees", "dist", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "factorial", "floor", "fma", "fmod", "fsum",
        "gamma", "gcd", "hypot", "isqrt", "lcm", "ldexp", "lgamma", "log", "log10", "log1p", "log2", "nextafter",
        "perm", "pow", "prod", "radians", "remainder", "sin", "sinh", "sqrt", "sumprod", "tan", "tanh", "trunc", "ulp",
    )
)  # fmt: skip
# What makes a float64 of NumPy of Python's numbers, which torch.tensor takes as float64.
_NUMPY = frozenset(f"numpy.{name}" for name in ("float64", "sqrt", "log", "exp", "log2", "log10"))


def find(reading: TermReader, node: ast.BinOp) -> AffinityReplacement | None:
    """`x * torch.tensor(0.5, dtype=torch.float64)`, or + or /, of a name and one number."""
    if isinstance(node.op, ast.MatMult):
        return None
    for x, constant in ((node.left, node.right), (node.right, node.left)):
        if isinstance(x, ast.Name) and isinstance(constant, ast.Call) and not has_comment(reading.file, constant):
            given = _number(reading, constant)
            if given is not None:
                at = reading.file.bounds
                more = (code("device={device}", device=at(given["device"])),) if "device" in given else ()
                return AffinityReplacement("constant", (at(x), at(constant.args[0]), *more), at=at(constant))
    return None


def _number(reading: TermReader, call: ast.Call) -> dict[str | None, ast.expr] | None:
    """The keyword arguments of the making of a float64 tensor of one number."""
    given = {each.arg: each.value for each in call.keywords}
    if reading.qualified(call.func) != "torch.tensor" or len(call.args) != 1 or is_unpacked(call.args[0]):
        return None
    if not given.keys() <= {"dtype", "device"}:
        return None
    value, dtype = call.args[0], given.get("dtype")
    is_wide = _of_numpy(reading, value) if dtype is None else reading.qualified(dtype) in _FLOAT64
    is_number = reading.term(value).number is not None or _of_math(reading, value) or _of_numpy(reading, value)
    return given if is_wide and is_number else None


def _of_math(reading: TermReader, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and reading.qualified(node.func) in _MATH


def _of_numpy(reading: TermReader, node: ast.expr) -> bool:
    """Return whether a function of NumPy makes a float64 of one number."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return False
    return reading.qualified(node.func) in _NUMPY and reading.term(node.args[0]).number is not None
