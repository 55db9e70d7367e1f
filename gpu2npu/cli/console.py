"""The output of a migration: a progress bar and a table on a terminal, plain lines in a pipe.

Rich is loaded only for a terminal.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from gpu2npu.cli.language import say
from gpu2npu.language import message, sentence, shown
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.records import Outcome
from gpu2npu.report.summary import largest_causes, problem_lines, summary_rows
from gpu2npu.report.text import counted, one_line

if TYPE_CHECKING:
    from rich.progress import Progress as ProgressBar
    from rich.progress import TaskID

_PLAIN_LINES = 10  # how many progress lines a pipe gets at most
_FIRST_LINE = 5.0  # seconds before the first of them; each further one takes twice as long
_SECONDS_BETWEEN_DRAWINGS = 0.1
_PLANNING = message("Planning")
_COPYING = message("Copying")
_REMOVING = message("Removing")


@contextmanager
def progress_shown(quiet: bool, work: str = message("Migrating")) -> Iterator[Progress]:
    """Yields what to call with the number of files done and of all files. Shows on stderr; `work` labels the bar. A
    terminal on which another program shows stdout, as in `| less`, gets none."""
    if quiet or (sys.stderr.isatty() and _is_piped(sys.stdout)):
        yield no_progress
    elif sys.stderr.isatty():
        bar = _Bar(work)
        try:
            yield bar.show
        finally:
            bar.stop()
    else:
        yield PlainLines().show


def _is_piped(stream: TextIO) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


class PlainLines:
    """The progress of a run without a terminal: nothing for a short one, and a line now and then for a long one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._lines = 0

    def show(self, done: int, total: int, verb: str = "done") -> None:
        """Print a line where one is due."""
        due = _FIRST_LINE * 2**self._lines
        if self._lines < _PLAIN_LINES and self._clock() - self._started >= due:
            self._lines += 1
            say(sentence("{} of {} {}", done, counted(total, "file"), verb), err=True)


class _Bar:
    """One line for all of the work, drawn when it is updated: a thread for that would make it unsafe to fork."""

    def __init__(self, work: str) -> None:
        self._work = work
        self._bar: ProgressBar | None = None
        self._task: TaskID | None = None
        self._verb = ""
        self._drawn = 0.0

    def show(self, done: int, total: int, verb: str = "done") -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress as ProgressBar

            self._bar = ProgressBar(console=Console(stderr=True), transient=True, auto_refresh=False)
            self._bar.start()
        label = shown({"planned": _PLANNING, "copied": _COPYING, "removed": _REMOVING}.get(verb, self._work))
        if self._task is None:
            self._task = self._bar.add_task(label, total=total)
        now = time.monotonic()
        is_due = verb != self._verb or done == total or now - self._drawn >= _SECONDS_BETWEEN_DRAWINGS
        self._verb = verb
        self._bar.update(self._task, description=label, total=total, completed=done, refresh=is_due)
        if is_due:
            self._drawn = now

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def show_outcome(outcome: Outcome, place: str, stream: TextIO, quiet: bool, steps: Iterable[str] = ()) -> None:
    """Show failures on stderr; then, unless `quiet`, what was left out, the summary and next `steps` on `stream`."""
    for line, failed in problem_lines(outcome):
        if failed:
            say(f"Error: {line}", err=True)
        elif not quiet:
            say(f"Note: {line}", err=True)
    if quiet:
        return
    print(one_line(f"{outcome.name} -> {shown(place)}"), file=stream)
    if stream.isatty():
        _show_table(outcome, stream)
    else:
        for label, value in summary_rows(outcome):
            print(f"{shown(label)}: {value}", file=stream)
    for line in (*largest_causes(outcome), *steps):
        print(one_line(shown(line)), file=stream)


def _show_table(outcome: Outcome, stream: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False)
    table.add_column("what")
    table.add_column("number", justify="right")
    for label, value in summary_rows(outcome):
        table.add_row(shown(label), value)
    Console(file=stream).print(table)


def write_diff(diff: bytes, encoding: str) -> None:
    """Writes the diff of one file to stdout: its exact bytes into a pipe, coloured text on a terminal."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(diff)
        sys.stdout.buffer.flush()
        return
    import click

    colours = {"+": "green", "-": "red", "@": "cyan"}
    plain = bool(os.environ.get("NO_COLOR"))  # https://no-color.org
    header = 2
    for number, line in enumerate(diff.decode(encoding, "replace").split("\n")[:-1]):
        style = {"bold": True} if number < header else {"fg": colours.get(line[:1])}
        click.echo(line if plain else click.style(line, **style))
