"""Runs a verification for the command line: the two programs, what is shown of them, and the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path

import click

from gpu2npu.cli.language import say
from gpu2npu.cli.program_options import ReportOptions
from gpu2npu.cli.run import newest_release, note_release
from gpu2npu.cli.verify.text import Losses, show_against, show_changes_near, show_failure, show_verdict
from gpu2npu.emulator.launch import LaunchError
from gpu2npu.project.tree.discovery import listed
from gpu2npu.project.tree.mirror import read_files
from gpu2npu.report.webpage import verify_page
from gpu2npu.verify.baseline import StoredRuns, against, read_baseline, write_baseline
from gpu2npu.verify.commands import Commands, cards_of, commands
from gpu2npu.verify.comparing.compare import Comparison
from gpu2npu.verify.comparing.ranks import earliest
from gpu2npu.verify.document import document
from gpu2npu.verify.programs import FailedError, emulated, plain
from gpu2npu.verify.recording.records import RecordingError
from gpu2npu.verify.unplayed import Unplayed, unplayed
from gpu2npu.verify.verdict import Follower, Side, measure

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
    project: Path,
    command: tuple[str, ...],
    folder: Path,
    steps: int,
    gpus: int,
    shared: bool = False,
    evaluation: bool = False,
) -> Side:
    """The original program, on GPUs that are real or played."""
    return Side("the original", project, command, folder, steps, plain(), gpus, shared, evaluation)


def emulated_side(
    project: Path,
    command: tuple[str, ...],
    folder: Path,
    steps: int,
    soc: str,
    npus: int,
    shared: bool = False,
    evaluation: bool = False,
) -> Side:
    """The migrated program on emulated NPUs."""
    environment = emulated(npus, soc, newest_release())
    note_release(project, newest_release())
    return Side("the migrated program", project, command, folder, steps, environment, 0, shared, evaluation)


def real_side(
    project: Path, command: tuple[str, ...], folder: Path, steps: int, shared: bool = False, evaluation: bool = False
) -> Side:
    """The migrated program on the NPUs of this machine."""
    return Side("the migrated program", project, command, folder, steps, plain(), 0, shared, evaluation)


def missing_of(project: Path, cards: int) -> tuple[Unplayed, ...]:
    """Say what the CPU cannot play of a program, before it runs; nothing where PyTorch has a GPU."""
    torch = find_spec("torch")
    version = run_path(str(Path(torch.origin).with_name("version.py"))) if torch and torch.origin else {}
    if version.get("cuda") or version.get("hip"):  # to import PyTorch takes seconds
        return ()
    sources, _ = read_files(project, listed(project).python)
    found = unplayed(project, sources, cards)
    for each in found:
        say(f"Note: {each.sentence}.", err=True)
    return found


def shown(
    run: Callable[[Follower], tuple[Comparison, ...]],
    original: Path | None,
    migrated: Side,
    report: ReportOptions,
    then: Callable[[Comparison], Comparison] = lambda comparison: comparison,
    missing: tuple[Unplayed, ...] = (),
) -> int:
    """Run a verification and show it; the exit code. `original` is the folder of its code, where that is there.

    `then` may add to the comparison, before anything is shown of it. `missing` is what the CPU cannot play of
    the original.
    """
    copy, steps = migrated.project, migrated.steps
    with failures_shown(copy, missing), Losses(steps, sys.stderr if report.form == "json" else sys.stdout) as losses:
        before = read_baseline(report.baseline) if report.baseline and not report.update_baseline else None
        comparison = then(earliest(run(losses)))
        now = measure(migrated) if report.baseline and (before or comparison.first is None) else None
    held = against(before, now, comparison.loss_tolerances) if before and now else None
    result = document(comparison, original, copy, held, missing)
    if report.html is not None:
        _write(
            "--html", report.html, lambda file: file.write_text(verify_page(result, (original or copy).name), "utf-8")
        )
    if report.table is not None:
        from gpu2npu.report.frames import frame_of_verification, write_frame

        table = frame_of_verification(result)
        _write("--table", report.table, lambda file: write_frame(table, file))
    if report.form == "json":
        click.echo(json.dumps(result, indent=1))
    else:
        show_verdict(comparison, copy)
        show_against(held)
    if report.update_baseline and report.baseline:
        _update(report.baseline, now)
    return EXIT_DIVERGED if comparison.differences else EXIT_SAME


def _update(file: Path, baseline: StoredRuns | None) -> None:
    if baseline is None:
        say(f"Note: {file} is not written, since the programs diverge.", err=True)
        return
    _write("--baseline", file, lambda file: write_baseline(file, baseline))
    say(f"Baseline of {len(baseline.runs)} runs: {file}.", err=True)


@contextmanager
def failures_shown(project: Path, missing: tuple[Unplayed, ...] = ()) -> Iterator[None]:
    """End with an exit code and words where a program cannot be run, fails, or does nothing to compare.

    `missing` is what the CPU cannot play of the original: where that fails, no change of the copy is to be looked at.
    """
    try:
        yield
    except FailedError as error:
        show_failure(error)
        if not (missing and error.program.is_played):
            show_changes_near(error, project)
        sys.exit(EXIT_FAILED)
    except LaunchError as error:
        raise click.UsageError(f"{error}.") from None
    except RecordingError as error:
        say(f"Error: {error}.", err=True)
        sys.exit(EXIT_FAILED)


def _write(option: str, file: Path, write: Callable[[Path], object]) -> None:
    try:
        write(file)
    except OSError as error:
        raise click.UsageError(f"{option} {file}: {error.strerror}.") from None
