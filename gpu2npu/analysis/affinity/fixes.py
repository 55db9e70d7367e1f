"""The replacements that change no result, which `--fix` makes.

There is one: `x[x < c] = v` with a small number v becomes `x.masked_fill_(x < c, v)`. The mask has the tensor's shape
because it compares the tensor itself, both write in place, both convert v to the tensor's dtype alike, and both have
the same gradient; tests hold all of it for every dtype.

All other advice is left to a person. Fused optimizers, norms and attention round in another order; matmul_transpose
sums no gradients over broadcast dimensions; NpuDropPath draws other random numbers; npu_one_hot gives another dtype.
"""

from __future__ import annotations

import ast

from gpu2npu.analysis.code import Code
from gpu2npu.analysis.done_calls import number
from gpu2npu.python.text.edits import Edited
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.records import Edit

# Numbers that every dtype but bool holds, or wraps alike.
_LARGEST = 127
_RULE = "masked-store"  # of operators.json


def fixed(code: Code) -> str | None:
    """The file's text with every fix made, None if there is none."""
    edits = [
        Edit(code.file.bounds(statement), new, _RULE, "An NPU fills by a mask in one operator.")
        for statement, scope in code.stores
        if (new := _filled(statement, scope, code)) is not None
    ]
    return Edited(code.text, edits).text if edits else None


def _filled(statement: ast.Assign, scope: Scope, code: Code) -> str | None:
    target = statement.targets[0]
    assert isinstance(target, ast.Subscript)
    tensor, mask = target.value, target.slice
    compared = isinstance(tensor, ast.Name) and isinstance(mask, ast.Compare) and len(mask.ops) == 1
    if not compared or not isinstance(mask, ast.Compare) or not isinstance(tensor, ast.Name):
        return None
    if not isinstance(mask.left, ast.Name) or mask.left.id != tensor.id:
        return None
    if not isinstance(mask.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)):
        return None
    if not _is_number(mask.comparators[0]) or not _is_number(statement.value):
        return None
    if not code.types.is_tensor(tensor, scope):
        return None
    return f"{tensor.id}.masked_fill_({code.file.code(mask)}, {code.file.code(statement.value)})"


def _is_number(node: ast.expr) -> bool:
    """Tell whether a value is a small number; no negative fraction, which masked_fill_ refuses for uint8."""
    if isinstance(node, ast.Constant) and type(node.value) is float:
        return node.value <= _LARGEST
    value = number(node)
    return value is not None and abs(value) <= _LARGEST
