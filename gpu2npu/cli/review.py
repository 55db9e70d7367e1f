"""`gpu2npu review`: a migration of which a person takes or leaves each change, written at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from gpu2npu.cli.file_options import chosen_settings, place_options, work_options
from gpu2npu.cli.language import say
from gpu2npu.cli.rules.options import rule_files
from gpu2npu.language import message, shown
from gpu2npu.project.migration import Hunk

_EPILOG = """\
\b
Keys:
  y, n        take this change, or leave it
  a, d        take, or leave, all further changes of this file
  A           take all further changes
  up, down    the change before this one, or the next
  q           end, and write nothing

\b
Examples:
  gpu2npu review -i resnet -o migrated -v 2.1.0    the output is written after the last answer
"""
_UP, _DOWN = "\x1b[A", "\x1b[B"


@click.command(epilog=_EPILOG)
@place_options(required=True)
@rule_files("rules")
@work_options
def review(
    source: Path,
    output: Path,
    version: str | None,
    torch_npu: str | None,
    rules: tuple[Path, ...],
    jobs: int | None,
    file_timeout: float,
    force: bool,
) -> int:
    """Migrate SRC into OUT/<name>_msft, and ask at each change whether to take it."""
    from gpu2npu.cli.console import progress_shown, show_outcome
    from gpu2npu.cli.migrate import EXIT_COMPLETE, EXIT_INCOMPLETE
    from gpu2npu.cli.signals import end_cleanly_on_signals
    from gpu2npu.project.location import Output
    from gpu2npu.project.migration import migrate_project
    from gpu2npu.project.settings import Settings
    from gpu2npu.report.summary import next_steps

    given = Settings(
        version=version or "", torch_npu=torch_npu or "", rules=rules, jobs=jobs, file_timeout=file_timeout
    )
    settings = chosen_settings(given, source)
    end_cleanly_on_signals()
    with progress_shown(not sys.stderr.isatty()) as progress:
        outcome, destination = migrate_project(
            source, settings, Output(output, force, "info", ()), progress, choose=lambda hunks: answers(hunks, _key)
        )
    show_outcome(outcome, str(destination), sys.stdout, False, next_steps(outcome, str(source), str(destination)))
    return EXIT_COMPLETE if outcome.complete else EXIT_INCOMPLETE


def _key() -> str:
    """A key that is pressed, or, without a terminal, a line that is read. Raises Abort at the end of input."""
    if sys.stdin.isatty():
        return click.getchar()
    line = sys.stdin.readline()
    if not line:
        raise click.Abort
    return line.strip()


def answers(hunks: Sequence[Hunk], key: Callable[[], str]) -> list[bool]:
    """Show each hunk and ask whether it is taken, until all are answered. Raises Abort where the person ends it."""
    taken: list[bool | None] = [None] * len(hunks)
    at = 0
    while None in taken:
        at = at if at < len(hunks) else taken.index(None)
        _show(hunks[at], at, len(hunks))
        pressed = key()
        if pressed in ("y", "n"):
            taken[at] = pressed == "y"
            at += 1
        elif pressed in ("a", "d", "A"):
            end = at
            while end < len(hunks) and (pressed == "A" or hunks[end].path == hunks[at].path):
                taken[end] = pressed != "d"
                end += 1
            at = end
        elif pressed in (_UP, "up"):
            at = max(at - 1, 0)
        elif pressed in (_DOWN, "down"):
            at += 1
        elif pressed in ("q", "\x03", "\x04"):
            raise click.Abort
    return [bool(each) for each in taken]


def _show(hunk: Hunk, at: int, number: int) -> None:
    click.secho(f"\n{hunk.path}:{hunk.start + 1}  ({at + 1}/{number})", bold=True)
    for sign, lines, colour in (
        (" ", hunk.context[0], None),
        ("-", hunk.before, "red"),
        ("+", hunk.after, "green"),
        (" ", hunk.context[1], None),
    ):
        for line in lines:
            click.secho(f"{sign}{line.rstrip()}", fg=colour)
    for change in hunk.changes:
        click.secho(f"  {change.rule}: {shown(change.message)}", dim=True)
    say(message("Take this change? y, n, a (all of this file), d (none of it), A (all), q (quit)"))
