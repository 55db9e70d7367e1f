"""Known findings: a check reports what is new, and forgets what was fixed.

A finding is known by its place in terms that survive edits elsewhere in its file: the line's text and what it is
in. One can also be silenced by a comment in the project itself, as ruff's `--add-noqa` does.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, replace

from gpu2npu.project.errors import OutputError, UsageError
from gpu2npu.project.tree.staging import write_atomically
from gpu2npu.python.text.offsets import lines_with_ends
from gpu2npu.python.text.source import SourceReadError, declared_encoding, read_settings, read_source
from gpu2npu.records import Finding, MigratedFile
from gpu2npu.report.check.result import CheckedFile, CheckedFinding, CheckResult, Part

FORMAT = 1
_MAX_BYTES = 256 * 1024 * 1024


class Known(Struct, frozen=True, order=True):
    """One known finding. The rule and the api are for people who read the file; the fingerprint decides."""

    fingerprint: str
    rule: str
    api: str


# Known findings by the path of their file, relative to the folder that the baseline is in, with "/".
Baseline = Mapping[str, Collection[Known]]


def read_baseline(file: Path) -> Baseline:
    """Raises UsageError where there is no such file, or no baseline in it."""
    try:
        if not file.is_file():
            raise UsageError(f"The baseline '{file}' is not a file; --update-baseline makes one.")
        with file.open("rb") as opened:
            data = opened.read(_MAX_BYTES)
        content = json.loads(data)
        if content["format"] != FORMAT:
            raise UsageError(f"The baseline '{file}' was written by another version of gpu2npu; update it.")
        return {
            path: frozenset(Known(one["fingerprint"], one["rule"], one["api"]) for one in entries)
            for path, entries in content["findings"].items()
        }
    except OSError as error:
        raise UsageError(f"The baseline '{file}' cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"The file '{file}' is not a baseline of gpu2npu; --update-baseline makes one.") from error


def write_baseline(baseline: Baseline, file: Path) -> None:
    """Sorted, so that the same findings make the same bytes. Raises OutputError."""
    findings = {path: [asdict(each) for each in sorted(known)] for path, known in sorted(baseline.items()) if known}
    text = json.dumps({"format": FORMAT, "tool": "gpu2npu", "findings": findings}, indent=1) + "\n"
    try:
        write_atomically(file, text.encode())
    except OSError as error:
        raise OutputError(f"The baseline '{file}' could not be written: {error.strerror}.") from error


def mark_known(files: Iterable[CheckedFile], baseline: Baseline, root: Path, file: Path) -> tuple[CheckedFile, ...]:
    """The files with those findings marked that the baseline has. `root` is what their paths are relative to."""
    marked = []
    for checked in files:
        known = {entry.fingerprint for entry in baseline.get(baseline_path(checked.path, root, file), ())}
        findings = tuple(replace(found, known=found.fingerprint in known) for found in checked.findings)
        marked.append(replace(checked, findings=findings))
    return tuple(marked)


def expired(
    files: Iterable[CheckedFile], baseline: Baseline, root: Path, file: Path, checked: Collection[str], rules: set[str]
) -> Baseline:
    """The entries that matched no finding, of those that this check could match: of the source trees `checked`, as
    paths from the baseline, and of `rules`."""
    met = {baseline_path(each.path, root, file): {one.fingerprint for one in each.findings} for each in files}
    gone: dict[str, list[Known]] = {}
    for path, entries in baseline.items():
        if _is_under(path, checked):
            left = [one for one in entries if one.fingerprint not in met.get(path, ()) and one.rule in rules]
            if left:
                gone[path] = left
    return gone


def updated(files: Iterable[CheckedFile], baseline: Baseline, gone: Baseline, root: Path, file: Path) -> Baseline:
    """The baseline with all findings of the files and without what is gone."""
    findings = {path: set(entries).difference(gone.get(path, ())) for path, entries in baseline.items()}
    for checked in files:
        entries = findings.setdefault(baseline_path(checked.path, root, file), set())
        entries.update(Known(each.fingerprint, each.finding.rule, each.finding.api) for each in checked.findings)
    return findings


def baseline_path(path: str, root: Path, file: Path) -> str:
    """A path as the baseline has it: from its own folder, so that it does not matter where a check is started."""
    return os.path.relpath(root / path, file.absolute().parent).encode("utf-8", "backslashreplace").decode()


def _is_under(path: str, folders: Collection[str]) -> bool:
    return any(
        (folder == "." and not path.startswith("../")) or path == folder or path.startswith(f"{folder}/")
        for folder in folders
    )


_COMMENT = re.compile(r"#\s*gpu2npu:\s*skip=([\w-]+(?:\s*,\s*[\w-]+)*)")


def add_skips(result: CheckResult) -> tuple[int, list[str]]:
    """Write `# gpu2npu: skip=RULE` at the lines of Python with findings. Returns the number of lines, and the places,
    as "path:line", that cannot have one: within a string or before a backslash, or in another kind of file."""
    wanted: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file, found in result.reported():
        wanted[file.path][found.finding.span.start_line].add(found.finding.rule)
    written, left = 0, []
    for path, lines in wanted.items():
        done = _add(Path(result.root) / path, lines) if path.endswith(".py") else ()
        written += len(done)
        left += [f"{path}:{line}" for line in sorted(set(lines) - set(done))]
    return written, left


def _add(file: Path, wanted: dict[int, set[str]]) -> list[int]:
    """The lines, from 1, that got a comment; the program stays the same."""
    source = file.read_bytes()
    encoding = declared_encoding(source)
    text = source.decode(encoding)
    tree = _tree(text)
    done = []
    for line in sorted(wanted):
        changed = _with_comment(text, line, wanted[line])
        if tree is not None and _tree(changed) == tree:
            text = changed
            done.append(line)
    if done:
        file.write_bytes(text.encode(encoding))
    return done


def _with_comment(text: str, line: int, rules: Iterable[str]) -> str:
    lines = lines_with_ends(text)
    code = lines[line - 1].rstrip("\r\n")
    end = lines[line - 1][len(code) :]
    stated = _COMMENT.search(code)
    if stated:
        listed = ",".join(sorted({*re.split(r"\s*,\s*", stated[1]), *rules}))
        code = f"{code[: stated.start(1)]}{listed}{code[stated.end(1) :]}"
    else:
        code = f"{code.rstrip()}  # gpu2npu: skip={','.join(sorted(rules))}"
    lines[line - 1] = f"{code}{end}"
    return "".join(lines)


def _tree(text: str) -> str | None:
    try:
        return ast.dump(ast.parse(text))
    except (SyntaxError, ValueError):
        return None


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
