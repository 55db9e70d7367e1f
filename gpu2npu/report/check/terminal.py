"""A check on a terminal: each cause once in colour, with the code of its first place, then the summary."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from gpu2npu.language import shown
from gpu2npu.records import Severity
from gpu2npu.report.check.causes import causes_of, group_of, shown_names
from gpu2npu.report.check.result import Cause, CheckedFile, CheckedFinding, CheckResult, Verdict
from gpu2npu.report.check.text import failure_lines, summary_lines
from gpu2npu.report.text import counted, file_and_line, one_line

_STYLES = {
    Severity.BLOCKER: "bold red",
    Severity.CHANGE: "bold yellow",
    Severity.ENVIRONMENT: "bold magenta",
    Severity.ADVICE: "bold cyan",
    Severity.NOTE: "bold blue",
}
_VERDICT_STYLES = {
    Verdict.READY: "bold green",
    Verdict.REVIEW: "bold yellow",
    Verdict.BLOCKED: "bold red",
    Verdict.NO_CUDA: "bold green",
}
_MARGIN = "blue"
_CONTEXT = 2  # lines of code before and after the one that is meant
_TAB = 4


def print_report(result: CheckResult, console: Console) -> None:
    """Print what the text report says, and code. Lines are as long as they are: the terminal wraps them."""
    causes = causes_of(result.places())
    first: dict[str, tuple[CheckedFile, CheckedFinding]] = {}
    for file, found in result.reported():
        first.setdefault(group_of(found.finding), (file, found))
    for cause in causes:
        for text in _cause(result, cause, *first[cause.group]):
            console.print(text, soft_wrap=True)
        console.print()
    for failure in failure_lines(result):
        console.print(Text(failure, "red"), soft_wrap=True)
    styles = iter([_VERDICT_STYLES[result.readiness.verdict]])
    for line in summary_lines(result, len(causes)):
        console.print(Text(line, next(styles, "")), soft_wrap=True)


def _cause(result: CheckResult, cause: Cause, file: CheckedFile, found: CheckedFinding) -> Iterator[Text]:
    head = Text.assemble(
        (shown(cause.severity.value), _STYLES[cause.severity]),
        (f" [{shown(cause.kind.value)}, {', '.join(cause.rules)}]", "dim"),
        (f" {one_line(shown_names(cause))}", "bold"),
    )
    yield head
    span = found.finding.span
    place = f"{file_and_line(file.path, span)}:{span.start_column + 1}"
    margin = len(str(found.context_start + len(found.context)))
    yield Text.assemble((" " * margin + "--> ", _MARGIN), one_line(f"{result.shown_root}{place}"))
    yield from _code(found, margin)
    advice = cause.message if len(cause.names) == 1 else cause.advice
    yield Text.assemble((" " * margin + " = ", _MARGIN), one_line(shown(advice)))
    if cause.places > 1:
        further, more = ", ".join(result.first_places(cause)[1:]), ", ..." if cause.has_more else ""
        counts = shown(f"{counted(cause.places, 'place')} in {counted(cause.files, 'file')}")
        counts += f", {shown('also')} {further}{more}" if further else ""
        yield Text.assemble((" " * margin + " = ", _MARGIN), (one_line(counts), "dim"))


def _code(found: CheckedFinding, margin: int) -> Iterator[Text]:
    """The lines around a place, each with its number, and a mark below what is meant."""
    span = found.finding.span
    at = span.start_line - found.context_start
    if not 0 <= at < len(found.context):
        return
    start = max(at - _CONTEXT, 0)
    for index, line in enumerate(found.context[start : at + _CONTEXT + 1], start=start):
        number = str(found.context_start + index).rjust(margin)
        yield Text.assemble((f"{number} | ", _MARGIN), _shown(line))
        if index == at:
            end = span.end_column if span.end_line == span.start_line else len(line)
            before, until = cell_len(_shown(line[: span.start_column])), cell_len(_shown(line[:end]))
            marks = "^" * max(until - before, 1)
            yield Text.assemble((" " * margin + " | ", _MARGIN), " " * before, (marks, _STYLES[found.finding.severity]))


def _shown(code: str) -> str:
    return one_line(code.expandtabs(_TAB))
