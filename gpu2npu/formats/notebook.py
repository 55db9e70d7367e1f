"""Jupyter notebooks: the code cells are migrated as one program, and only what changed in them is written anew."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.engine.skips import EVERY_RULE, Skips, find_skips
from gpu2npu.formats.json_reader import read_json
from gpu2npu.formats.knowledge import Knowledge
from gpu2npu.formats.marks import Mark, records, resolved, review, shifted, spliced
from gpu2npu.formats.nodes import FormatError, Items, Mapping, Node, Scalar, entry
from gpu2npu.formats.notebook_cells import Cell, read_cell, unmasked
from gpu2npu.formats.shell import shell_marks
from gpu2npu.python.text import Lines
from gpu2npu.records import Change, Edit, Finding, MigratedFile, Span
from gpu2npu.rulebook.rule import Rulebook

_BETWEEN = "#%% 7ad3-cell\n"
_VARIABLE = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class _Line:
    """A line of a cell as it stands in the notebook."""

    scalar: Scalar
    first: int  # the index of its first character in the scalar's value
    text: str

    def place(self, index: int) -> int:
        return self.scalar.place(self.first + index)


def migrate_notebook(
    text: str, path: str, rulebook: Rulebook, context: ProjectContext, knowledge: Knowledge
) -> MigratedFile:
    """Migrate a notebook. Positions in the result are cells, counted from 1 over all of them, and lines in them.

    Raises FormatError where it is no notebook of format 4.
    """
    sources = list(_sources(read_json(text)))
    cells = [read_cell("".join(line.text for line in lines), number) for number, lines in sources]
    program, starts = _program(cells)
    result = migrate_source(program.encode("utf-8", "surrogatepass"), path, rulebook, context)
    if result.failure is not None:
        return replace(result, failure=_placed_failure(result.failure, cells, starts))
    changes = [replace(change, span=_span(change.span, cells, starts)) for change in result.changes]
    findings = [replace(finding, span=_span(finding.span, cells, starts)) for finding in result.findings]
    migrated = (result.content.decode("utf-8") if result.content is not None else program).split(_BETWEEN)[1:]
    edits: list[Edit] = []
    for (_, lines), cell, python, skips in zip(sources, cells, migrated, _skips(cells), strict=True):
        new, told = _new_lines(cell, python, path, rulebook, context, knowledge, skips)
        changes += told[0]
        findings += told[1]
        if new != list(cell.lines):
            edits += _edits(text, lines, new)
    changes.sort(key=lambda change: (change.span, change.rule))
    findings.sort(key=lambda finding: (finding.span, finding.rule))
    content = spliced(text, edits).encode("utf-8") if edits else None
    return MigratedFile(path, content, tuple(changes), tuple(findings), traits=result.traits)


def cell_lines(text: str) -> Iterator[tuple[int, int]]:
    """The number of each code cell that has a source, and the line of the notebook on which that source starts."""
    lines = Lines.of(text)
    for number, source in _sources(read_json(text)):
        if source:
            yield number, lines.span(source[0].scalar.start, source[0].scalar.start).start_line


def read_cells(text: str) -> tuple[str, dict[int, tuple[str, int]]]:
    """The Python of all code cells as one program, and by the number of each its text and its first line in that.

    Raises FormatError where it is no notebook of format 4.
    """
    cells = [read_cell("".join(line.text for line in lines), number) for number, lines in _sources(read_json(text))]
    program, starts = _program(cells)
    return program, {cell.number: (cell.text, start) for cell, start in zip(cells, starts, strict=True)}


def _sources(root: Node) -> Iterator[tuple[int, list[_Line]]]:
    """The lines of each code cell, with the cell's number."""
    cells = entry(root, "cells")
    if not isinstance(cells, Items):
        raise FormatError("it is no notebook of format 4")
    language = entry(root, "metadata", "language_info", "name") or entry(root, "metadata", "kernelspec", "language")
    if isinstance(language, Scalar) and language.value not in ("python", "ipython", None):
        return
    for number, cell in enumerate(cells.items, start=1):
        kind = entry(cell, "cell_type")
        source = entry(cell, "source")
        if not isinstance(kind, Scalar) or kind.value != "code" or not isinstance(cell, Mapping):
            continue
        pieces = [source] if isinstance(source, Scalar) else list(source.items) if isinstance(source, Items) else []
        yield number, [line for piece in pieces if isinstance(piece, Scalar) for line in _lines(piece)]


