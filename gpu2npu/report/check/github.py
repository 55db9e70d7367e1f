"""A check as GitHub's workflow commands: each finding becomes an annotation at its line of a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from gpu2npu.language import shown
from gpu2npu.records import FindingKind
from gpu2npu.report.check.result import KINDS, CheckedFile, CheckedFinding, CheckResult
from gpu2npu.report.text import one_line

_COMMANDS = {
    FindingKind.UNSUPPORTED: "error",
    FindingKind.UNKNOWN: "warning",
    FindingKind.FALLBACK: "warning",
    FindingKind.REVIEW: "notice",
}


def github_report(result: CheckResult) -> str:
    """One command a line. GitHub shows no more than ten annotations of each level a step, so the worst come first."""
    order = {kind: rank for rank, kind in enumerate(KINDS)}
    worst_first = sorted(result.reported(), key=lambda entry: order[entry[1].kind])
    lines = [*_failures(result), *(_annotation(file, found) for file, found in worst_first)]
    return "".join(f"{line}\n" for line in lines)


def _annotation(file: CheckedFile, found: CheckedFinding) -> str:
    finding = found.finding
    where: dict[str, object] = {"file": file.path, "line": found.line}
    if not finding.span.cell:  # in a notebook, columns are those of a cell
        end = found.line + finding.span.end_line - finding.span.start_line
        where |= {"endLine": end, "col": finding.span.start_column + 1, "endColumn": finding.span.end_column + 1}
    where["title"] = f"gpu2npu {finding.rule}"
    return _command(_COMMANDS[finding.kind], where, f"{finding.api}: {shown(finding.message)}")


def _failures(result: CheckResult) -> Iterator[str]:
    for path, reason in result.failures:
        yield _command("error", {"file": path, "title": "gpu2npu"}, shown(f"not checked: {reason}"))


def _command(name: str, properties: dict[str, object], message: str) -> str:
    """As GitHub's toolkit escapes it: @actions/core, command.ts."""
    given = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    """Line ends stay, escaped; what no terminal can show is spelled out."""
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return one_line(escaped)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
