"""The output of a check, in the form that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from gpu2npu.report.check.result import CheckResult

# Each format by its function in report/check, `module:function`, and what of Shown the function takes after the result.
FORMATS: dict[str, tuple[str, ...]] = {
    "text": ("text:text_report",),
    "lines": ("text:line_report",),
    "json": ("json:json_report",),
    "sarif": ("sarif:sarif_report", "pages"),
    "github": ("github:github_report",),
    "gitlab": ("gitlab:gitlab_report",),
    "junit": ("junit:junit_report", "failing"),
    "html": ("html:page",),
}


class Shown(Struct, frozen=True):
    """The output that is asked for.

    `form` is one of FORMATS, `output` the file to write, None for standard output, `bar` that of --fail-on. `docs_url`
    is where the pages of docs/ are, "" if nowhere. `statistics` asks for numbers by rule,
    `quiet` for no notes, `add_skips` for comments in the files instead of a report. `tables` is the form of --report.
    """

    form: str
    output: Path | None = None
    bar: str = "unsupported"
    docs_url: str = ""
    statistics: bool = False
    quiet: bool = False
    add_skips: bool = False
    tables: str | None = None

    @property
    def pages(self) -> str:
        """The address of the pages of docs/: `docs_url`, or the published one."""
        return self.docs_url or _published_docs()

    @property
    def failing(self) -> Collection[Enum]:
        """The kinds and severities of findings that make the check fail."""
        from gpu2npu.report.check.result import above

        return above(self.bar)


def show(result: CheckResult, shown: Shown) -> None:
    """Print the report in the form that is asked for, or write it. Text is coloured, and has code, on a terminal."""
    if shown.form == "text" and not shown.statistics and shown.output is None and sys.stdout.isatty():
        from rich.console import Console

        from gpu2npu.report.check.terminal import print_report

        print_report(result, Console(highlight=False))
    else:
        write(_report(result, shown), shown.output)


def _report(result: CheckResult, shown: Shown) -> str:
    if shown.statistics:
        from gpu2npu.report.check.statistics import statistics_json, statistics_of, statistics_text

        return (statistics_json if shown.form == "json" else statistics_text)(statistics_of(result))
    place, *options = FORMATS[shown.form]
    module, function = place.split(":")
    report: Callable[..., str] = getattr(import_module(f"gpu2npu.report.check.{module}"), function)
    return report(result, *(getattr(shown, option) for option in options))


def _published_docs() -> str:
    """The address of docs/ by the metadata of the installed gpu2npu (its URL "Documentation"); "" for none."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        urls: list[str] = metadata("gpu2npu").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from its sources
        return ""
    named = dict(url.split(", ", 1) for url in urls if ", " in url)
    return named.get("Documentation", "")


def write(text: str, output: Path | None) -> None:
    """Print a report, or write it to a file. Raises OutputError where it cannot be written."""
    write_bytes(text.encode("utf-8", "backslashreplace"), output)


def write_bytes(content: bytes, output: Path | None) -> None:
    """As `write`, for what is not text."""
    from gpu2npu.project.errors import OutputError
    from gpu2npu.project.tree.staging import write_atomically

    if output is None or str(output) == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        write_atomically(output, content)
    except OSError as error:
        raise OutputError(f"The report '{output}' could not be written: {error.strerror}.") from error