def _lines(scalar: Scalar) -> Iterator[_Line]:
    at = 0
    for line in (scalar.value or "").splitlines(keepends=True):
        yield _Line(scalar, at, line)
        at += len(line)


def _program(cells: Sequence[Cell]) -> tuple[str, list[int]]:
    """The Python of all cells, each after a line that marks its start; and the number of the line after each mark."""
    parts = []
    starts = []
    line = 1
    for cell in cells:
        python = cell.python if cell.python is not None else ""
        parts.append(f"{_BETWEEN}{python}\n")
        starts.append(line + 1)
        line += 1 + parts[-1].count("\n") - 1
    return "".join(parts), starts


def _span(span: Span, cells: Sequence[Cell], starts: Sequence[int]) -> Span:
    index = max(bisect_right(starts, span.start_line) - 1, 0)
    above = starts[index] - 1
    shifted_span = replace(span, cell=cells[index].number, start_line=max(span.start_line - above, 1))
    return replace(shifted_span, end_line=max(span.end_line - above, 1))


def _placed_failure(failure: str, cells: Sequence[Cell], starts: Sequence[int]) -> str:
    def placed(match: re.Match[str]) -> str:
        line = int(match[1])
        span = _span(Span(line, 0, line, 0), cells, starts)
        return f"cell {span.cell}, line {span.start_line}"

    return re.sub(r"\bline (\d+)", placed, failure)


def _skips(cells: Sequence[Cell]) -> Iterator[Skips]:
    """The skip comments of each cell by its own lines, and with each those for the whole notebook."""
    found = find_skips("\n".join(cell.text for cell in cells))
    above = 0
    for cell in cells:
        length = cell.text.count("\n") + 1
        yield Skips(found.file, {line - above: rules for line, rules in found.lines.items() if line > above})
        above += length


_Told = tuple[tuple[Change, ...], tuple[Finding, ...]]


def _new_lines(
    cell: Cell,
    python: str,
    path: str,
    rulebook: Rulebook,
    context: ProjectContext,
    knowledge: Knowledge,
    skips: Skips,
) -> tuple[list[str], _Told]:
    """The lines of the migrated cell, and what is to be told of those that are not Python."""
    if cell.file is not None:
        return _written_file(cell, path, rulebook, context)
    marks: list[Mark] = []
    for start, end in cell.shell:
        marks += shifted(shell_marks(cell.text[start:end], knowledge), start)
    for start, end in cell.variables:
        name = _VARIABLE.match(cell.text, start, end)
        marks += knowledge.variable(name[0], start) if name is not None else []
    if cell.python is None and not cell.shell:
        marks += _unread(cell, knowledge)
    marks = resolved(mark for mark in marks if not _is_off(mark, cell, skips))
    told = records(cell.text, marks, cell.number)
    edited = spliced(cell.text, marks).splitlines(keepends=True)
    if cell.python is None:
        return edited, told
    return unmasked(python[:-1], cell, dict(enumerate(edited))), told


def _is_off(mark: Mark, cell: Cell, skips: Skips) -> bool:
    span = Lines.of(cell.text).span(*mark.place)
    return not skips.file.isdisjoint({mark.rule, EVERY_RULE}) or skips.covers(mark.rule, span.start_line, span.end_line)


