"""`--affinity`: applies the kinds that were asked for, and adds the module that the new code calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpu2npu.codemods.affinity.catalogue import KINDS, available
from gpu2npu.codemods.affinity.edit import Planned, planned
from gpu2npu.codemods.affinity.kind import Kind, Match
from gpu2npu.codemods.affinity.reading import Reading
from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.codemods.generated import outermost_package
from gpu2npu.codemods.imports import Spelling, spelling
from gpu2npu.codemods.places import Step, by_file, is_skipped
from gpu2npu.codemods.program import ParsedFile, Program
from gpu2npu.python.text.concrete import has_comment
from gpu2npu.records import Code, Edit, FileRewrite, Operation
from gpu2npu.support.tables import table_for

MODULE = "ascend_affinity"
# Expressions that take a method behind them without parentheses.
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


def affinity(program: Program, choice: CodemodChoice) -> dict[str, FileRewrite]:
    """The rewrites of the kinds that were asked for, where the release has their operators."""
    if not choice.affinity:
        return {}
    table = table_for(program.version)
    kinds = [KINDS[name] for name in choice.affinity if available(KINDS[name], table)]
    words = b"|".join(re.escape(word) for kind in kinds for word in kind.words)
    steps: list[Step] = []
    for file in program.with_word(words) if kinds else ():
        steps += _rewritten(program, file, kinds)
    return by_file(steps)


def _rewritten(program: Program, file: ParsedFile, kinds: Sequence[Kind]) -> Iterator[Step]:
    reading = Reading(program, file)
    done: set[ast.AST] = set()
    for node in ast.walk(file.tree):  # outer expressions first
        if node in done or not isinstance(node, ast.expr):
            continue
        for kind in kinds:
            if not isinstance(node, kind.nodes) or is_skipped(file, node, kind.id):
                continue
            found = kind.find(reading, node)
            plan = planned(reading, node, found) if found is not None and not has_comment(file, node) else None
            if found is not None and plan is not None and done.isdisjoint(plan.deleted):
                done.update(part for each in (node, *plan.deleted) for part in ast.walk(each))
                yield from _steps(program, file, node, kind, found, plan)
                break


def _steps(
    program: Program, file: ParsedFile, node: ast.expr, kind: Kind, found: Match, plan: Planned
) -> Iterator[Step]:
    module = _module(program, file)
    text: list[Code] = [f"{module.name}.{found.function}("]
    for position, argument in enumerate(plan.arguments):
        text += [", "] if position else []
        suffix = found.suffixes.get(position, "")
        if isinstance(argument, str):
            text.append(argument)
        elif suffix and not isinstance(argument, _ATOMS):
            text += ["(", file.bounds(argument), f"){suffix}"]
        else:
            text += [file.bounds(argument), suffix]
    for edit in module.edits:
        yield file, replace(edit, rule=kind.id)
    yield file, Edit(file.bounds(node), (*text, ")"), kind.id, kind.message)
    for line, statement in zip(plan.lines, plan.deleted, strict=True):
        message = f"Part of what {found.function} computes."
        yield file, Edit(file.bounds(statement), "", kind.id, message, replaced=line, operation=Operation.DELETE)


def _module(program: Program, file: ParsedFile) -> Spelling:
    """The name of the module of fused operators in a file, and its import: in a package, relative to it."""
    package = outermost_package(program, file.path)
    depth = file.path.count("/") - package.count("/") if package is not None else 0
    return spelling(file, MODULE, f"from {'.' * depth} import {MODULE}" if depth else "")
