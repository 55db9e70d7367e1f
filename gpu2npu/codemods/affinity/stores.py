"""`x[x < c] = v` with a small number v becomes `x.masked_fill_(x < c, v)`.

The mask has the tensor's shape because it compares the tensor itself, both write in place, both convert v to the
tensor's dtype alike, and both have the same gradient; tests hold all of it for every dtype.
"""

from __future__ import annotations

import ast

from gpu2npu.codemods.affinity.kind import AffinityKind, AffinityReplacement, FusedCase
from gpu2npu.codemods.affinity.reading import TermReader
from gpu2npu.python.meaning.types import ValueTypes

# Numbers that every dtype but bool holds, or wraps alike.
_LARGEST = 127
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def find(reading: TermReader, node: ast.AST) -> AffinityReplacement | None:
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
    if not numbers or not ValueTypes(file.names).is_tensor(tensor, file.scope_of(node)):
        return None
    return AffinityReplacement((f"{tensor.id}.masked_fill_(", file.bounds(mask), ", ", file.bounds(node.value), ")"))


def _is_small(node: ast.expr) -> bool:
    """Return whether a value is a small number; no negative fraction, which masked_fill_ refuses for uint8."""
    literal = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    value = literal.value if isinstance(literal, ast.Constant) else None
    if type(value) is float:
        return literal is node and value <= _LARGEST
    return type(value) is int and abs(value) <= _LARGEST


MASKED_STORE = AffinityKind(
    "masked-store",
    find,
    (ast.Assign,),
    (b"] = ",),
    ("aten::masked_fill_",),
    "An NPU fills by a mask in one operator.",
    "Nothing.",
    {"float32": 0, "float16": 0, "bfloat16": 0},
    (
        FusedCase(
            """
def f(x: torch.Tensor):
    y = x.clone()
    y[y < 0] = 0.5
    return y
""",
            """
def f(x: torch.Tensor):
    y = x.clone()
    y.masked_fill_(y < 0, 0.5)
    return y
""",
            ("b d",),
        ),
        FusedCase("def f(x: torch.Tensor, y: torch.Tensor):\n    x[y < 0] = 0\n"),
    ),
)
