"""Where a program names DataParallel without wrapping: `isinstance`, comparisons, annotations, subclasses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import libcst as cst

from gpu2npu.codemods.entry import nodes_of
from gpu2npu.codemods.places import Step, above, is_skipped, replaced, reported, span_replaced
from gpu2npu.codemods.program import ParsedFile, Program
from gpu2npu.codemods.spelling import WORD, api_of, is_data_parallel, spell_distributed
from gpu2npu.engine.tree import last_name
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


@dataclass(frozen=True, eq=False)
class Reference:
    """One expression that names DataParallel. `is_test` says that it is compared with a class, or an annotation."""

    file: ParsedFile
    node: cst.CSTNode
    is_test: bool


def find_references(program: Program) -> Iterator[Reference]:
    """The expressions that name DataParallel, outside of imports, but those that a comment keeps."""
    for file in program.with_word(WORD):
        for node in (*nodes_of(file, cst.Name), *nodes_of(file, cst.Attribute)):
            parent = file.parents[id(node)]
            is_part = isinstance(parent, (cst.Attribute, cst.ImportAlias, cst.AsName, cst.Arg)) and not (
                isinstance(parent, cst.Arg) and parent.value is node
            )
            if not is_part and is_data_parallel(file, node) and not is_skipped(file, node):
                yield Reference(file, node, _is_test(file, node))


def staying(references: Collection[Reference], rewritten: Collection[cst.CSTNode]) -> frozenset[str]:
    """The files in which DataParallel stays in use: not tested for, nor the function of a call that is rewritten."""
    done = {id(node) for node in rewritten}
    return frozenset(
        reference.file.path
        for reference in references
        if not reference.is_test and id(reference.file.parents[id(reference.node)]) not in done
    )


def follow(reference: Reference, stays: bool) -> Iterator[Step]:
    """A test for DataParallel asks for DistributedDataParallel."""
    file, node = reference.file, reference.node
    spelled = spell_distributed(file, node, stays)
    yield from ((file, edit) for edit in spelled.edits)
    classes = file.parents[id(file.parents[id(node)])]
    if isinstance(classes, cst.Tuple) and len(classes.elements) > 1 and _lists(file, classes):
        yield _taken_out(file, classes, node)
    else:
        yield replaced(file, node, spelled.name, _MESSAGE)


def report_subclass(reference: Reference) -> Iterator[Step]:
    """A class built on DataParallel."""
    if any(isinstance(node, cst.ClassDef) for node in list(above(reference.file, reference.node))[:2]):
        api = api_of(reference.file, reference.node)
        yield reported(reference.file, reference.node, api, _SUBCLASS, FindingKind.UNSUPPORTED)


def report_functions(program: Program) -> Iterator[Step]:
    """Calls of `torch.nn.parallel.data_parallel`."""
    for file in program.with_word(rb"\bdata_parallel\s*\("):
        for call in nodes_of(file, cst.Call):
            assert isinstance(call, cst.Call)
            if last_name(call.func) != "data_parallel" or is_skipped(file, call):
                continue
            name = file.names.qualified(call.func, file.scope_of(call))
            if name in {"torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel"}:
                yield reported(file, call.func, "torch.nn.parallel.data_parallel", _FUNCTION, FindingKind.UNSUPPORTED)


def _is_test(file: ParsedFile, node: cst.CSTNode) -> bool:
    for part in above(file, node):
        if isinstance(part, (cst.Annotation, cst.Comparison)):
            return True
        if isinstance(part, cst.Call):
            return last_name(part.func) in {"isinstance", "issubclass"} and not _is_first(file, part, node)
        if isinstance(part, (cst.BaseStatement, cst.BaseSmallStatement)):
            return False
    return False


def _is_first(file: ParsedFile, call: cst.Call, node: cst.CSTNode) -> bool:
    return any(part is call.args[0] for part in above(file, node))


def _lists(file: ParsedFile, classes: cst.Tuple) -> bool:
    """Whether a tuple of classes has DistributedDataParallel already."""
    return any(last_name(element.value) in {"DistributedDataParallel", "DDP"} for element in classes.elements)


def _taken_out(file: ParsedFile, classes: cst.Tuple, node: cst.CSTNode) -> Step:
    values = [element.value for element in classes.elements]
    if len(values) == 2:
        other = next(value for value in values if value is not node)
        return replaced(file, classes, file.code(other), _MESSAGE)
    index = values.index(node)  # type: ignore[arg-type]
    start, end = file.positions.of(node)
    if index + 1 < len(values):
        end = file.positions.of(values[index + 1])[0]
    else:
        start = file.positions.of(values[index - 1])[1]
    return span_replaced(file, start, end, "", _MESSAGE)
