"""The text that `gpu2npu verify` shows on a terminal or in a pipe: the losses as they come, and the verdict."""

from __future__ import annotations

import re
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

import click

from gpu2npu.cli.language import say
from gpu2npu.language import message, sentence, shown
from gpu2npu.report.text import of_place
from gpu2npu.report.webpage import COMPUTED
from gpu2npu.verify.baseline import Against
from gpu2npu.verify.comparing.causes import explain
from gpu2npu.verify.comparing.changes import CHANGE_LIST, read_changes, touching
from gpu2npu.verify.comparing.compare import Comparison
from gpu2npu.verify.programs import FailedError
from gpu2npu.verify.recording.records import RecordedEvent, Stack

if TYPE_CHECKING:
    from rich.progress import Progress

_ROWS = 5
_SILENCE = 9  # seconds after which a pipe is told how far the phase is


class Losses:
    """One line a step with both losses, each phase as it begins, and on a terminal a progress bar below them.

    Without a terminal, a line now and then shows how far the phase is, whatever this process is busy with.
    """

    def __init__(self, steps: int, stream: TextIO | None = None) -> None:
        self._steps = steps
        self._stream = stream or sys.stdout
        self._shown = 0
        self._bar: Progress | None = None
        self._phase = ""
        self._made = 0
        self._began = self._told = time.monotonic()
        self._ended = threading.Event()

    def __enter__(self) -> Losses:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._bar.add_task(shown(message("Verifying")), total=self._steps)
            self._bar.start()
        else:
            threading.Thread(target=self._report, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._bar is not None:
            self._bar.stop()

    def begin(self, phase: str) -> None:
        """Say which phase begins."""
        self._phase, self._began = phase, time.monotonic()
        self._line(shown(f"{phase}."), sys.stderr)
        self.made(0)

    def show(self, original: dict[int, float], migrated: dict[int, float] | None = None) -> None:
        """Show the steps that both programs, or the original alone, have made since the last call."""
        while self._shown in original and (migrated is None or self._shown in migrated):
            number, here = f"{self._shown + 1:>3}", f"{original[self._shown]:.8g}"
            if migrated is None:
                self._line(sentence("step {}  {}", number, here), self._stream)
            else:
                there = f"{migrated[self._shown]:.8g}"
                self._line(shown(f"step {number}  original {here}  migrated {there}"), self._stream)
            self._shown += 1
        self.made(self._shown)

    def made(self, steps: int) -> None:
        """Show how far the phase is."""
        self._made = steps
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=steps)

    def _report(self) -> None:
        """Write how far the phase is after each silence."""
        while not self._ended.wait(max(0.1, self._told + _SILENCE - time.monotonic())):
            if self._phase and time.monotonic() - self._told >= _SILENCE:
                seconds = round(time.monotonic() - self._began)
                self._line(shown(f"{self._phase}: {self._made} of {self._steps} steps, {seconds} s."), sys.stderr)

    def _line(self, text: str, stream: TextIO) -> None:
        """Write a line: above the bar where both are on a terminal."""
        self._told = time.monotonic()
        if self._bar is not None and stream.isatty():
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(text, stream)


def show_verdict(comparison: Comparison, copy: Path) -> None:
    """The verdict in at most five lines."""
    first, explanation = comparison.first, explain(comparison)
    if first is None or explanation is None:
        _show_same(comparison)
        return
    event = first.event
    module = explanation.module or "the training loop"
    rank = f" of rank {comparison.migrated.rank}" if comparison.migrated.world > 1 else ""
    say(f"Diverged at step {event.step + 1}{rank} in {module}: {explanation.cause.value}.")
    what = of_place(event.kind, event.name)
    differs = sentence("{}: {}; {}.", what[0].upper() + what[1:], first.message, explanation.sentence)
    largest = next((each.sentence for each in comparison.elements if each.event.key == event.key), "")
    most = f" {shown(f'The element that differs most: {largest}.')}" if largest else ""
    say(differs + most)
    places = (_place(message("original"), first.original), _place(message("migrated"), first.migrated))
    say("; ".join(filter(None, places)) or "No line of the project is being executed there.")
    operators = comparison.migrated.operators.get(explanation.module or "", ())
    if operators:
        listed = ", ".join(f"{name} ({shown(COMPUTED[kind])})" for name, kind in operators)
        say(f"Operators of {explanation.module} on the NPU: {listed}.")
    rows = touching(read_changes(copy), event.stack)
    if rows:
        nearest = rows[0]
        numbers = ", ".join(str(row.number) for row in rows[:_ROWS])
        values = (numbers, nearest.path, nearest.start, nearest.message)
        if len(rows) == 1:
            say(sentence("change_list.csv, row {}: {}, line {}: {}", *values))
        else:
            say(sentence("change_list.csv, rows {}: {}, line {}: {}", *values))
    if {*comparison.migrated.reduced} != {*comparison.coarse}:
        _show_hf32(comparison)
    _show_releases(comparison)
    _show_compile(comparison)
    _show_behaviour(comparison)