def _unread(cell: Cell, knowledge: Knowledge) -> list[Mark]:
    mention = knowledge.mentions(cell.text)
    if mention is None:
        return []
    rule = next(rule.rule for rule in knowledge.table.strings if rule.text in mention[0])
    message = "This cell is no Python that can be read, and stays as it is: look for this and the like in it."
    return [review(rule, mention.start(), mention.end(), mention[0], message)]


def _written_file(cell: Cell, path: str, rulebook: Rulebook, context: ProjectContext) -> tuple[list[str], _Told]:
    """A cell that writes a file: its text is migrated as that file."""
    from gpu2npu.formats.dispatch import migrate_file

    folder = path.rpartition("/")[0]
    name = f"{folder}/{cell.file}".lstrip("/")
    result = migrate_file("".join(cell.lines[1:]).encode(), name, rulebook, context)

    def placed(span: Span) -> Span:
        return replace(span, cell=cell.number, start_line=span.start_line + 1, end_line=span.end_line + 1)

    changes = tuple(replace(change, span=placed(change.span)) for change in result.changes)
    findings = tuple(replace(finding, span=placed(finding.span)) for finding in result.findings)
    if result.content is None:
        return list(cell.lines), (changes, findings)
    return [cell.lines[0], *result.content.decode().splitlines(keepends=True)], (changes, findings)


def _edits(text: str, old: Sequence[_Line], new: Sequence[str]) -> Iterator[Edit]:
    """The edits of the notebook that make `new` of the lines of a cell."""
    matcher = SequenceMatcher(None, [line.text for line in old], new, autojunk=False)
    for _, first, last, start, end in matcher.get_opcodes():
        pairs = min(last - first, end - start)
        for line, wanted in zip(old[first : first + pairs], new[start : start + pairs], strict=True):
            if line.text != wanted:
                yield _rewritten(text, line, wanted)
        for line in old[first + pairs : last]:
            yield _rewritten(text, line, "")
        if end - start > pairs:
            yield _inserted(text, old, first + pairs, new[start + pairs : end])


def _rewritten(text: str, line: _Line, wanted: str) -> Edit:
    """Only what differs in a line is written anew."""
    shorter = min(len(line.text), len(wanted))
    prefix = next((index for index in range(shorter) if line.text[index] != wanted[index]), shorter)
    rest = shorter - prefix
    suffix = next((index for index in range(rest) if line.text[-1 - index] != wanted[-1 - index]), rest)
    start, end = line.place(prefix), line.place(len(line.text) - suffix)
    return Edit((start, end), _escaped(wanted[prefix : len(wanted) - suffix], text[line.place(0) : end]), "", "")


def _inserted(text: str, old: Sequence[_Line], index: int, lines: Sequence[str]) -> Edit:
    """New lines before the `index`-th old one: strings of their own where each line has its own."""
    line = old[max(index - 1, 0)]
    alone = sum(other.scalar is line.scalar for other in old) == 1
    strings = alone and (len(old) > 1 or _in_list(text, line))
    if not strings:
        at = line.place(len(line.text)) if index else line.place(0)
        return Edit((at, at), _escaped("".join(lines), ""), "", "")
    opening = text[text.rfind("\n", 0, line.scalar.start) + 1 : line.scalar.start - 1]
    between = f",\n{opening}" if not opening.strip() else ", "
    quoted = [f'"{_escaped(one, "")}"' for one in lines]
    if index:
        at = line.scalar.end + 1
        return Edit((at, at), "".join(between + one for one in quoted), "", "")
    at = line.scalar.start - 1
    return Edit((at, at), "".join(one + between for one in quoted), "", "")


def _in_list(text: str, line: _Line) -> bool:
    """Whether a string that is all of a cell is the only item of a list."""
    return text[: line.scalar.start - 1].rstrip().endswith("[")


def _escaped(value: str, like: str) -> str:
    return json.dumps(value, ensure_ascii="\\u" in like)[1:-1]
