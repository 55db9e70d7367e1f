"""Models whose forward leaves out a part in some steps: DistributedDataParallel waits for the part's gradients."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gpu2npu.codemods.entry import calls_in
from gpu2npu.codemods.places import Step, above, reported
from gpu2npu.codemods.program import ParsedFile, Program
from gpu2npu.codemods.wrapping import Wrap
from gpu2npu.engine.scopes import Assigned, Scope
from gpu2npu.engine.tree import children
from gpu2npu.records import FindingKind

_SOMETIMES = (
    "{place} calls self.{part} only under a condition, and DistributedDataParallel stops at a step after one that left "
    "parameters unused: write find_unused_parameters=True here if training may leave it out."
)


def parts_left_out(program: Program, wrap: Wrap) -> Iterator[Step]:
    """A finding for each part of the wrapped model that its forward may leave out."""
    found = _model_class(wrap.file, wrap.module.value)
    file = program.file(found[0]) if found is not None else None
    if found is None or file is None:
        return
    for method in found[1].body.body:
        if isinstance(method, cst.FunctionDef) and method.name.value == "forward":
            for part, call in _conditional(file, method):
                line = file.positions.span(*file.positions.of(call)).start_line
                message = _SOMETIMES.format(place=f"{file.path}:{line}", part=part)
                yield reported(wrap.file, wrap.call, "find_unused_parameters", message, FindingKind.REVIEW)


def _model_class(file: ParsedFile, node: cst.CSTNode) -> tuple[str, cst.ClassDef] | None:
    """The project's class that an expression makes an object of: `Net(3).cuda()`, or a name that is assigned that."""
    scope: Scope = file.scope_of(node)
    for _ in range(5):
        if isinstance(node, cst.Name):
            bound = scope.lookup(node.value)
            values = [one.value for one in bound[1] if isinstance(one, Assigned)] if bound is not None else []
            made = [value for value in values if isinstance(value, cst.Call)]
            if not made:
                return None
            node = made[0]
        elif isinstance(node, cst.Call):
            found = file.names.definition(node.func, scope)
            if found is not None and isinstance(found[1].node, cst.ClassDef):
                return found[0].path, found[1].node
            if not isinstance(node.func, cst.Attribute):
                return None
            node = node.func.value
    return None


def _conditional(file: ParsedFile, forward: cst.FunctionDef) -> Iterator[tuple[str, cst.Call]]:
    """The submodules that forward calls under a condition on what it is given, and nowhere else."""
    calls: dict[str, list[cst.Call]] = {}
    for call in calls_in(forward.body):
        if isinstance(call.func, cst.Attribute) and file.code(call.func.value) == "self":
            calls.setdefault(call.func.attr.value, []).append(call)
    parts = file.scope_of(forward.body).enclosing_class()
    for name, found in calls.items():
        is_part = parts is not None and any(isinstance(one.value, cst.Call) for one in parts.attributes.get(name, ()))
        if is_part and all(_depends_on_input(file, call) for call in found):
            yield name, found[0]


def _depends_on_input(file: ParsedFile, call: cst.Call) -> bool:
    """Whether a condition above the call is about more than the module itself, whose parts are there or not."""
    for node in above(file, call):
        if isinstance(node, cst.FunctionDef):
            return False
        if isinstance(node, (cst.If, cst.IfExp)) and _names(node.test) - {"self", "torch", "len", "isinstance"}:
            return True
    return False


def _names(node: cst.CSTNode) -> set[str]:
    if isinstance(node, cst.Name):
        return {node.value}
    inner = [node.value] if isinstance(node, cst.Attribute) else children(node)
    return set().union(*map(_names, inner)) if inner else set()
