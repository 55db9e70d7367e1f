"""Calls of PyTorch's functions for which torch_npu has an operator, and the functions of flash_attn, which an Ascend
machine cannot install: both are given to the functions of `ascend_affinity`. And numbers in float64 tensors, for which
an NPU converts what they are multiplied with, or computes on the CPU."""

from __future__ import annotations

import ast
from collections.abc import Collection

from gpu2npu.codemods.affinity.edit import ProgramReader
from gpu2npu.codemods.affinity.exclusions.derivatives import compares_class
from gpu2npu.python.text.concrete import has_comment
from gpu2npu.python.text.templates import code
from gpu2npu.python.tree.syntax import arguments, is_unpacked
from gpu2npu.shapes.kind import AffinityReplacement, Find
from gpu2npu.shapes.reading import TermReader

_MODULES = frozenset({"flash_attn", "flash_attn.flash_attn_interface"})
_KINDS = ("", "kvpacked_", "qkvpacked_", "varlen_", "varlen_kvpacked_", "varlen_qkvpacked_")
_FUNCTIONS = frozenset(f"flash_attn_{kind}func" for kind in _KINDS)
# Arguments that the operator has nothing for.
_OTHER = ("alibi_slopes", "softcap", "return_attn_probs", "return_softmax", "block_table")


def renamed(
    name: str, function: str, left: Collection[str] = (), most: int = 9, since: int = 0, is_class: bool = False
) -> Find:
    """Finds calls of a qualified name without the keywords `left` and with at most `most` arguments by position, for
    PyTorch 2.`since` and later: before, a project has a function of its own under that name. A class is left in a
    program that compares exact classes with it."""

    def find(reading: ProgramReader, node: ast.Call) -> AffinityReplacement | None:
        given = {each.arg for each in node.keywords}
        if reading.qualified(node.func) != name or any(is_unpacked(each) for each in arguments(node)):
            return None
        release = tuple(int(part) for part in reading.program.version.split(".")[:2])
        fits = given.isdisjoint(left) and len(node.args) <= most and release >= (2, since)
        fits = fits and not (is_class and compares_class(reading.program, name))
        return AffinityReplacement(function=function, at=reading.file.bounds(node.func)) if fits else None

    return find


def find_flash_attention(reading: TermReader, node: ast.ImportFrom) -> AffinityReplacement | None:
    """An import of nothing but these functions that the file cannot do without."""
    names = {each.name for each in node.names}
    if node.module not in _MODULES or node.level or not names <= _FUNCTIONS:
        return None
    guarded = any(isinstance(each, (ast.Try, ast.If)) for each in reading.file.above(node))
    if guarded or any(word in reading.file.text for word in _OTHER):
        return None
    return AffinityReplacement(imports=", ".join(ast.unparse(each) for each in node.names))


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


def find_constant(reading: TermReader, node: ast.BinOp) -> AffinityReplacement | None:
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
