"""A baseline: the losses, step times and memory of the migrated program in a file, for later runs to be held against.

The program is run several times, recorded as little as possible, so that it is known how far apart two runs of the same
program come to lie: nothing smaller than that is reported. Times are those of the process's CPUs where the NPU is
emulated, as another program on the machine changes those little, and by the clock on a real NPU.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpu2npu import __version__
from gpu2npu.verify.comparing.tolerance import EPS
from gpu2npu.verify.recording.records import Recording, RecordingError

FORMAT = "gpu2npu baseline"
VERSION = 1  # of the file; a reader refuses newer ones
_LEAST = 0.05  # share of a time or of memory below which nothing is reported, however alike the runs are
_LOSS = 8 * EPS["float32"]  # the same of a loss


@dataclass(frozen=True)
class Run:
    """One run: at each step the loss, the seconds it took, and the most bytes on the device until its end."""

    losses: tuple[float, ...]
    seconds: tuple[float, ...]
    memory: tuple[int, ...]

    @property
    def step_time(self) -> float:
        """The median time of a step, without the first one, which prepares much."""
        return statistics.median(self.seconds[1:] or self.seconds)


@dataclass(frozen=True)
class StoredRuns:
    """Several runs of one program: `command` on `device`, the name of a chip, which may be emulated."""

    device: str
    torch: str
    command: tuple[str, ...]
    runs: tuple[Run, ...]

    @property
    def step_time(self) -> float:
        """The median over the runs, in seconds."""
        return statistics.median(run.step_time for run in self.runs)

    @property
    def spread(self) -> float:
        """The distance of the slowest from the fastest run, as a share of the median."""
        times = [run.step_time for run in self.runs]
        return (max(times) - min(times)) / self.step_time if self.step_time else 0.0

    @property
    def memory(self) -> int:
        """The most bytes on the device, of all runs."""
        return max(max(run.memory, default=0) for run in self.runs)


@dataclass(frozen=True)
class RunChange:
    """One thing that changed: the "time" of a step in seconds, "memory" in bytes, or the "loss" from `step` on.

    `ratio` is `now` by `before`, and `noise` the largest share by which it may differ from 1 unreported.
    """

    what: str
    before: float
    now: float
    noise: float
    step: int | None = None

    @property
    def ratio(self) -> float:
        """By what the value was multiplied."""
        return self.now / self.before if self.before else float("inf")

    @property
    def sentence(self) -> str:
        """The change in words."""
        if self.what == "loss":
            step = (self.step or 0) + 1
            return f"From step {step} on the losses are other ones: {self.now:.8g}, and {self.before:.8g} before."
        if self.what == "memory":
            before, now = self.before / 1e6, self.now / 1e6
            return f"The most memory is {now:.1f} MB, {self.ratio:.2f} times the {before:.1f} MB before."
        word = "slower" if self.ratio > 1 else "faster"
        return f"A step is {word}: {self.ratio:.2f} times as long as before; runs differ by {self.noise:.0%}."


@dataclass(frozen=True)
class Against:
    """A program held against its baseline: what changed, and what could not be compared, in sentences."""

    changes: tuple[RunChange, ...]
    notes: tuple[str, ...]
    runs: int


def run_of(ranks: tuple[Recording, ...], emulated: bool) -> Run:
    """The run that the recordings of all ranks are of: loss and time of the first rank, memory of the largest."""
    first = ranks[0]
    losses = first.losses
    steps = range(len(first.seconds))
    memory = tuple(max(rank.memory[step] for rank in ranks if step < len(rank.memory)) for step in steps)
    return Run(
        tuple(losses.get(step, float("nan")) for step in steps), first.cpu if emulated else first.seconds, memory
    )


def against(before: StoredRuns, now: StoredRuns, rounding: Mapping[int, float]) -> Against:
    """Return what became slower, larger or different; rounding explains the share `rounding` of the loss of a step."""
    notes = []
    if before.command != now.command:
        notes.append(f"The baseline is of another command: {' '.join(before.command)}.")
    changes = [_loss(before, now, rounding)]
    if before.device == now.device:
        changes += [_time(before, now), _memory(before, now)]
    else:
        notes.append(f"The baseline was made on {before.device}: times and memory are not compared.")
    return Against(tuple(change for change in changes if change is not None), tuple(notes), len(before.runs))


def _loss(before: StoredRuns, now: StoredRuns, rounding: Mapping[int, float]) -> RunChange | None:
    """The first step with another loss, further away than runs of one program are from each other."""
    for step, values in enumerate(zip(*(run.losses for run in (*before.runs, *now.runs)), strict=False)):
        there, here = values[: len(before.runs)], values[len(before.runs) :]
        size = abs(there[0]) or 1.0
        noise = max(max(there) - min(there), max(here) - min(here)) / size + max(rounding.get(step, 0.0), _LOSS)
        if abs(here[0] - there[0]) / size > noise or (here[0] != here[0]) != (there[0] != there[0]):
            return RunChange("loss", there[0], here[0], noise, step)
    return None


def _time(before: StoredRuns, now: StoredRuns) -> RunChange | None:
    noise = max(before.spread + now.spread, _LEAST)
    return _reported(RunChange("time", before.step_time, now.step_time, noise))


def _memory(before: StoredRuns, now: StoredRuns) -> RunChange | None:
    return _reported(RunChange("memory", before.memory, now.memory, _LEAST)) if before.memory or now.memory else None


def _reported(change: RunChange) -> RunChange | None:
    return change if abs(change.ratio - 1) > change.noise else None


def write_baseline(file: Path, baseline: StoredRuns) -> None:
    """Write a baseline; to a file beside `file`, which then takes its name.

    Raises:
        OSError: The file cannot be written.
    """
    content = {"format": FORMAT, "version": VERSION, "gpu2npu": __version__, **asdict(baseline)}
    temporary = file.with_name(f".{file.name}.part")
    try:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def read_baseline(file: Path) -> StoredRuns:
    """Read a baseline.

    Raises:
        RecordingError: The file cannot be read, is none, is damaged, or is of a newer version.
    """
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        if fields["format"] != FORMAT:
            raise ValueError(f"its format is {fields['format']!r}")
        if fields["version"] > VERSION:
            raise RecordingError(f"{file} is of version {fields['version']}, and this gpu2npu reads up to {VERSION}")
        return _baseline(fields)
    except OSError as error:
        raise RecordingError(f"{file}: {error.strerror or error}") from None
    except RecordingError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise RecordingError(f"{file} is not a baseline of `gpu2npu verify`, or is damaged: {error}") from None


def _baseline(fields: dict[str, Any]) -> StoredRuns:
    runs = tuple(
        Run(tuple(map(float, run["losses"])), tuple(map(float, run["seconds"])), tuple(map(int, run["memory"])))
        for run in fields["runs"]
    )
    if not runs or not all(run.seconds for run in runs):
        raise ValueError("it holds no run")
    return StoredRuns(str(fields["device"]), str(fields["torch"]), tuple(map(str, fields["command"])), runs)
