"""The place of a finding, in terms that survive edits elsewhere in its file: the line's text and what it is in."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.python.text.source import SourceReadError, read_settings, read_source
from gpu2npu.records import Finding, MigratedFile
from gpu2npu.report.check.result import CheckedFile, CheckedFinding, Part

_LONGEST = 500  # characters of a line that a report shows
_CONTEXT_LINES = 3  # lines of context on either side
_LINE_END = re.compile(r"\r\n?|\n")
_HEADER = re.compile(r"([ \t]*)(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")


class _Text(Struct, frozen=True):
    """A file, or a cell of a notebook: `first` is the file's line that its first one is."""

    lines: Sequence[str]
    first: int
    headers: Sequence[tuple[int, int, str]]  # of each definition: line, indentation, name

    @classmethod
    def of(cls, text: str, first: int = 1) -> _Text:
        lines = _LINE_END.split(text)
        matches = ((number, _HEADER.match(line)) for number, line in enumerate(lines, start=1))
        headers = [(number, len(match[1].expandtabs()), match[2]) for number, match in matches if match is not None]
        return cls(lines, first, headers)

    def line(self, number: int) -> str:
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def scope(self, number: int) -> str:
        """The definitions that the line is in, found by indentation: that also works where nothing can be parsed."""
        line = self.line(number)[:_LONGEST]
        indentation = len(line.expandtabs()) - len(line.expandtabs().lstrip())
        names: list[str] = []
        for at, depth, name in reversed(self.headers[: bisect_right(self.headers, (number - 1, 1 << 30, ""))]):
            if depth < indentation and at < number:
                names.append(name)
                indentation = depth
            if not indentation:
                break
        return ".".join(reversed(names))


def checked_file(
    file: MigratedFile, source: bytes, path: str, part: Part, diff: str, later: Collection[int] = ()
) -> CheckedFile:
    """The record of a migrated file as a check reports it. `path` is its path from the root of the check, `part` the
    part of the project that it is in, `later` the numbers of its findings about code that does not run at once."""
    if not file.findings:
        return CheckedFile(path, _count_lines(source), file.changes, failure=file.failure, diff=diff)
    texts = _texts(file.path, source)
    deferred = {each for number, each in enumerate(file.findings) if number in later}
    findings = tuple(
        replace(each, part=Part.DEFERRED if each.finding in deferred else part)
        for each in _checked(file.findings, texts)
    )
    return CheckedFile(path, _count_lines(source), file.changes, findings, file.failure, diff)


def _count_lines(source: bytes) -> int:
    return source.count(b"\n") + (not source.endswith(b"\n") and bool(source))


def _texts(path: str, source: bytes) -> dict[int, _Text]:
    """The texts of a file by the number of the cell; a file that has no cells is cell 0."""
    cells = _cells(source) if path.endswith(".ipynb") else {}
    if cells:
        return cells
    try:
        read = read_source if path.endswith(".py") else read_settings
        return {0: _Text.of(read(source, path).text)}
    except SourceReadError:
        return {0: _Text.of(source.decode("utf-8", "replace"))}


def _cells(source: bytes) -> dict[int, _Text]:
    """The cells of a notebook; none where it cannot be read."""
    from gpu2npu.formats.nodes import FormatError  # formats take long to import, and few projects have notebooks
    from gpu2npu.formats.notebook import cell_lines, read_cells

    try:
        text = source.decode("utf-8-sig")
        starts = dict(cell_lines(text))
        return {number: _Text.of(cell, starts.get(number, 1)) for number, (cell, _) in read_cells(text)[1].items()}
    except (UnicodeDecodeError, FormatError):
        return {}


def _checked(findings: Iterable[Finding], texts: dict[int, _Text]) -> Iterable[CheckedFinding]:
    seen: Counter[tuple[str, ...]] = Counter()
    for finding in sorted(findings, key=lambda each: (each.span, each.rule, each.api)):
        span = finding.span
        text = texts.get(span.cell) or _Text((), 1, ())
        line = text.line(span.start_line)
        scope = text.scope(span.start_line)
        identity = (finding.rule, finding.api, " ".join(line[: 4 * _LONGEST].split()), scope)
        start = max(span.start_line - _CONTEXT_LINES, 1)
        yield CheckedFinding(
            finding,
            line=text.first + span.start_line - 1,
            source=line[:_LONGEST],
            context=tuple(each[:_LONGEST] for each in text.lines[start - 1 : span.start_line + _CONTEXT_LINES]),
            context_start=start,
            scope=scope,
            fingerprint=_fingerprint(identity, seen[identity]),
        )
        seen[identity] += 1


def _fingerprint(identity: tuple[str, ...], occurrence: int) -> str:
    """The identity of a finding as a digest; `occurrence` is its number among findings that are equal otherwise."""
    content = "\0".join((*identity, str(occurrence)))
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]
