"""Wrapping under a condition: it is about the number of processes now, not of the cards that one process sees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from gpu2npu.codemods.data_parallel.wrapping import Wrap
from gpu2npu.codemods.places import GroupEdit, Step, reported
from gpu2npu.codemods.program.entries import Entries
from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.codemods.program.group_condition import world_size
from gpu2npu.codemods.spellings import RULE, spelling
from gpu2npu.python.text.templates import code
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import DEFINITIONS, argument_of
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
    """The condition of a wrap, rewritten for the number of processes; a finding where it tests something else."""
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


def readers_by_world_size(wraps: Sequence[Wrap], started: Entries) -> Iterator[Step]:
    """The conditions elsewhere in a program that ask for the number of cards before they read `.module`, which a model
    has where a wrap under such a condition was made."""
    conditional = [wrap for wrap in wraps if tests_for_processes(wrap)]
    of_wraps = {condition for wrap in conditional for condition in _conditions(wrap)}
    programs = Entries({entry for wrap in conditional for entry in started.that_run(wrap.file, wrap.call)})
    for file, condition in programs.running(_reads_module):
        counts = [node for node in walk(condition.test) if _is_count(file, node) and _tests_for_several(file, node)]
        if not counts or condition in of_wraps:
            continue
        dist = spelling(file, "torch.distributed")
        yield from ((file, edit) for edit in dist.edits)
        yield from ((file, _world_size(file, count, dist.name)) for count in counts)


def _reads_module(file: ParsedFile) -> list[ast.If | ast.IfExp]:
    """The conditions that decide whether `.module` is read."""
    reads = [node for node in file.nodes(ast.Attribute) if node.attr == "module" and isinstance(node.ctx, ast.Load)]
    above = (part for node in reads for part in file.above(node) if isinstance(part, (ast.If, ast.IfExp)))
    return list(dict.fromkeys(above))


def tests_for_processes(wrap: Wrap) -> bool:
    """Return whether the wrap is under a condition that is rewritten for the number of processes."""
    return any(True for condition in _conditions(wrap) for _ in _counts(wrap, condition))


def _left_before(wrap: Wrap) -> Iterator[ast.If]:
    """`if not args.multi_gpu: return model` above the wrap in its function."""
    file = wrap.file
    for node in file.above(wrap.call):
        if isinstance(node, DEFINITIONS):
            return
        if isinstance(node, ast.stmt) and not isinstance(file.parents[node], ast.Module):
            yield from (part for part in file.before(node) if isinstance(part, ast.If) and _returns_value(part))


def _returns_value(condition: ast.If) -> bool:
    return any(isinstance(end, ast.Return) and end.value is not None for end in walk(*condition.body))


def _conditions(wrap: Wrap) -> Iterator[ast.If | ast.IfExp]:
    """The nearest condition above the wrap in its function."""
    for node in wrap.file.above(wrap.call):
        if isinstance(node, DEFINITIONS):
            return
        if isinstance(node, (ast.If, ast.IfExp)) and "__name__" not in wrap.file.code(node.test):
            yield node
            return


def _counts(wrap: Wrap, condition: ast.If | ast.IfExp) -> Iterator[Step]:
    """The counts of cards in a condition and under it, where the condition depends on one."""
    file = wrap.file
    dist = spelling(file, "torch.distributed")
    counts = [
        node
        for node in walk(condition.test)
        if (_is_count(file, node) or _counts_ids(wrap, node)) and _tests_for_several(file, node)
    ]
    named = [count for node in walk(condition.test) for count in _assigned_counts(file, node)]
    if not counts and not named:
        return
    yield from ((file, edit) for edit in dist.edits)
    for node in (*counts, *named):
        yield file, _world_size(file, node, dist.name)
    body = [condition.body] if isinstance(condition, ast.IfExp) else condition.body
    start, end = file.bounds(wrap.whole)
    for node in walk(*body):
        if _is_count(file, node) and not start <= file.bounds(node)[0] < end:
            yield file, _world_size(file, node, dist.name)


def _world_size(file: ParsedFile, count: ast.AST, dist: str) -> GroupEdit:
    return GroupEdit(
        file.bounds(count), code("{dist}.get_world_size()", dist=dist), RULE, _MESSAGE, single_process=world_size(dist)
    )


def _is_count(file: ParsedFile, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and file.qualified(node.func) == _COUNT


def _tests_for_several(file: ParsedFile, count: ast.AST) -> bool:
    """Return whether a count is used otherwise than in a comparison that only asks for a first card, as `count > 0`."""
    comparison = file.parents[count]
    return not (isinstance(comparison, ast.Compare) and _SOME.search(file.code(comparison)) is not None)


def _counts_ids(wrap: Wrap, node: ast.AST) -> bool:
    """`len(gpus)` where the wrap has `device_ids=gpus`."""
    ids = argument_of(wrap.call, "device_ids", 1)
    return isinstance(node, ast.Call) and ids is not None and wrap.file.code(node) == f"len({wrap.file.code(ids)})"


def _assigned_counts(file: ParsedFile, node: ast.AST) -> Iterator[ast.AST]:
    """The counts that the only assignment to a name, or to an attribute of `self`, takes."""
    values = file.scope_of(node).values(node)
    if len(values) == 1 and values[0] is not None:
        yield from (part for part in walk(values[0]) if _is_count(file, part))
