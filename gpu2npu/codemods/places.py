"""Edits and findings at nodes of a file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from gpu2npu.codemods.imports import RULE
from gpu2npu.codemods.program import ParsedFile, Program
from gpu2npu.engine.skips import EVERY_RULE, Skips, find_skips
from gpu2npu.python.text import splice
from gpu2npu.records import FileRewrite, Finding, FindingKind, StructuralEdit

# The rules whose findings are replaced, by the name they report, where that is not RULE.
_RULES = {
    "torch.nn.parallel.DataParallel": "parallel-data-parallel",
    "torch.nn.parallel.data_parallel": "parallel-data-parallel-function",
}
# What a codemod does to a file, one thing at a time.
Step = tuple[ParsedFile, StructuralEdit | Finding]


def replaced(file: ParsedFile, node: ast.AST, text: str, message: str) -> Step:
    """The node's code becomes `text`."""
    start, end = file.bounds(node)
    return file, StructuralEdit(start, end, text, RULE, message)


def span_replaced(file: ParsedFile, start: int, end: int, text: str, message: str) -> Step:
    return file, StructuralEdit(start, end, text, RULE, message)


def inserted(file: ParsedFile, offset: int, text: str, message: str) -> Step:
    return file, StructuralEdit(offset, offset, text, RULE, message)


def reported(file: ParsedFile, node: ast.AST, api: str, message: str, kind: FindingKind) -> Step:
    span = file.span(node)
    return file, Finding(span, _RULES.get(api, RULE), kind, api, message)


def is_skipped(file: ParsedFile, node: ast.AST) -> bool:
    """Whether a comment `# gpu2npu: skip` keeps the node as it is."""
    skips = _skips(file.text)
    span = file.span(node)
    return bool(skips.file & {RULE, EVERY_RULE}) or skips.covers(RULE, span.start_line, span.end_line)


@lru_cache(maxsize=64)
def _skips(text: str) -> Skips:
    return find_skips(text)


def by_file(steps: Iterable[Step]) -> dict[str, FileRewrite]:
    """The rewrites of a codemod."""
    edits: dict[str, list[StructuralEdit]] = {}
    findings: dict[str, list[Finding]] = {}
    for file, step in steps:
        if isinstance(step, Finding):
            findings.setdefault(file.path, []).append(step)
        else:
            edits.setdefault(file.path, []).append(step)
    return {
        path: FileRewrite(tuple(sorted(set(edits.get(path, ())))), tuple(dict.fromkeys(findings.get(path, ()))))
        for path in sorted({*edits, *findings})
    }


def of_rule(rule: str, rewrites: Mapping[str, FileRewrite]) -> dict[str, FileRewrite]:
    """The rewrites as those of another rule than `data-parallel`."""
    return {
        path: FileRewrite(
            tuple(replace(edit, rule=rule) for edit in rewrite.edits),
            tuple(replace(finding, rule=rule) for finding in rewrite.findings),
        )
        for path, rewrite in rewrites.items()
    }


def taken_over(program: Program, steps: Iterable[Step], rewrites: Mapping[str, FileRewrite]) -> Iterator[Step]:
    """The steps of another codemod, but for edits where there are other edits already."""
    done: dict[str, list[StructuralEdit]] = {}
    for file, step in steps:
        if isinstance(step, StructuralEdit):
            done.setdefault(file.path, []).append(step)
    for path, rewrite in rewrites.items():
        parsed = program.file(path)
        if parsed is not None:
            free = [edit for edit in rewrite.edits if not any(edit.overlaps(other) for other in done.get(path, ()))]
            yield from ((parsed, edit) for edit in free)
            yield from ((parsed, finding) for finding in rewrite.findings)


def joined(file: ParsedFile, node: ast.AST, edits: Iterable[StructuralEdit], message: str) -> Step:
    """Edits within a node as one edit of the whole node, which a report shows as before and after."""
    start, end = file.bounds(node)
    inside = [(edit.start - start, edit.end - start, edit.text) for edit in edits]
    return file, StructuralEdit(start, end, splice(file.text[start:end], inside), RULE, message)


def quoted(file: ParsedFile, text: str) -> str:
    """A string in the quotes that the file mostly uses."""
    quote = '"' if file.text.count('"') > file.text.count("'") else "'"
    return f"{quote}{text}{quote}"
