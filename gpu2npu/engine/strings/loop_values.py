"""Names that take the elements of a list one after the other: by a loop, or by pytest's `parametrize`."""

from __future__ import annotations

import ast

from gpu2npu.engine.strings.places import StringPlace
from gpu2npu.python.tree.scopes import Assigned, Parameter
from gpu2npu.python.tree.syntax import FUNCTIONS, last_name, string_value


def loop_values(node: ast.AST, place: StringPlace) -> frozenset[str]:
    """The strings that a name takes in `for kind in ("cpu", "cuda")` or `@parametrize("kind", ["cpu", "cuda"])`, also
    where the list is assigned to a name first."""
    found = place.scope.lookup(node.id) if isinstance(node, ast.Name) else None
    if found is None or not isinstance(node, ast.Name) or len(found[1]) != 1:
        return frozenset()
    (binding,), values = found[1], None
    if isinstance(binding, Assigned) and binding.is_part:
        values = binding.value if isinstance(getattr(binding.statement, "target", None), ast.Name) else None
    elif isinstance(binding, Parameter):
        values = _parametrized(found[0].node, node.id)
    return frozenset() if values is None else place.siblings.inside(_assigned(values, place))


def _parametrized(function: ast.AST, parameter: str) -> ast.expr | None:
    """The list that pytest gives the elements of to a parameter of a test."""
    for call in function.decorator_list if isinstance(function, FUNCTIONS) else ():
        arguments = call.args if isinstance(call, ast.Call) and last_name(call.func) == "parametrize" else []
        if len(arguments) > 1 and string_value(arguments[0]) == parameter:
            return arguments[1]
    return None


def _assigned(values: ast.expr, place: StringPlace) -> ast.expr:
    """The list that is assigned to a name, if that happens once."""
    found = place.scope.lookup(values.id) if isinstance(values, ast.Name) else None
    binding = found[1][0] if found is not None and len(found[1]) == 1 else None
    return (binding.whole if isinstance(binding, Assigned) else None) or values
