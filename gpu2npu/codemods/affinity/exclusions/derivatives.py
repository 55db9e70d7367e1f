"""Programs that differentiate gradients, for which the gradients of npu operators have no rules."""

from __future__ import annotations

import ast

from gpu2npu.codemods.affinity.exclusions.switches import gives
from gpu2npu.codemods.program import ParsedFile, TrainingProgram

# Files that may differentiate a gradient, and the functions that do so.
_DERIVATIVES = rb"create_graph|gradgradcheck|autograd"
_FUNCTIONS = ("torch.autograd.functional.", "torch.autograd.gradgrad")


def differentiates_twice(program: TrainingProgram) -> bool:
    """Return whether some file of the program makes graphs of gradients."""
    found = program.with_word(_DERIVATIVES)
    return any(_makes_graph_of_gradient(file, node) for file in found for node in ast.walk(file.tree))


def _makes_graph_of_gradient(file: ParsedFile, node: ast.AST) -> bool:
    if isinstance(node, ast.keyword):
        return gives(file, node, "create_graph")
    if isinstance(node, ast.Constant):
        return node.value == "create_graph"
    if isinstance(node, ast.Call) and len(node.args) > 4 and file.qualified(node.func) == "torch.autograd.grad":
        return True
    return isinstance(node, (ast.Name, ast.Attribute)) and (file.qualified(node) or "").startswith(_FUNCTIONS)
