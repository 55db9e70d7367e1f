"""Wrapping under a condition: it is about the number of processes now, not of the cards that one process sees."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gpu2npu.codemods.imports import spelling
from gpu2npu.codemods.places import Step, above, replaced, reported
from gpu2npu.codemods.program import ParsedFile
from gpu2npu.codemods.syntax import walk
from gpu2npu.codemods.wrapping import Wrap, argument
from gpu2npu.engine.scopes import Assigned
from gpu2npu.records import FindingKind

_MESSAGE = "There is one process for each card: their number is the world size."
_COUNT = "torch.cuda.device_count"
# Conditions that ask whether there is a card at all, or whether the model is wrapped already.
_ALWAYS_SO = re.compile(
    r"is_available|\b(no_|use_|with_|has_|is_)?(cuda|npu|gpu)\b|isinstance|hasattr|> *0$|>= *1$", re.IGNORECASE
)
_ABOUT_CARDS = re.compile(r"gpu|npu|card|cuda|parallel|distributed|device|ids\b", re.IGNORECASE)
_SOME = re.compile(r"(>|!=)\s*0$|>=\s*1$")
_CHECK = (
    "With several processes the model must be wrapped here, or each trains a model of its own: "
    "write `if torch.distributed.get_world_size() > 1:`, or start the program so that the condition holds."
)
_LEFT_BEFORE = (
    "With several processes the model must be wrapped below, or each trains a model of its own: return here only if "
    "`torch.distributed.get_world_size() == 1`, or start the program so that the condition does not hold."
)


def by_world_size(wrap: Wrap) -> Iterator[Step]:
    """The condition that a wrap stands under, asked of the processes; a finding where it is about something else."""
    for condition in _conditions(wrap):
        found = list(_counts(wrap, condition))
        yield from found
        test = wrap.file.code(condition.test)
        always = all(_ALWAYS_SO.search(part) for part in re.split(r"\band\b", test))
        if not found and "get_world_size" not in test and not always:
            yield reported(wrap.file, condition.test, test, _CHECK, FindingKind.REVIEW)
    for condition in _left_before(wrap):
        test = wrap.file.code(condition.test)
        if _ABOUT_CARDS.search(test) and not re.search("is_available|device_count|isinstance|hasattr", test):
            yield reported(wrap.file, condition.test, test, _LEFT_BEFORE, FindingKind.REVIEW)


def _left_before(wrap: Wrap) -> Iterator[cst.If]:
    """`if not args.multi_gpu: return model` above the wrap in its function."""
    below: cst.CSTNode = wrap.call
    for node in above(wrap.file, wrap.call):
        if isinstance(node, cst.IndentedBlock):
            before = node.body[: next(i for i, part in enumerate(node.body) if part is below)]
            yield from (
                part
                for part in before
                if isinstance(part, cst.If)
                and any(isinstance(end, cst.Return) and end.value is not None for end in walk(part.body))
            )
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            return
        below = node


def _conditions(wrap: Wrap) -> Iterator[cst.If | cst.IfExp]:
    """The nearest condition above the wrap in its function."""
    for node in above(wrap.file, wrap.call):
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            return
        if isinstance(node, (cst.If, cst.IfExp)) and not _is_guard(wrap.file, node):
            yield node
            return


def _is_guard(file: ParsedFile, node: cst.If | cst.IfExp) -> bool:
    return "__name__" in file.code(node.test)


def _counts(wrap: Wrap, condition: cst.If | cst.IfExp) -> Iterator[Step]:
    """The counts of cards in a condition and under it, where the condition depends on one."""
    file = wrap.file
    dist = spelling(file, "torch.distributed")
    counts = [
        node
        for node in walk(condition.test)
        if (_is_count(file, node) or _counts_ids(wrap, node)) and _asks_for_several(file, node)
    ]
    named = [count for node in walk(condition.test) for count in _assigned_counts(file, node)]
    if not counts and not named:
        return
    yield from ((file, edit) for edit in dist.edits)
    for node in (*counts, *named):
        yield replaced(file, node, f"{dist.name}.get_world_size()", _MESSAGE)
    body = condition.body
    start, end = file.positions.of(wrap.whole)
    for node in walk(body):
        if _is_count(file, node) and not start <= file.positions.of(node)[0] < end:
            yield replaced(file, node, f"{dist.name}.get_world_size()", _MESSAGE)


def _is_count(file: ParsedFile, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and file.names.qualified(node.func, file.scope_of(node)) == _COUNT


def _asks_for_several(file: ParsedFile, count: cst.CSTNode) -> bool:
    """Whether a count is asked to be more than one, and not only more than none."""
    comparison = file.parents[id(count)]
    return not (isinstance(comparison, cst.Comparison) and _SOME.search(file.code(comparison)) is not None)


def _counts_ids(wrap: Wrap, node: cst.CSTNode) -> bool:
    """`len(gpus)` where the wrap has `device_ids=gpus`."""
    ids = argument(wrap.call, 1, "device_ids")
    return ids is not None and wrap.file.code(node) == f"len({wrap.file.code(ids)})"


def _assigned_counts(file: ParsedFile, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The counts that the only assignment to a name, or to an attribute of `self`, takes."""
    scope = file.scope_of(node)
    bindings: list[object] = []
    if isinstance(node, cst.Name):
        found = scope.lookup(node.value)
        bindings = list(found[1]) if found is not None else []
    elif isinstance(node, cst.Attribute) and file.code(node.value) == "self":
        owner = scope.enclosing_class()
        bindings = list(owner.attributes.get(node.attr.value, ())) if owner is not None else []
    if len(bindings) == 1 and isinstance(bindings[0], Assigned) and bindings[0].value is not None:
        yield from (part for part in walk(bindings[0].value) if _is_count(file, part))
