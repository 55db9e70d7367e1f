"""Verifications: which programs run, in what order, and what is compared with what."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping
from concurrent import futures
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gpu2npu.verify.baseline import StoredRuns, run_of
from gpu2npu.verify.comparing.compare import Comparison
from gpu2npu.verify.comparing.ranks import compare_ranks
from gpu2npu.verify.comparing.tolerance import Tolerance, measured
from gpu2npu.verify.comparing.whole import differing, events_near, listed, whole_of
from gpu2npu.verify.programs import FailedError, RecordedProgram, Running, start
from gpu2npu.verify.recording.environment import RecordingSettings
from gpu2npu.verify.recording.records import Key, Recording, RecordingError, read_recordings

Array = np.ndarray[Any, Any]
Ranks = tuple[tuple[Recording, Tolerance], ...]
_ROUNDING_SEEDS = (1, 2, 3)  # of as many runs that round otherwise, at most
_NEAR = 0.5  # errors in units of the tolerance of one such run, up to which others are not needed
_BRIEF_RUNS = 3  # of as many runs the times are taken
_MOST = 1 << 30  # bytes of the tensors of a step that a reference holds
_NO_STEP = "Give a command that trains; one that does not, run in the copy by `gpu2npu run` and compare what it prints"
_POLL = 0.5  # seconds between two looks at what was recorded


class Follower(Protocol):
    """A listener to a verification as it goes on."""

    def begin(self, phase: str) -> None:
        """A phase begins, which is called so."""

    def show(self, original: dict[int, float], migrated: dict[int, float] | None = None) -> None:
        """The losses of the steps that both programs, or the original alone, have made until now."""

    def made(self, steps: int) -> None:
        """The steps that the runs of this phase have made."""


@dataclass(frozen=True)
class Side:
    """One of the two programs. It runs in copies of `project`, which `folder` holds with all that is recorded.

    `gpus` is how many GPUs are played for it where there are none, 0 for a program on NPUs. `shared`: one process of
    the original is compared with several ranks. `evaluation`: modules are recorded within a call for which no gradient
    is computed too.
    """

    title: str
    project: Path
    command: tuple[str, ...]
    folder: Path
    steps: int
    environment: Mapping[str, str]
    gpus: int = 0
    shared: bool = False
    evaluation: bool = False

    @property
    def is_emulated(self) -> bool:
        """Return whether its NPUs are emulated."""
        return "GPU2NPU_NPUS" in self.environment

    def program(self) -> RecordedProgram:
        """The program as it is."""
        return self._program("plain", self.title)

    def rounding(self, seed: int, coarse: tuple[str, ...]) -> RecordedProgram:
        """The program with every operator rounding otherwise, and as coarsely as HF32 in the families `coarse`."""
        return self._program(f"rounding-{seed}", f"{self.title}, rounding otherwise,", rounding=seed, coarse=coarse)

    def measured(self) -> list[RecordedProgram]:
        """The program several times, recorded as little as possible: for its times."""
        return [self._program(f"brief-{number}", self.title, brief=True) for number in range(_BRIEF_RUNS)]

    def dumping(self, step: int, folder: Path) -> RecordedProgram:
        """The program until a step, counted from 0, which is dumped into a folder as mindstudio-probe does."""
        return self._program("dump", self.title, steps=step + 1, dump=folder.absolute())

    def writing_whole(self, steps: int) -> RecordedProgram:
        """The program until a step, recorded with the whole tensors of the places that `whole_places` lists."""
        return self._program("whole", self.title, steps=steps, whole=self.whole_places.absolute())

    @property
    def whole_places(self) -> Path:
        """The file that lists the places whose tensors a second run writes whole."""
        return self.folder / "whole.json"

    def _program(self, run: str, title: str, **settings: Any) -> RecordedProgram:
        folder = self.folder / run
        copy, evaluation = folder / self.project.name, self.evaluation
        wanted = RecordingSettings(
            folder / "recording", copy, self.steps, self.gpus, shared=self.shared, evaluation=evaluation
        )
        return RecordedProgram(title, self.project, self.command, folder, replace(wanted, **settings), self.environment)


@dataclass(frozen=True)
class ReferenceRun:
    """The recording of each rank of the original, how far apart rounding alone brings it, and the GPUs there were.

    `whole` are the tensors of one step of each rank as they are, by their place; empty where none were asked for.
    `evaluation` is as of the `Side`.
    """

    ranks: Ranks
    steps: int
    gpus: int = 1
    whole: tuple[Mapping[Key, Array], ...] = ()
    evaluation: bool = False


def verify(original: Side, migrated: Side, progress: Follower) -> tuple[Comparison, ...]:
    """Run the original and the migrated program, and the original again rounding otherwise; compare rank by rank.

    Raises:
        FailedError: A program ended otherwise than with 0.
        LaunchError: A command does not exist.
        RecordingError: A program made no optimizer step.
    """
    there, here = start(original.program()), start(migrated.program())
    progress.begin("Both programs start and import PyTorch")
    begin = partial(progress.begin, "Both programs run until they have made the steps")
    _watch([there, here], lambda: progress.show(there.losses(), here.losses()), begin)
    reference, copy = recorded(there.program), recorded(here.program)
    coarse = copy[0].reduced
    rounded: list[tuple[Recording, ...]] = []
    for seed in _ROUNDING_SEEDS:
        progress.begin(f"The original runs again, rounding otherwise, {seed} of at most {len(_ROUNDING_SEEDS)} times")
        rounded += _rounded(original, (seed,), coarse, progress)
        comparisons = compare_ranks(_measured(reference, rounded, coarse), copy, original.shared)
        if all(map(_is_clear, comparisons)):
            break
    return comparisons


def _is_clear(comparison: Comparison) -> bool:
    """Return whether nothing came near the tolerance, so that more runs would show no more."""
    return comparison.first is None and all(each.units <= _NEAR for each in comparison.measured)


def record(original: Side, coarse: tuple[str, ...], progress: Follower, tensors: int | None = None) -> ReferenceRun:
    """Run the original alone, and again rounding otherwise, and for the whole `tensors` of a step, counted from 0.

    Raises as `verify` does.
    """
    running = start(original.program())
    progress.begin("The original starts and imports PyTorch")
    begin = partial(progress.begin, "The original runs until it has made the steps")
    _watch([running], lambda: progress.show(running.losses()), begin)
    reference = recorded(running.program)
    families = tuple(sorted({*coarse, *reference[0].reduced}))
    whole = () if tensors is None else _whole_step(original, reference, tensors)
    progress.begin("The original runs three times more, rounding otherwise")
    rounded = _rounded(original, _ROUNDING_SEEDS, families, progress)
    ranks = _measured(reference, rounded, families)
    return ReferenceRun(ranks, original.steps, original.gpus, whole, original.evaluation)


def _whole_step(original: Side, reference: tuple[Recording, ...], step: int) -> tuple[Mapping[Key, Array], ...]:
    """Run the original once more until a step, for all its tensors there, of each rank."""
    events = [event for rank in reference for event in rank.events if event.step == step and event.tensor is not None]
    size = sum(4 * math.prod(event.tensor.shape) for event in events if event.tensor is not None)
    if size > _MOST:
        raise RecordingError(f"the tensors of step {step + 1} take {size / 1e9:.1f} GB, and a file holds 1 GB of them")
    keys = list(dict.fromkeys(event.key for event in events))
    original.whole_places.write_text(json.dumps(list(enumerate(keys))), encoding="utf-8")
    running = start(original.writing_whole(min(step + 2, original.steps)))
    _watch([running], lambda: None)
    found = (whole_of(running.program.settings.folder, rank.rank) for rank in reference)
    return tuple({keys[number]: array for number, array in sorted(arrays.items())} for arrays in found)


def compare_with(reference: ReferenceRun, migrated: Side, progress: Follower) -> tuple[Comparison, ...]:
    """Run the migrated program and compare it with what the original did. Raises as `verify` does."""
    running = start(migrated.program())
    progress.begin("The migrated program starts and imports PyTorch")
    losses = reference.ranks[0][0].losses
    begin = partial(progress.begin, "The migrated program runs until it has made the steps")
    _watch([running], lambda: progress.show(losses, running.losses()), begin)
    copy = recorded(running.program)
    return compare_ranks(reference.ranks, copy, migrated.shared)


def measure(migrated: Side) -> StoredRuns:
    """Run the migrated program several times, one after the other, for its losses, times and memory."""
    runs = []
    for program in migrated.measured():
        running = start(program)
        _watch([running], lambda: None)
        ranks = recorded(program)
        runs.append(run_of(ranks, migrated.is_emulated))
    device = f"the emulated {ranks[0].chip}" if migrated.is_emulated else ranks[0].chip
    return StoredRuns(device, ranks[0].torch, migrated.command, tuple(runs))


def with_elements(original: Side, migrated: Side, comparison: Comparison) -> Comparison:
    """Run both once more until the first divergence, for the whole tensors near it: the elements that differ most.

    The comparison is as before where there is no divergence, or where a program fails that did not the first time.
    """
    folders = _written_whole((original, migrated), comparison)
    if not folders:
        return comparison
    there = whole_of(folders[0], comparison.original.rank)
    here = whole_of(folders[1], comparison.migrated.rank)
    return replace(comparison, elements=differing(events_near(comparison), there, here))


def with_stored_elements(reference: ReferenceRun, migrated: Side, comparison: Comparison) -> Comparison:
    """Do the same with the tensors of a reference, which holds those of one step, or none."""
    events, rank = events_near(comparison), comparison.migrated.rank
    whole = reference.whole[rank if len(reference.whole) > 1 else 0] if reference.whole else {}
    there = {number: whole[key] for number, key in listed(events, rank) if key in whole}
    folders = _written_whole((migrated,), comparison) if there else ()
    if not folders:
        return comparison
    return replace(comparison, elements=differing(events, there, whole_of(folders[0], rank)))


def _written_whole(sides: tuple[Side, ...], comparison: Comparison) -> tuple[Path, ...]:
    """Run programs until the first divergence, for the tensors near it: the folder of each, none where one fails."""
    if comparison.first is None:
        return ()
    events = events_near(comparison)
    steps = min(comparison.first.event.step + 2, comparison.steps)  # one more, after which a checkpoint is written
    for side in sides:
        card = comparison.migrated.rank if side.gpus and side.shared else None
        side.whole_places.write_text(json.dumps(listed(events, card)), encoding="utf-8")
    running = [start(side.writing_whole(steps)) for side in sides]
    try:
        _watch(running, lambda: None)
    except (FailedError, RecordingError):
        return ()
    return tuple(each.program.settings.folder for each in running)


def dump(original: Side, migrated: Side, comparison: Comparison, folder: Path) -> None:
    """Dump the step at which two programs diverge, or the first one, of both into a folder that mindstudio-probe reads.

    The folder appears when it is complete: it holds `original` and `migrated`, each with a folder for the step.
    """
    step = min(comparison.first.event.step, comparison.steps - 1) if comparison.first is not None else 0
    temporary = folder.with_name(f".{folder.name}.part")
    running = [
        start(original.dumping(step, temporary / "original")),
        start(migrated.dumping(step, temporary / "migrated")),
    ]
    try:
        _watch(running, lambda: None)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def recorded(program: RecordedProgram) -> tuple[Recording, ...]:
    """Read the recordings of a program that has ended, by rank.

    Raises:
        RecordingError: It made no optimizer step.
    """
    recordings = read_recordings(program.settings.folder)
    if not recordings:
        raise RecordingError(f"{program.title} made no optimizer step: there is nothing to compare. {_NO_STEP}")
    return recordings if recordings[0].world > 1 else recordings[:1]


def _rounded(
    original: Side, seeds: tuple[int, ...], coarse: tuple[str, ...], progress: Follower
) -> list[tuple[Recording, ...]]:
    """Run the original with other rounding for each seed, at once; the recording of each rank."""
    running = [start(original.rounding(seed, coarse)) for seed in seeds]
    _watch(running, lambda: progress.made(min(len(each.losses()) for each in running)))
    return [recorded(each.program) for each in running]


def _measured(reference: tuple[Recording, ...], rounded: list[tuple[Recording, ...]], coarse: tuple[str, ...]) -> Ranks:
    """The recording of each rank with the tolerance that runs show which round otherwise."""
    ranks = zip(*rounded, strict=True)
    return tuple((one, measured(one, others, coarse)) for one, others in zip(reference, ranks, strict=True))


def _watch(running: list[Running], look: Callable[[], None], begin: Callable[[], None] | None = None) -> None:
    """Wait for programs to end, looking now and then at what they have recorded. If one fails, the others are ended.

    `begin` is called when all have imported PyTorch.
    """
    with futures.ThreadPoolExecutor(len(running)) as pool:
        waits = [pool.submit(each.wait) for each in running]
        try:
            while not all(wait.done() for wait in waits):
                for wait in waits:
                    if wait.done():
                        wait.result()
                if begin is not None and all(each.is_recorded() for each in running):
                    begin()
                    begin = None
                look()
                futures.wait(waits, timeout=_POLL, return_when=futures.FIRST_EXCEPTION)
            for wait in waits:
                wait.result()
        finally:
            for each in running:
                each.end()
    look()
