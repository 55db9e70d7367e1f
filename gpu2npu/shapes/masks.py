"""Values picked by a mask, of which only the device knows how many there are: sums, losses and stores without them."""

from __future__ import annotations

import ast
from functools import partial

from gpu2npu.python.text.templates import code
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Assigned
from gpu2npu.python.tree.syntax import last_name, string_value
from gpu2npu.shapes.kind import AffinityReplacement
from gpu2npu.shapes.reading import TermReader

# Functions and methods that give booleans.
BOOLEAN_CALLS = frozenset({"isnan", "isinf", "isfinite", "isclose", "logical_and", "logical_or", "logical_not",
    "logical_xor", "eq", "ne", "gt", "lt", "ge", "le", "bool", "isin"})  # fmt: skip
# Methods that give something for each element: `nonzero(mask).squeeze(1)`.
BY_ELEMENT = frozenset({"abs", "pow", "square", "float", "log", "exp", "sqrt", "clamp", "contiguous", "view", "reshape",
    "squeeze", "unsqueeze", "flatten", "long"})  # fmt: skip
_LARGEST = 127  # numbers up to here every dtype but bool holds, or wraps alike
_REDUCTIONS = {"sum": 'reduction="sum"', "mean": 'reduction="mean"'}
_LOSSES = frozenset(
    f"torch.nn.functional.{name}"
    for name in ("cross_entropy", "mse_loss", "l1_loss", "smooth_l1_loss", "binary_cross_entropy",
                 "binary_cross_entropy_with_logits")
)  # fmt: skip


def is_mask(
    file: PythonFile,
    index: ast.expr,
    calls: frozenset[str] = BOOLEAN_CALLS,
    *,
    all_inverted: bool = False,
    depth: int = 3,
) -> bool:
    """Return whether an index is made of booleans: by comparisons, or by `calls`. A name is, where all that it is
    assigned in its function is. `~i` is one of a mask; with `all_inverted` of anything, as for advice: a person would
    seldom index by an inverted number."""
    is_one = partial(is_mask, file, calls=calls, all_inverted=all_inverted)
    if isinstance(index, ast.Compare):
        return not isinstance(index.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn))
    if isinstance(index, ast.UnaryOp):
        return isinstance(index.op, ast.Invert) and (all_inverted or is_one(index.operand, depth=depth))
    if isinstance(index, ast.BinOp):
        is_joined = isinstance(index.op, (ast.BitAnd, ast.BitOr))
        return is_joined and any(is_one(each, depth=depth) for each in (index.left, index.right))
    if isinstance(index, ast.Call):
        method = index.func if isinstance(index.func, ast.Attribute) and index.func.attr in BY_ELEMENT else None
        return last_name(index.func) in calls or (method is not None and is_one(method.value, depth=depth))
    found = file.scope_of(index).lookup(index.id) if isinstance(index, ast.Name) and depth else None
    assigned = [each for each in found[1] if isinstance(each, Assigned)] if found is not None else []
    return bool(assigned) and all(
        each.value is not None and not each.is_part and is_one(each.value, depth=depth - 1) for each in assigned
    )


def _is_of_tensors(reading: TermReader, picked: ast.Subscript) -> bool:
    """Return whether what is picked from, or something that the mask is made of, is known to be a tensor."""
    file, mask = reading.file, reading.value_of(picked.slice)
    types = reading.types
    parts = [picked.value, *(part for part in ast.walk(mask) if isinstance(part, (ast.Name, ast.Attribute, ast.Call)))]
    return any(types.is_tensor(part, file.scope_of(part)) for part in parts)


def find_reduction(reading: TermReader, node: ast.Call) -> AffinityReplacement | None:
    """`x[mask].sum()` and `x[mask].mean()`, and the same of `torch.masked_select(x, mask)`."""
    picked = node.func.value if isinstance(node.func, ast.Attribute) else None
    if not isinstance(node.func, ast.Attribute) or node.args or node.keywords:
        return None
    if isinstance(picked, ast.Call):
        given = tuple(map(reading.file.bounds, _selected(reading, picked)))
        return AffinityReplacement(f"selected_{node.func.attr}", given) if given else None
    if not isinstance(picked, ast.Subscript):
        return None
    if isinstance(picked.slice, (ast.Slice, ast.Tuple)) or not is_mask(reading.file, picked.slice):
        return None
    if not _is_of_tensors(reading, picked):
        return None
    at = reading.file.bounds
    function = f"masked_{node.func.attr}"
    return AffinityReplacement(function, (at(picked.value), at(picked.slice)))