def _show_releases(comparison: Comparison) -> None:
    """Say where the original was recorded with another release of PyTorch: operators may compute otherwise there."""
    there, here = (each.torch.partition("+")[0] for each in (comparison.original, comparison.migrated))
    if there != here:
        say(f"The original ran with PyTorch {there}, and the migrated program with {here}.")


def _show_compile(comparison: Comparison) -> None:
    if comparison.compile_switched_off:
        say("torch.compile is refused here, as neither device has a compiler: both ran without it.")


def _show_behaviour(comparison: Comparison) -> None:
    """Say which rows of the table of behaviour the migrated program met."""
    rows = comparison.migrated.behaviour
    if rows:
        listed = ", ".join(f"{row} ({count})" for row, count in sorted(rows.items()))
        say(f"Calls that the NPU computes otherwise, by row: {listed}; gpu2npu rules explain {min(rows)}.")


def show_against(held: Against | None) -> None:
    """The changes since the baseline, a line for each."""
    if held is None:
        return
    for each in (*held.notes, *(change.sentence for change in held.changes)):
        say(f"Baseline: {each}")
    if not held.changes:
        say(f"Baseline: nothing is slower, larger or different than in {held.runs} runs before.")


def _show_same(comparison: Comparison) -> None:
    worst = max(comparison.measured, key=lambda each: each.units, default=None)
    say(f"The same: {comparison.steps} steps, {len(comparison.measured)} places compared.")
    if worst is not None:
        event = worst.original
        values = (f"{worst.units:.2f}", of_place(event.kind, event.name), event.step + 1)
        say(sentence("The largest difference is {} of what rounding explains: {}, step {}.", *values))
    _show_hf32(comparison)
    _show_releases(comparison)
    _show_compile(comparison)
    _show_behaviour(comparison)


def _show_hf32(comparison: Comparison) -> None:
    """Say for which operators the NPU takes HF32, and where the tolerance is for something else."""
    taken, included = {*comparison.migrated.reduced}, {*comparison.coarse}
    if taken & included:
        say(f"The NPU takes HF32 for {' and '.join(sorted(taken & included))}: the tolerance includes it.")
    for family in sorted(taken - included):
        say(f"The NPU takes HF32 for {family}, which the tolerance does not include: record with --hf32 {family}.")
    for family in sorted(included - taken):
        say(f"The tolerance includes HF32 for {family}, which the NPU does not take: record without it.")


def _place(side: str, event: RecordedEvent | None) -> str:
    if event is None or not event.stack:
        return ""
    path, line = event.stack[0]
    return sentence("{}: {}, line {}", side, path, line)


def show_failure(error: FailedError) -> None:
    """The traceback of the program that failed."""
    click.echo(error.stderr, err=True)
    say(f"Error: {error}.", err=True)


def show_changes_near(error: FailedError, copy: Path) -> None:
    """The changes near the lines of a traceback."""
    changes = touching(read_changes(copy), _stack(error))
    for row in changes[:_ROWS]:
        say(f"{CHANGE_LIST}, row {row.number}: {row.path}, line {row.start}: {row.message}", err=True)


def _stack(error: FailedError) -> Stack:
    """The project's lines in a traceback, the innermost first."""
    pattern = re.compile(rf'File "{re.escape(str(error.program.workplace))}/(.+)", line (\d+)')
    return tuple((path, int(line)) for path, line in reversed(pattern.findall(error.stderr)))
