"""Programs that differentiate gradients, or transform code over a batch, for which npu operators have no rules."""

from __future__ import annotations

import ast

from gpu2npu.codemods.affinity.exclusions.switches import gives
from gpu2npu.codemods.program import ParsedFile, TrainingProgram

# Files that may differentiate a gradient, the functions that do so, or that transform code over a batch, for which npu
# operators have no rules, and those beside them that only call a module.
_DERIVATIVES = rb"create_graph|gradgradcheck|functorch|autograd|torch\.func\b|from torch import .*\bfunc\b|\bvmap\b"
_TRANSFORMS = (
    "torch.vmap",
    "torch.func.",
    "functorch.",
    "torch._functorch.",
    "torch.autograd.functional.",
    "torch.autograd.gradgrad",
)
_CALLS = frozenset({"torch.func.functional_call", "torch.func.stack_module_state"})


def differentiates_twice(program: TrainingProgram) -> bool:
    """Return whether some file of the program makes graphs of gradients, or transforms functions into derivatives."""
    found = program.with_word(_DERIVATIVES)
    return any(_makes_graph_of_gradient(file, node) for file in found for node in ast.walk(file.tree))


def _makes_graph_of_gradient(file: ParsedFile, node: ast.AST) -> bool:
    if isinstance(node, ast.keyword):
        return gives(file, node, "create_graph")
    if isinstance(node, ast.Constant):
        return node.value == "create_graph"
    if isinstance(node, ast.Call) and len(node.args) > 4 and file.qualified(node.func) == "torch.autograd.grad":
        return True
    name = file.qualified(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
    return name is not None and name.startswith(_TRANSFORMS) and name not in _CALLS