def _selected(reading: TermReader, call: ast.Call) -> list[ast.expr]:
    """The tensor and the mask of `torch.masked_select(x, mask)` or `x.masked_select(mask)`."""
    if last_name(call.func) != "masked_select" or call.keywords or not isinstance(call.func, ast.Attribute):
        return []
    is_function = reading.qualified(call.func) == "torch.masked_select"
    given = call.args if is_function else [call.func.value, *call.args]
    return given if len(given) == 2 and not any(isinstance(each, ast.Starred) for each in given) else []


def find_loss(reading: TermReader, node: ast.Call) -> AffinityReplacement | None:
    """`F.cross_entropy(x[mask], y[mask])`, also with `reduction="sum"`."""
    picked = [each for each in node.args if isinstance(each, ast.Subscript)]
    if reading.qualified(node.func) not in _LOSSES or len(node.args) != 2 or len(picked) != 2:
        return None
    masks = [each.slice for each in picked]
    if ast.dump(masks[0]) != ast.dump(masks[1]) or not is_mask(reading.file, masks[0]) or _called_in(masks[0]):
        return None
    reductions = [string_value(each.value) for each in node.keywords]
    if any(each.arg != "reduction" for each in node.keywords) or not _REDUCTIONS.keys() >= set(reductions):
        return None
    at = reading.file.bounds
    x, y = (at(each.value) for each in picked)
    given = tuple(code(_REDUCTIONS[str(each)]) for each in reductions[:1])
    return AffinityReplacement("masked_loss", (at(node.func), x, y, at(masks[0]), *given))


def _called_in(node: ast.expr) -> bool:
    """Return whether an expression calls what may give another value each time, or is long to compute twice."""
    return any(isinstance(each, ast.Call) for each in ast.walk(node))


def find_store(reading: TermReader, node: ast.Assign) -> AffinityReplacement | None:
    """`x[mask] = v` with a small number v."""
    target = node.targets[0] if len(node.targets) == 1 else None
    if not isinstance(target, ast.Subscript) or isinstance(target.slice, (ast.Slice, ast.Tuple)):
        return None
    number = reading.term(node.value).number
    if number is None or abs(number) > _LARGEST or not is_mask(reading.file, target.slice):
        return None
    if not _is_of_tensors(reading, target):
        return None
    at = reading.file.bounds
    return AffinityReplacement("store", (at(target.value), at(target.slice), at(node.value)))


_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def find_compared_store(reading: TermReader, node: ast.AST) -> AffinityReplacement | None:
    """The assignment of a number where a tensor compares with another number."""
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if not isinstance(node, ast.Assign) or not isinstance(target, ast.Subscript):
        return None
    tensor, mask = target.value, target.slice
    if not isinstance(tensor, ast.Name) or not isinstance(mask, ast.Compare) or len(mask.ops) != 1:
        return None
    if not isinstance(mask.left, ast.Name) or mask.left.id != tensor.id or not isinstance(mask.ops[0], _COMPARISONS):
        return None
    numbers = _is_small(mask.comparators[0]) and _is_small(node.value)
    file = reading.file
    if not numbers or not reading.types.is_tensor(tensor, file.scope_of(node)):
        return None
    template = "{tensor}.masked_fill_({mask}, {value})"
    text = code(template, tensor=tensor.id, mask=file.bounds(mask), value=file.bounds(node.value))
    return AffinityReplacement(text=text)


def _is_small(node: ast.expr) -> bool:
    """Return whether a value is a small number; no negative fraction, which masked_fill_ refuses for uint8."""
    literal = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    value = literal.value if isinstance(literal, ast.Constant) else None
    if type(value) is float:
        return literal is node and value <= _LARGEST
    return type(value) is int and abs(value) <= _LARGEST
