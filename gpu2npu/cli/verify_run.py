"""Runs a verification for the command line: the two programs, what is shown of them, and the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gpu2npu.cli.run import newest_release
from gpu2npu.cli.verify_text import Losses, show_failure, show_verdict
from gpu2npu.emulator.launch import LaunchError
from gpu2npu.report.verify_page import verify_page
from gpu2npu.verify.commands import Commands, cards_of, commands
from gpu2npu.verify.comparing.compare import Comparison
from gpu2npu.verify.comparing.ranks import earliest
from gpu2npu.verify.document import document
from gpu2npu.verify.programs import FailedError, emulated, plain
from gpu2npu.verify.recording.records import RecordingError
from gpu2npu.verify.verdict import Progress, Side

EXIT_SAME, EXIT_DIVERGED, EXIT_FAILED = 0, 1, 3


def commands_of(command: tuple[str, ...], copy: Path, cards: int | None) -> tuple[Commands, int]:
    """The commands of the two programs, and the number of their cards.

    Raises:
        click.UsageError: The command is the launcher alone.
    """
    number = cards or cards_of(command)
    try:
        return commands(command, copy, number), number
    except LaunchError as error:
        raise click.UsageError(f"{error}.") from None


def original_side(
    project: Path, command: tuple[str, ...], folder: Path, steps: int, gpus: int, shared: bool = False
) -> Side:
    """The original program, on GPUs that are real or played."""
    return Side("the original", project, command, folder, steps, plain(), gpus, shared)


def emulated_side(
    project: Path, command: tuple[str, ...], folder: Path, steps: int, soc: str, npus: int, shared: bool = False
) -> Side:
    """The migrated program on emulated NPUs."""
    environment = emulated(npus, soc, newest_release())
    return Side("the migrated program", project, command, folder, steps, environment, shared=shared)


def real_side(project: Path, command: tuple[str, ...], folder: Path, steps: int, shared: bool = False) -> Side:
    """The migrated program on the NPUs of this machine."""
    return Side("the migrated program", project, command, folder, steps, plain(), shared=shared)


def shown(
    run: Callable[[Progress], tuple[Comparison, ...]],
    original: Path | None,
    migrated: Path,
    steps: int,
    html: Path | None,
    form: str,
) -> int:
    """Run a verification and show it; the exit code. `original` is the folder of its code, where that is there."""
    with failures_shown(migrated), Losses(steps, sys.stderr if form == "json" else sys.stdout) as losses:
        comparisons = run(losses.show)
    comparison = earliest(comparisons)
    result = document(comparison, original, migrated)
    if html is not None:
        _write_page(html, verify_page(result, (original or migrated).name))
    if form == "json":
        click.echo(json.dumps(result, indent=1))
    else:
        show_verdict(comparison, migrated)
    return EXIT_DIVERGED if comparison.differences else EXIT_SAME


@contextmanager
def failures_shown(project: Path) -> Iterator[None]:
    """End with an exit code and words where a program cannot be run, fails, or does nothing to compare."""
    try:
        yield
    except FailedError as error:
        show_failure(error, project)
        sys.exit(EXIT_FAILED)
    except LaunchError as error:
        raise click.UsageError(f"{error}.") from None
    except RecordingError as error:
        click.echo(f"Error: {error}.", err=True)
        sys.exit(EXIT_FAILED)


def _write_page(html: Path, page: str) -> None:
    try:
        html.write_text(page, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"--html {html}: {error.strerror}.") from None
