"""Programs that notice a rewrite: that differentiate gradients, for which the gradients of npu operators have no rules,
or compare the exact class of an object, which the subclass that an affinity kind makes does not match."""

from __future__ import annotations

import ast

from gpu2npu.codemods.affinity.exclusions.switches import gives, may_be_on, may_place
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.python.tree.syntax import is_annotation, last_name

# Files that may differentiate a gradient, and the functions that do so.
_DERIVATIVES = rb"create_graph|gradgradcheck|autograd|\bbackward\s*\(\s*[^\s)]"
_FUNCTIONS = ("torch.autograd.functional.", "torch.autograd.gradgrad")
# Where `create_graph` is in a call by position.
_PLACES = {"torch.autograd.grad": 4, "torch.autograd.backward": 3}
_PLACE_IN_METHOD = 2
_NODES = (ast.keyword, ast.Constant, ast.Call, ast.Name, ast.Attribute)


def differentiates_twice(program: TrainingProgram) -> bool:
    """Return whether some file of the program makes graphs of gradients."""
    found = program.with_word(_DERIVATIVES)
    makes = any(_makes_graph_of_gradient(file, node) for file in found for kind in _NODES for node in file.nodes(kind))
    return makes or may_be_on(program, "create_graph")


def _makes_graph_of_gradient(file: ParsedFile, node: ast.AST) -> bool:
    if isinstance(node, ast.keyword):
        return gives(file, node, "create_graph")
    if isinstance(node, ast.Constant):
        return node.value == "create_graph"
    if isinstance(node, ast.Call):
        return _is_given_place(file, node)
    return isinstance(node, (ast.Name, ast.Attribute)) and (file.qualified(node) or "").startswith(_FUNCTIONS)


def _is_given_place(file: ParsedFile, call: ast.Call) -> bool:
    """Return whether a call that computes gradients may give `create_graph` by position."""
    place = _PLACES.get(file.qualified(call.func) or "")
    if place is None and isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
        place = _PLACE_IN_METHOD
    # `backward` of an autograd function is called with its context.
    if place is None or (call.args and last_name(call.args[0]) == "ctx"):
        return False
    return may_place(file, call, place, "create_graph")


# What asks for a class and its subclasses.
_INSTANCES = frozenset({"isinstance", "issubclass"})


def compares_class(program: TrainingProgram, qualified: str) -> bool:
    """Return whether some file uses a class other than to make an object, to derive a class, to annotate, or to ask
    whether something is an instance: `type(m) is nn.RMSNorm`, `{nn.RMSNorm: 1}`."""

    def search() -> bool:
        found = program.with_word(qualified.rpartition(".")[2].encode())
        return any(_is_compared(file, node, qualified) for file in found for node in ast.walk(file.tree))

    return program.once((compares_class, qualified), search)


def _is_compared(file: ParsedFile, node: ast.AST, qualified: str) -> bool:
    if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
        return False
    if file.qualified(node) != qualified:
        return False
    steps = file.steps(node)  # isinstance(m, (nn.LayerNorm, nn.RMSNorm))
    owner, part = next(step for step in steps if not isinstance(step[0], (ast.Tuple, ast.BinOp)))
    if isinstance(owner, ast.Call):
        is_instance = isinstance(owner.func, ast.Name) and owner.func.id in _INSTANCES
        return owner.func is not part and not (is_instance and part in owner.args[1:])
    return not (is_annotation(owner, part) or (isinstance(owner, ast.ClassDef) and part in owner.bases))
