"""The findings and edits of a text, whole or by line, in the words of the language server protocol."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from lsprotocol import types
from msgspec import Struct
from pygls.workspace import PositionCodec

from gpu2npu.editor.session import Checked
from gpu2npu.language import sentence, shown
from gpu2npu.records import Change, MigratedFile, Operation, Severity, Span

_SOURCE = "gpu2npu"
_SEVERITIES = {
    Severity.BLOCKER: types.DiagnosticSeverity.Error,
    Severity.CHANGE: types.DiagnosticSeverity.Warning,
    Severity.ENVIRONMENT: types.DiagnosticSeverity.Warning,
    Severity.ADVICE: types.DiagnosticSeverity.Information,
    Severity.NOTE: types.DiagnosticSeverity.Hint,
}
FIX_ALL = "source.fixAll.gpu2npu"
_LONGEST = 60


class Places:
    """Turns places of reports to those of the editor, which counts in units of its own, and back."""

    def __init__(self, codec: PositionCodec, text: str) -> None:
        self.codec = codec
        self.lines = lines_of(text)

    def range(self, span: Span) -> types.Range:
        """The editor's range of a span."""
        return types.Range(
            self._position(span.start_line - 1, span.start_column), self._position(span.end_line - 1, span.end_column)
        )

    def position(self, position: types.Position) -> tuple[int, int]:
        """The line and the column of a place of the editor's, both from 0, the column in characters."""
        found = self.codec.position_from_client_units(self.lines, position)
        return found.line, found.character

    def _position(self, line: int, column: int) -> types.Position:
        text = self.lines[line][:column] if line < len(self.lines) else ""
        # The codec visits the characters one by one, which of a line with thousands of findings takes seconds.
        return types.Position(line, len(text) if text.isascii() else self.codec.client_num_units(text))


def diagnostics(checked: Checked, codec: PositionCodec) -> Iterator[types.Diagnostic]:
    """The findings by their severity, and each edit of a migration as information."""
    places, migrated = Places(codec, checked.text), checked.migrated
    if migrated.failure is not None:
        yield types.Diagnostic(
            types.Range(types.Position(0, 0), types.Position(0, 0)),
            shown(f"Not checked: {migrated.failure}"),
            severity=types.DiagnosticSeverity.Error,
            source=_SOURCE,
        )
    for finding in migrated.findings:
        yield types.Diagnostic(
            places.range(finding.span),
            shown(finding.message),
            severity=_SEVERITIES[finding.severity],
            code=finding.rule,
            source=_SOURCE,
        )
    yield from (_edit_diagnostic(change, places) for change in _edits(migrated))


def _edits(migrated: MigratedFile) -> Iterator[Change]:
    """The edits that need no other: an import is inserted with what needs it."""
    return (change for change in migrated.changes if change.operation is not Operation.INSERT)


def _edit_diagnostic(change: Change, places: Places) -> types.Diagnostic:
    return types.Diagnostic(
        places.range(change.span),
        f"{_title(change)}. {shown(change.message)}",
        severity=types.DiagnosticSeverity.Information,
        code=change.rule,
        source=_SOURCE,
    )


def _title(change: Change) -> str:
    before, after = map(_shortened, (change.before, change.after))
    return sentence("{} becomes {}", before, after) if after else sentence("{} is removed", before)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def actions(checked: Checked, codec: PositionCodec, params: types.CodeActionParams) -> Iterator[types.CodeAction]:
    """The fix of each edit on the requested lines, and the migration of the whole file."""
    migrated = checked.migrated
    if migrated.content is None:
        return
    edits = line_edits(checked.text, checked.after)
    wanted, uri, places = params.context.only, params.text_document.uri, Places(codec, checked.text)
    if _is_wanted(types.CodeActionKind.QuickFix, wanted):
        for change in _edits(migrated):
            if change.span.start_line - 1 <= params.range.end.line and params.range.start.line < change.span.end_line:
                edit = _workspace_edit(uri, edits_for(change, migrated.changes, edits))
                diagnostics = [_edit_diagnostic(change, places)]
                yield types.CodeAction(_title(change), types.CodeActionKind.QuickFix, diagnostics, edit=edit)
    if _is_wanted(FIX_ALL, wanted):
        yield types.CodeAction("Migrate this file to the NPU", FIX_ALL, edit=_workspace_edit(uri, edits))


def _is_wanted(kind: str, wanted: Sequence[types.CodeActionKind | str] | None) -> bool:
    """Return whether an editor asks for actions of a kind: a kind stands for all below it."""
    if not wanted:
        return True
    names = (each.value if isinstance(each, types.CodeActionKind) else each for each in wanted)
    return any(kind == name or kind.startswith(f"{name}.") for name in names)


def _workspace_edit(uri: str, edits: tuple[LineEdit, ...]) -> types.WorkspaceEdit:
    changes = [
        types.TextEdit(types.Range(types.Position(edit.start, 0), types.Position(edit.end, 0)), edit.text)
        for edit in edits
    ]
    return types.WorkspaceEdit({uri: changes})


class LineEdit(Struct, frozen=True):
    """Replace the lines from `start` to before `end`, counted from 0, by `text`, whole lines."""

    start: int
    end: int
    text: str


# As editors count them: a form feed ends no line.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


def lines_of(text: str) -> list[str]:
    """The lines of a text, each with its end."""
    return _LINE.findall(text)


def line_edits(before: str, after: str) -> tuple[LineEdit, ...]:
    """The edits of one text to another, by their places; lines that were replaced one by one are edits of their own."""
    old, new = lines_of(before), lines_of(after)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return tuple(edit for code in matcher.get_opcodes() for edit in _line_edits(code, new))


def _line_edits(code: tuple[str, int, int, int, int], new: Sequence[str]) -> Iterator[LineEdit]:
    tag, start, end, new_start, new_end = code
    if tag == "equal":
        return
    if end - start == new_end - new_start:
        yield from (LineEdit(start + each, start + each + 1, new[new_start + each]) for each in range(end - start))
    else:
        yield LineEdit(start, end, "".join(new[new_start:new_end]))


def edits_for(change: Change, changes: Iterable[Change], edits: Sequence[LineEdit]) -> tuple[LineEdit, ...]:
    """The edits of the lines of a change, and those that insert the imports which the file needs for it."""
    imports = (each for each in changes if each.operation is Operation.INSERT and each.after.startswith("import "))
    wanted = [change, *imports]
    return tuple(edit for edit in edits if any(_touches(edit, each) for each in wanted))


def _touches(edit: LineEdit, change: Change) -> bool:
    """Return whether an edit is of a line of a change; an insertion is before its line, or behind the last one."""
    first, last = change.span.start_line - 1, change.span.end_line - 1
    if edit.start == edit.end:
        return first <= edit.start <= last + 1
    return edit.start <= last and first < edit.end
