"""Jupyter notebooks: the code cells are migrated as one program, and only what changed in them is written anew."""

from __future__ import annotations

import dataclasses
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, takewhile

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.engine import Migration, ProjectContext, migrate_python
from gpu2npu.engine.knowledge import Knowledge
from gpu2npu.engine.marks import Mark, merged
from gpu2npu.engine.skips import EVERY_RULE, Skips, find_skips
from gpu2npu.formats.code_installs import install_findings, may_install
from gpu2npu.formats.ipython_magics import Cell, read_cell, unmasked
from gpu2npu.formats.json_reader import read_json
from gpu2npu.formats.marks import records, resolved, shifted, with_edits
from gpu2npu.formats.nodes import FormatError, Items, Mapping, Node, Scalar, entry
from gpu2npu.formats.shell import shell_marks
from gpu2npu.kinds.string import mention_marks
from gpu2npu.python.text.edits import Edited, Replacement
from gpu2npu.python.text.offsets import Lines, splice
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.text.templates import plain
from gpu2npu.records import Change, Edit, Finding, MigratedFile, Span
from gpu2npu.rulebook.rule import Rulebook

_BETWEEN = "#%% 7ad3-cell\n"
_VARIABLE = re.compile(r"[A-Za-z_]\w*")


class _Line(Struct, frozen=True):
    """A line of a cell as it is in the notebook."""

    scalar: Scalar
    first: int  # the index of its first character in the scalar's value
    text: str

    def place(self, index: int) -> int:
        return self.scalar.place(self.first + index)


def migrate_notebook(
    text: str, path: str, rulebook: Rulebook, context: ProjectContext, knowledge: Knowledge
) -> Migration:
    """Migrate a notebook. Positions in the result are cells, counted from 1 over all of them, and lines in them.

    Raises FormatError where it is not a notebook of format 4.
    """
    sources = list(_sources(read_json(text)))
    cells = [read_cell("".join(line.text for line in lines), number) for number, lines in sources]
    program, starts = _program(cells)
    result, edited = migrate_python(program, path, rulebook, context)
    if result.failure is not None:
        return Migration(replace(result, failure=_placed_failure(result.failure, cells, starts)))
    changes = [replace(change, span=_span(change.span, cells, starts)) for change in result.changes]
    installing = may_install(program.encode("utf-8", "surrogatepass"))
    source = SourceFile(path, program, "utf-8", b"")
    installs = install_findings(source, context.project, knowledge) if installing else ()
    found = merged(result.findings, installs)
    findings = [replace(finding, span=_span(finding.span, cells, starts)) for finding in found]
    of_python = _by_cell(_cut(program, edited.replacements if edited is not None else ()), cells)
    edits: list[Edit] = []
    for (_, lines), cell, own, skips in zip(sources, cells, of_python, _skips(cells), strict=True):
        other, reported = _outside_python(cell, path, rulebook, context, knowledge, skips)
        changes += reported[0]
        findings += reported[1]
        edits += _edits(text, lines, sorted([*unmasked(own, cell), *other], key=lambda one: (one.start, one.end)))
    changes.sort(key=lambda change: (change.span, change.rule))
    findings.sort(key=lambda finding: (finding.span, finding.rule))
    whole = Edited(text, edits) if edits else None
    content = whole.text.encode("utf-8") if whole is not None else None
    return Migration(MigratedFile(path, content, tuple(changes), tuple(findings), traits=result.traits), whole)


def cell_lines(text: str) -> Iterator[tuple[int, int]]:
    """The number of each code cell that has a source, and the line of the notebook on which that source starts."""
    lines = Lines.of(text)
    for number, source in _sources(read_json(text)):
        if source:
            yield number, lines.span(source[0].scalar.start, source[0].scalar.start).start_line


def read_cells(text: str) -> tuple[str, dict[int, tuple[str, int]]]:
    """The Python of all code cells as one program, and by the number of each its text and its first line in that.

    Raises FormatError where it is not a notebook of format 4.
    """
    cells = [read_cell("".join(line.text for line in lines), number) for number, lines in _sources(read_json(text))]
    program, starts = _program(cells)
    return program, {cell.number: (cell.text, start) for cell, start in zip(cells, starts, strict=True)}


