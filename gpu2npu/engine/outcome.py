"""The record of one migrated file: the edits of codemods and rules become one text, its changes and its findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from gpu2npu.engine.findings import merged
from gpu2npu.engine.matches import Matches
from gpu2npu.engine.needed_imports import needed_imports
from gpu2npu.engine.rewriting.layout import LineLayout, lost_insertions
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.text.edits import Edited
from gpu2npu.python.text.offsets import holds
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax_tree import TreeError, parse
from gpu2npu.records import Bounds, Change, Edit, FileRewrite, Finding, Found, MigratedFile, Operation

if TYPE_CHECKING:
    from gpu2npu.python.text.writing import Written


class Migration(NamedTuple):
    """The record of a file, and its text with the edits, where there are any."""

    record: MigratedFile
    edited: Edited | None = None


def migrated_file(
    file: PythonFile, matches: Matches, table: RuleTable, rewrite: FileRewrite, writes: bool = True
) -> Migration:
    """The file after what codemods (`rewrite`) and rules (`matches`) do to it. LibCST `writes` it; where nobody reads
    it, it is put together as text."""
    traits = rewrite.traits | matches.traits
    edits = [*rewrite.edits, *matches.edits]
    if not edits and not matches.found and not rewrite.found:
        return Migration(MigratedFile(file.path, traits=traits))
    made = {edit for edit, _ in Edited(file.text, edits).made()}
    in_order = [edit for edit in (*matches.edits, *rewrite.edits) if edit in made]
    imports = needed_imports(in_order, matches, file, table)
    layout = LineLayout(file, in_order)
    inserted, codemods, rules = (
        [layout.placed(edit) for edit in group]
        for group in ((edit for edit, _ in imports), rewrite.edits, matches.edits)
    )
    placed = [*inserted, *codemods, *rules]
    edited = Edited(file.text, [*placed, *layout.moves])
    written = _written(file, edited) if made and writes else edited
    as_text = written.as_text if not isinstance(written, Edited) else {}
    changes = [replace(change, as_text=as_text.get(edit, "")) for edit, change in imports]
    changes += _changes(file, edited, rules, as_text)
    changes += _changes_of_codemods(file, edited, codemods, as_text)
    lost = lost_insertions(placed, (edit for edit, _ in edited.made()))
    record = MigratedFile(
        file.path,
        content=_content(file, written) if made else None,
        changes=tuple(sorted(changes, key=lambda change: (change.span, change.rule))),
        findings=_findings(
            file, matches.found, [*rewrite.found, *lost], rewrite.edits, [e for e in rules if e in made]
        ),
        traits=frozenset(traits),
    )
    return Migration(record, edited if made else None)  # by edit: cells of notebooks are not statements


def _written(file: PythonFile, edited: Edited) -> Written:
    from gpu2npu.python.text.writing import rewritten

    return rewritten(file, edited)


def _content(file: PythonFile, edited: Edited | Written) -> bytes:
    """The new text in the encoding of the file.

    Raises:
        TreeError: The new text is not Python.
    """
    text = edited.text
    try:
        parse(text)
    except TreeError as error:
        raise TreeError(f"the result would not be Python, {error}: the file stays as it is") from error
    return file.source.encode(text)


def _changes(file: PythonFile, edited: Edited, edits: Sequence[Edit], as_text: Mapping[Edit, str]) -> Iterator[Change]:
    """The changes of the rules; what they do inside the code of a codemod is part of that codemod's change."""
    ours = set(edits)
    for edit, outer in edited.made():
        if edit not in ours or (outer is not None and outer not in ours):
            continue
        start, end = edit.shown or edit.place
        is_gone = edit.replaced is not None and edit.shown is None  # with its line
        after = "" if is_gone else edited.between(start, end)
        if start == end and isinstance(edit.text, str):  # a statement or a decorator that is added
            after = edit.text.strip()
        span = file.lines.span(*edit.place)
        yield Change(span, edit.rule, edit.operation, edit.message, file.text[start:end], after, as_text.get(edit, ""))


def _changes_of_codemods(
    file: PythonFile, edited: Edited, edits: Sequence[Edit], as_text: Mapping[Edit, str]
) -> Iterator[Change]:
    """The changes of codemods; lines that move to the right are reported as a whole."""
    ours = set(edits)
    made = [edit for edit, outer in edited.made() if edit in ours and (outer is None or outer not in ours)]
    for group in _together(made):
        first, (start, end) = group[0], (group[0].place[0], group[-1].place[1])
        if len(group) > 1:
            end = _line_end(file.text, end)
        before, after = file.text[start:end], edited.written(first, end)
        operation = Operation.MODIFY if before.strip() and after.strip() else Operation.DELETE
        if not before.strip():
            operation = Operation.INSERT
        yield Change(
            file.lines.span(start, end), first.rule, operation, first.message, before, after, as_text.get(first, "")
        )


def _together(edits: Iterable[Edit]) -> list[list[Edit]]:
    """The edits by what is one change to a reader: a statement put around others, and the lines it moves right."""
    groups: list[list[Edit]] = []
    for edit in edits:
        first = groups[-1][0] if groups else edit
        indents = isinstance(edit.text, str) and edit.place[0] == edit.place[1] and not edit.text.strip()
        if groups and indents and (edit.rule, edit.message) == (first.rule, first.message):
            groups[-1].append(edit)
        else:
            groups.append([edit])
    return groups


def _line_end(text: str, offset: int) -> int:
    """The offset of the end of a line, its line end not counted to it."""
    return offset + (len(text[offset:].splitlines()[0]) if text[offset:] else 0)


def _findings(
    file: PythonFile, found: Sequence[Found], certain: Sequence[Found], codemods: Sequence[Edit], rules: Sequence[Edit]
) -> tuple[Finding, ...]:
    """The findings, each once: those that are `certain`, and what the rules `found` about code that stays, but where
    a certain one is of the same rule on the same line; of an import that another rule edits, nothing."""
    own = [each.at(file.lines.span(*each.place)) for each in certain]
    answered = {(finding.span.start_line, finding.rule) for finding in own}
    imports = [edit for edit in rules if _is_import(file, edit)]
    left = [
        each.at(file.lines.span(*each.place))
        for each in found
        if _stays(each.place, codemods)
        and not any(holds(edit.shown or edit.extent, each.place) and edit.rule != each.rule for edit in imports)
    ]
    return merged(own, left, lambda finding: (finding.span.start_line, finding.rule) in answered)


def _is_import(file: PythonFile, edit: Edit) -> bool:
    """Return whether an edit takes an import out, or gives it another module."""
    start, end = edit.shown or edit.extent
    words = file.text[start:end].split(None, 1)[:1]
    return words in (["from"], ["import"]) and (edit.text == "" or edit.place[0] > start)


def _stays(place: Bounds, edits: Sequence[Edit]) -> bool:
    """Return whether the code at a place is still there after the edits of codemods."""
    if not any(holds(edit.extent, place) for edit in edits):
        return True
    return any(not isinstance(piece, str) and holds(piece, place) for edit in edits for piece in edit.pieces)
