"""Parameters that are False unless a caller gives them another value."""

from __future__ import annotations

import ast

from gpu2npu.codemods.program import ParsedFile, TrainingProgram
from gpu2npu.python.tree.scopes import Parameter
from gpu2npu.python.tree.syntax import FUNCTIONS, defaults


def is_switch(file: ParsedFile, node: ast.expr) -> bool:
    """Return whether a value is a parameter of the function around that is False by default, and nothing else."""
    scope = file.scope_of(node)
    bound = scope.bound(node) if isinstance(node, ast.Name) else ()
    if len(bound) != 1 or not isinstance(bound[0], Parameter) or not isinstance(scope.node, FUNCTIONS):
        return False
    return any(each is bound[0].node and is_false(value) for each, value in defaults(scope.node))


def is_false(node: ast.expr) -> bool:
    """Return whether an expression is the constant False."""
    return isinstance(node, ast.Constant) and node.value is False


def gives(file: ParsedFile, node: ast.AST, name: str) -> bool:
    """Return whether a keyword of a name gives another value than False, or than a switch of that name has."""
    if not isinstance(node, ast.keyword) or node.arg != name:
        return False
    handed_on = isinstance(node.value, ast.Name) and node.value.id == name and is_switch(file, node.value)
    return not is_false(node.value) and not handed_on


def is_switched_off(program: TrainingProgram, file: ParsedFile, node: ast.AST) -> bool:
    """Return whether a node runs only where a switch is on that no keyword in the program turns on."""
    for above in file.above(node):
        if isinstance(above, ast.If) and isinstance(above.test, ast.Name) and is_switch(file, above.test):
            name = above.test.id
            named = program.with_word(rb"\b" + name.encode() + rb"\s*=", name.encode())
            if not any(gives(other, each, name) for other in named for each in other.nodes(ast.keyword)):
                return True
    return False