def _sources(root: Node) -> Iterator[tuple[int, list[_Line]]]:
    """The lines of each code cell, with the cell's number."""
    cells = entry(root, "cells")
    if not isinstance(cells, Items):
        raise FormatError("it is not a notebook of format 4")
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
        parts.append(f"{_BETWEEN}{cell.python or ''}\n")
        starts.append(line + 1)
        line += parts[-1].count("\n")
    return "".join(parts), starts


def _cut(program: str, replacements: Iterable[Replacement]) -> Iterator[Replacement]:
    """The edits of the program with the lines that they change alone, where cells meet in several."""
    for start, end, new in replacements:
        at = start
        olds, news = (text.split(_BETWEEN) for text in (program[start:end], new))
        for old, wanted in zip(olds, news, strict=True):
            yield from _narrowed(at, old, wanted)
            at += len(old) + len(_BETWEEN)


def _narrowed(at: int, old: str, new: str) -> Iterator[Replacement]:
    """An edit without the lines that are the same at its beginning and its end."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if before == after:
        return
    first = _same(before, after)
    last = _same(before[first:][::-1], after[first:][::-1])
    start = at + len("".join(before[:first]))
    changed = "".join(before[first : len(before) - last])
    yield Replacement(start, start + len(changed), "".join(after[first : len(after) - last]))


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of lines that two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _by_cell(replacements: Iterable[Replacement], cells: Sequence[Cell]) -> list[list[Replacement]]:
    """The edits of the program, each with the cell that it is in, by offsets in the Python of that."""
    lengths = [len(cell.python or "") for cell in cells]
    starts = [start + len(_BETWEEN) for start in accumulate((len(_BETWEEN) + each + 1 for each in lengths), initial=0)]
    found: list[list[Replacement]] = [[] for _ in cells]
    for start, end, new in replacements:
        index = bisect_right(starts, start) - 1
        first, length = start - starts[index], lengths[index]
        if first > length:  # a line below the last, to which the program adds a line end
            found[index].append(Replacement(length, length, "\n" + new.removesuffix("\n")))
        else:
            new = new if end - starts[index] <= length else new.removesuffix("\n")  # that of the program
            found[index].append(Replacement(first, min(end - starts[index], length), new))
    return found


def _span(span: Span, cells: Sequence[Cell], starts: Sequence[int]) -> Span:
    index = max(bisect_right(starts, span.start_line) - 1, 0)
    above = starts[index] - 1
    shifted_span = dataclasses.replace(span, cell=cells[index].number, start_line=max(span.start_line - above, 1))
    return dataclasses.replace(shifted_span, end_line=max(span.end_line - above, 1))


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


_Reported = tuple[Sequence[Change], Sequence[Finding]]


def _outside_python(
    cell: Cell,
    path: str,
    rulebook: Rulebook,
    context: ProjectContext,
    knowledge: Knowledge,
    skips: Skips,
) -> tuple[list[Replacement], _Reported]:
    """The edits of what is not Python in a cell, and what is reported of that."""
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
    return with_edits(cell.text, marks).replacements, records(cell.text, marks, cell.number)


def _is_off(mark: Mark, cell: Cell, skips: Skips) -> bool:
    span = Lines.of(cell.text).span(*mark.place)
    return not skips.file.isdisjoint({mark.rule, EVERY_RULE}) or skips.covers(mark.rule, span.start_line, span.end_line)


def _unread(cell: Cell, knowledge: Knowledge) -> list[Mark]:
    message = "This cell cannot be read as Python, and stays as it is: look for this and similar code in it."
    return mention_marks(knowledge.table, cell.text, 0, message)


def _written_file(
    cell: Cell, path: str, rulebook: Rulebook, context: ProjectContext
) -> tuple[list[Replacement], _Reported]:
    """A cell that writes a file: its text is migrated as that file."""
    from gpu2npu.formats.dispatch import migrate_part

    folder = path.rpartition("/")[0]
    name = f"{folder}/{cell.file}".lstrip("/")
    above = len(cell.lines[0])
    result, edited = migrate_part(cell.text[above:], name, rulebook, context)

    def placed(span: Span) -> Span:
        return dataclasses.replace(span, cell=cell.number, start_line=span.start_line + 1, end_line=span.end_line + 1)

    changes = [replace(change, span=placed(change.span)) for change in result.changes]
    findings = [replace(finding, span=placed(finding.span)) for finding in result.findings]
    replacements = edited.replacements if edited is not None else ()
    return [Replacement(start + above, end + above, new) for start, end, new in replacements], (changes, findings)


def _edits(text: str, old: Sequence[_Line], replacements: Sequence[Replacement]) -> Iterator[Edit]:
    """The edits of the notebook that make those of the lines of a cell."""
    starts = list(accumulate((len(line.text) for line in old), initial=0))
    for (first, last), inside in _by_lines(replacements, starts):
        above = starts[first]
        before = "".join(line.text for line in old[first:last])
        after = splice(before, ((start - above, end - above, new) for start, end, new in inside))
        new = after.splitlines(keepends=True)
        pairs = min(last - first, len(new))
        for line, wanted in zip(old[first : first + pairs], new, strict=False):
            if line.text != wanted:
                yield _rewritten(text, line, wanted)
        for line in old[first + pairs : last]:
            yield _rewritten(text, line, "")
        if len(new) > pairs:
            yield _inserted(text, old, first + pairs, new[pairs:])


def _by_lines(
    replacements: Iterable[Replacement], starts: Sequence[int]
) -> Iterator[tuple[tuple[int, int], list[Replacement]]]:
    """The edits of the same lines together, with the indices of the first of these lines and of the one behind them."""
    group: list[Replacement] = []
    first = last = 0
    for one in replacements:
        start = min(bisect_right(starts, one.start) - 1, len(starts) - 2)
        is_line = one.start == one.end and one.new.endswith(("\n", "\r")) and one.start in (starts[start], starts[-1])
        if is_line and one.start == starts[-1]:
            start = len(starts) - 1
        end = start if is_line else max(bisect_left(starts, one.end), start + 1)
        if group and (start < last or (start, end) == (first, last)):
            last = max(last, end)
        else:
            if group:
                yield (first, last), group
            group, first, last = [], start, end
        group.append(one)
    if group:
        yield (first, last), group


def _rewritten(text: str, line: _Line, wanted: str) -> Edit:
    """Only what differs in a line is written anew."""
    shorter = min(len(line.text), len(wanted))
    prefix = next((index for index in range(shorter) if line.text[index] != wanted[index]), shorter)
    rest = shorter - prefix
    suffix = next((index for index in range(rest) if line.text[-1 - index] != wanted[-1 - index]), rest)
    start, end = line.place(prefix), line.place(len(line.text) - suffix)
    return Edit((start, end), plain(_escaped(wanted[prefix : len(wanted) - suffix], text[line.place(0) : end])), "", "")


def _inserted(text: str, old: Sequence[_Line], index: int, lines: Sequence[str]) -> Edit:
    """New lines before the `index`-th old one: strings of their own where each line has its own."""
    line = old[max(index - 1, 0)]
    is_only = sum(other.scalar is line.scalar for other in old) == 1
    strings = is_only and (len(old) > 1 or text[: line.scalar.start - 1].rstrip().endswith("["))
    if not strings:
        at = line.place(len(line.text)) if index else line.place(0)
        return Edit((at, at), plain(_escaped("".join(lines), "")), "", "")
    opening = text[text.rfind("\n", 0, line.scalar.start) + 1 : line.scalar.start - 1]
    between = f",\n{opening}" if not opening.strip() else ", "
    quoted = [f'"{_escaped(one, "")}"' for one in lines]
    if index:
        at = line.scalar.end + 1
        return Edit((at, at), plain("".join(between + one for one in quoted)), "", "")
    at = line.scalar.start - 1
    return Edit((at, at), plain("".join(one + between for one in quoted)), "", "")


def _escaped(value: str, like: str) -> str:
    return json.dumps(value, ensure_ascii="\\u" in like)[1:-1]
