"""The text that is shown at a place of a file: what a migration does there, and the verdict on the API."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.language import sentence, shown
from gpu2npu.python.meaning.names import Names
from gpu2npu.records import MigratedFile, Span
from gpu2npu.support.verdicts import is_torch_api, verdict

# The line and the column of a character, both counted from 0.
Position = tuple[int, int]


def hover_text(migrated: MigratedFile, names: Names | None, release: str, at: Position) -> str:
    """Markdown about a place; "" where nothing is to be said."""
    return "\n\n".join([*_migration(migrated, at), *_verdict(names, release, at)])


def _migration(migrated: MigratedFile, at: Position) -> Iterator[str]:
    for change in migrated.changes:
        if change.before and _covers(change.span, at):
            becomes = sentence("{} becomes {}", f"`{change.before}`", f"`{change.after}`")
            yield f"{becomes} ({change.rule})\n\n{shown(change.message)}"
    for finding in migrated.findings:
        if _covers(finding.span, at):
            yield f"**{shown(finding.severity.value)}**: {shown(finding.message)} ({finding.rule})"


def _verdict(names: Names | None, release: str, at: Position) -> Iterator[str]:
    api = _api(names, at) if names is not None else None
    if api is None or not is_torch_api(api):
        return
    judged = verdict(api, release)
    words = sentence("{} with torch_npu {}", judged.kind.value, release)
    yield f"`{judged.api}`: {words}. {shown(f'{judged.evidence}.')}"
    if judged.advice:
        yield shown(judged.advice)


def _api(names: Names, at: Position) -> str | None:
    """The qualified name of the shortest dotted name, or the name, that ends in the word at a place."""
    file = names.file
    words = [node for node in file.parents if isinstance(node, (ast.Name, ast.Attribute)) and _is_word(names, node, at)]
    found = (names.qualified(node, file.scope_of(node)) for node in words)
    return next((api for api in found if api is not None), None)


def _is_word(names: Names, node: ast.Name | ast.Attribute, at: Position) -> bool:
    span = names.file.span(node)
    word = node.id if isinstance(node, ast.Name) else node.attr
    return span.end_line - 1 == at[0] and span.end_column - len(word) <= at[1] <= span.end_column


def _covers(span: Span, at: Position) -> bool:
    line, column = at
    return (span.start_line - 1, span.start_column) <= (line, column) <= (span.end_line - 1, span.end_column)
