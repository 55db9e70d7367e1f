"""Places of strings at which the code itself writes what stands for them on an NPU."""

from __future__ import annotations

import ast

from gpu2npu.engine.strings.places import StringPlace, strings_of
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import last_name


def stands_beside_npu(place: StringPlace) -> bool:
    """Return whether a conditional expression around a string has the NPU's name in it: `x["GPU"] if "GPU" in x else
    x["NPU"]`."""
    above = place.parent(place.node)
    while isinstance(above, ast.expr):
        if isinstance(above, ast.IfExp) and place.replaced_by in strings_of(walk(above)):
            return True
        above = place.parent(above)
    return False


def assigned_in(function: ast.AST, name: str) -> frozenset[str]:
    """The strings that a function assigns to one of its names."""
    assignments = (node for node in walk(function) if isinstance(node, ast.Assign))
    return strings_of(node.value for node in assignments if any(last_name(each) == name for each in node.targets))
