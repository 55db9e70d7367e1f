"""Models whose forward leaves out a part in some steps: DistributedDataParallel waits for the part's gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.codemods.data_parallel.model_class import model_class
from gpu2npu.codemods.data_parallel.wrapping import Wrap
from gpu2npu.codemods.entry import calls_in
from gpu2npu.codemods.places import Step, reported
from gpu2npu.codemods.program import ParsedFile, TrainingProgram
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import FUNCTIONS, Function, is_self
from gpu2npu.records import FindingKind

_SOMETIMES = (
    "{place} calls self.{part} only under a condition, and DistributedDataParallel stops at a step after one that left "
    "parameters unused: write find_unused_parameters=True here if training may leave it out."
)


def parts_left_out(program: TrainingProgram, wrap: Wrap) -> Iterator[Step]:
    """A finding for each part of the wrapped model that its forward may leave out."""
    model = model_class(program, wrap.file, wrap.module)
    forward = model.method("forward") if model is not None else None
    if model is None or forward is None:
        return
    for part, call in _conditional(model.file, forward):
        message = _SOMETIMES.format(place=f"{model.file.path}:{model.file.span(call).start_line}", part=part)
        yield reported(wrap.file, wrap.call, "find_unused_parameters", message, FindingKind.REVIEW)


def _conditional(file: ParsedFile, forward: Function) -> Iterator[tuple[str, ast.Call]]:
    """The submodules that forward calls under a condition on what it is given, and nowhere else."""
    calls: dict[str, list[ast.Call]] = {}
    for call in calls_in(*forward.body):
        if isinstance(call.func, ast.Attribute) and is_self(call.func.value):
            calls.setdefault(call.func.attr, []).append(call)
    owner = file.scope_of(forward.body[0]).enclosing_class()
    for name, found in calls.items():
        assigned = owner.attributes.get(name, ()) if owner is not None else ()
        is_part = any(isinstance(one.whole, ast.Call) for one, _ in assigned)
        if is_part and all(_depends_on_input(file, call) for call in found):
            yield name, found[0]


def _depends_on_input(file: ParsedFile, call: ast.Call) -> bool:
    """Return whether a condition above the call is about more than the module itself, whose parts are there or not."""
    for node in file.above(call):
        if isinstance(node, FUNCTIONS):
            return False
        if isinstance(node, (ast.If, ast.IfExp)) and _names(node.test) - {"self", "torch", "len", "isinstance"}:
            return True
    return False


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in walk(node) if isinstance(part, ast.Name)}
