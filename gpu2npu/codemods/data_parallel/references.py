"""Finds and rewrites what names DataParallel without wrapping: `isinstance`, comparisons, annotations, subclasses."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from msgspec import Struct

from gpu2npu.codemods.data_parallel.spelling import (
    DATA_PARALLEL,
    DATA_PARALLEL_FUNCTION,
    api_of,
    is_data_parallel,
    other_values,
    spell_distributed,
)
from gpu2npu.codemods.places import Step, is_skipped, replaced, reported, span_removed
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.python.project.imports import files_naming
from gpu2npu.python.text.templates import code, plain
from gpu2npu.python.tree.place import function_above
from gpu2npu.python.tree.syntax import FUNCTIONS, Definition, is_annotation, last_name, shallow_nodes
from gpu2npu.records import FindingKind

_MESSAGE = "Models are wrapped in DistributedDataParallel."
_SUBCLASS = (
    "An NPU has no DataParallel to build on: derive from torch.nn.parallel.DistributedDataParallel, whose forward gets "
    "the batch of one process, so that there is nothing to scatter, replicate or gather."
)
_FUNCTION = (
    "An NPU has no data_parallel: wrap the module once, where it is made, as "
    "torch.nn.parallel.DistributedDataParallel(net.npu(), device_ids=[torch.npu.current_device()]), "
    "start one process for each NPU, and call the wrapped module here."
)
_REQUIRED = (
    "This code is for DataParallel, which an NPU does not have{use}: it has no replicas in one process to work on. For "
    "a BatchNorm that is synchronized over all cards write torch.nn.SyncBatchNorm.convert_sync_batchnorm(model) before "
    "the model is wrapped in DistributedDataParallel, and take this out."
)
# What DataParallel has and DistributedDataParallel has not.
_OWN_MEMBERS = frozenset({"gather", "output_device", "parallel_apply", "replicate", "scatter", "src_device_obj"})
_REBOUND = (
    "`{name}` is DataParallel here, or something else ({places}), so it is left as it is: an NPU has no DataParallel. "
    "Give it torch.nn.parallel.DistributedDataParallel in its place, which is called with "
    "(net.npu(), device_ids=[torch.npu.current_device()]), and start one process for each NPU."
)


class DataParallelReference(Struct, frozen=True, eq=False):
    """One expression that names DataParallel. `is_test` means that it is compared with a class, or an annotation."""

    file: ParsedFile
    node: ast.expr
    is_test: bool


def find_references(program: TrainingProgram) -> Iterator[DataParallelReference]:
    """The expressions that name DataParallel, outside of imports, but those that a comment keeps."""
    for file in program.parsed(files_naming(program, DATA_PARALLEL)):
        for node in (*file.nodes(ast.Name), *file.nodes(ast.Attribute)):
            is_part = isinstance(file.parents[node], ast.Attribute)
            if not is_part and is_data_parallel(file, node) and not is_skipped(file, node):
                yield DataParallelReference(file, node, _is_test(file, node))


def staying(references: Collection[DataParallelReference], rewritten: Collection[ast.Call]) -> frozenset[str]:
    """The files in which DataParallel stays in use: not tested for, nor the function of a call that is rewritten."""
    done = {call.func for call in rewritten}
    return frozenset(
        reference.file.path for reference in references if not reference.is_test and reference.node not in done
    )


def follow(reference: DataParallelReference, stays: bool) -> Iterator[Step]:
    """A test for DataParallel asks for DistributedDataParallel."""
    file, node = reference.file, reference.node
    spelled = spell_distributed(file, node, stays)
    yield from ((file, edit) for edit in spelled.edits)
    classes = file.parents[node]
    if isinstance(classes, ast.Tuple) and len(classes.elts) > 1 and _lists_distributed(classes):
        yield _taken_out(file, classes, node)
    else:
        yield replaced(file, node, plain(spelled.name), _MESSAGE)


def report_subclass(program: TrainingProgram, reference: DataParallelReference) -> Iterator[Step]:
    """A class built on DataParallel; with the calls that make it, where it makes replicas of its own."""
    file, owner = reference.file, reference.file.parents[reference.node]
    if not isinstance(owner, ast.ClassDef):
        return
    api = api_of(file, reference.node)
    members = {each.name for each in owner.body if isinstance(each, FUNCTIONS)}
    if "replicate" not in members:
        yield reported(file, reference.node, api, _SUBCLASS, FindingKind.UNSUPPORTED)
        return
    yield reported(file, reference.node, api, _REQUIRED.format(use=""), FindingKind.UNSUPPORTED)
    yield from _calls_of(program, reference, owner, owner)


def report_functions(program: TrainingProgram) -> Iterator[Step]:
    """Calls of `torch.nn.parallel.data_parallel`."""
    for file in program.parsed(files_naming(program, DATA_PARALLEL_FUNCTION)):
        for call in file.nodes(ast.Call):
            if file.qualified(call.func) in DATA_PARALLEL_FUNCTION and not is_skipped(file, call):
                yield reported(file, call.func, "torch.nn.parallel.data_parallel", _FUNCTION, FindingKind.UNSUPPORTED)


def report_rebound(program: TrainingProgram) -> Iterator[Step]:
    """Calls of a name that is DataParallel on some ways to it only."""
    for file in program.parsed(files_naming(program, DATA_PARALLEL)):
        for call in file.nodes(ast.Call):
            others = other_values(file, call.func)
            if others and not is_skipped(file, call):
                places = ", ".join(dict.fromkeys(f"{each.path}:{each.line}" for each in others))
                message = _REBOUND.format(name=file.code(call.func), places=places)
                yield reported(file, call, api_of(file, call.func), message, FindingKind.UNSUPPORTED)


def requires(reference: DataParallelReference) -> bool:
    """Return whether a test for DataParallel is a condition of all that follows: an assertion, or one that raises."""
    statement = reference.file.statement(reference.node)
    tests = [statement.test] if isinstance(statement, ast.If) else reference.file.above(reference.node)
    is_negated = any(isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not) for each in tests)
    if isinstance(statement, ast.If):
        return reference.is_test and is_negated and isinstance(statement.body[0], ast.Raise)
    return reference.is_test and isinstance(statement, ast.Assert) and not is_negated


def uses_replicas(reference: DataParallelReference) -> bool:
    """Return whether the function that a test is in uses what DistributedDataParallel does not have."""
    file = reference.file
    function = function_above(file, reference.node)
    return function is not None and any(
        isinstance(node, ast.Attribute) and node.attr in _OWN_MEMBERS for node in shallow_nodes(function.body)
    )


def report_required(program: TrainingProgram, reference: DataParallelReference) -> Iterator[Step]:
    """The test, and the calls of the function that always makes it."""
    file = reference.file
    api = api_of(file, reference.node)
    function = function_above(file, reference.node)
    statement = file.statement(reference.node)
    place = statement.test if isinstance(statement, (ast.Assert, ast.If)) else reference.node
    yield reported(file, place, api, _REQUIRED.format(use=""), FindingKind.UNSUPPORTED)
    if function is not None and statement in function.body:
        yield from _calls_of(program, reference, function, statement)


def _calls_of(
    program: TrainingProgram, reference: DataParallelReference, made: Definition, why: ast.stmt
) -> Iterator[Step]:
    """The calls of a function or class of the project that needs DataParallel; `why` is where it says so."""
    file, api = reference.file, api_of(reference.file, reference.node)
    use = f" ({file.path}:{file.span(why).start_line})"
    for other in program.with_word(re.escape(made.name.encode()), made.name.encode()):
        for call in other.nodes(ast.Call):
            if last_name(call.func) != made.name:
                continue
            found = other.names.definition(call.func, other.scope_of(call))
            if found is not None and found.bound.node is made:
                yield reported(other, call, api, _REQUIRED.format(use=use), FindingKind.UNSUPPORTED)


def _is_test(file: ParsedFile, node: ast.expr) -> bool:
    for part, below in file.steps(node):
        if isinstance(part, ast.Compare) or is_annotation(part, below):
            return True
        if isinstance(part, ast.Call):
            is_first = bool(part.args) and part.args[0] is below
            return last_name(part.func) in {"isinstance", "issubclass"} and not is_first
        if isinstance(part, ast.stmt):
            return False
    return False


def _lists_distributed(classes: ast.Tuple) -> bool:
    """Return whether a tuple of classes has DistributedDataParallel already."""
    return any(last_name(element) in {"DistributedDataParallel", "DDP"} for element in classes.elts)


def _taken_out(file: ParsedFile, classes: ast.Tuple, node: ast.expr) -> Step:
    if len(classes.elts) == 2:
        other = next(element for element in classes.elts if element is not node)
        template = "({other},)" if isinstance(file.parents[classes], ast.Compare) else "{other}"  # for `in`
        return replaced(file, classes, code(template, other=file.bounds(other)), _MESSAGE)
    return span_removed(file, *file.bounds(node), _MESSAGE)
