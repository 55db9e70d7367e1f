"""Verifications: which programs run, in what order, and what is compared with what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path

from gpu2npu.verify.comparing.compare import Comparison
from gpu2npu.verify.comparing.ranks import compare_ranks
from gpu2npu.verify.comparing.tolerance import Tolerance, measured
from gpu2npu.verify.programs import Program, Running, start
from gpu2npu.verify.recording.environment import Settings
from gpu2npu.verify.recording.records import Recording, RecordingError, read_recordings

Progress = Callable[[dict[int, float], dict[int, float]], None]
_ROUNDING_SEEDS = (1, 2, 3)  # of as many runs that round otherwise
_POLL = 0.5  # seconds between two looks at what was recorded


@dataclass(frozen=True)
class Side:
    """One of the two programs. It runs in copies of `project`, which `folder` holds with all that is recorded.

    `gpus` is how many GPUs are played for it where there are none, 0 for a program on NPUs. `shared`: one process of
    the original is compared with several ranks.
    """

    title: str
    project: Path
    command: tuple[str, ...]
    folder: Path
    steps: int
    environment: Mapping[str, str]
    gpus: int = 0
    shared: bool = False

    def program(self) -> Program:
        """The program as it is."""
        return self._program("plain", self.title, 0, ())

    def rounding(self, coarse: tuple[str, ...]) -> list[Program]:
        """The program with every operator rounding otherwise, and as coarsely as HF32 in the families `coarse`."""
        title = f"{self.title}, rounding otherwise,"
        return [self._program(f"rounding-{seed}", title, seed, coarse) for seed in _ROUNDING_SEEDS]

    def _program(self, run: str, title: str, seed: int, coarse: tuple[str, ...]) -> Program:
        folder = self.folder / run
        place = folder / self.project.name
        settings = Settings(folder / "recording", place, self.steps, self.gpus, seed, coarse, self.shared)
        return Program(title, self.project, self.command, folder, settings, self.environment)


@dataclass(frozen=True)
class Reference:
    """The recording of each rank of the original, how far apart rounding alone brings it, and the GPUs there were."""

    ranks: tuple[tuple[Recording, Tolerance], ...]
    steps: int
    gpus: int = 1


def verify(original: Side, migrated: Side, progress: Progress) -> tuple[Comparison, ...]:
    """Run the original and the migrated program, and the original again rounding otherwise; compare rank by rank.

    Raises:
        FailedError: A program ended otherwise than with 0.
        LaunchError: A command does not exist.
        RecordingError: A program made no optimizer step.
    """
    there, here = start(original.program()), start(migrated.program())
    _watch([there, here], lambda: progress(there.losses(), here.losses()))
    reference, copy = recorded(there.program), recorded(here.program)
    return compare_ranks(_measured(original, reference, copy[0].reduced), copy)


def record(original: Side, coarse: tuple[str, ...], progress: Progress) -> Reference:
    """Run the original alone, and again rounding otherwise. Raises as `verify` does."""
    running = start(original.program())
    _watch([running], lambda: progress(running.losses(), running.losses()))
    reference = recorded(running.program)
    families = tuple(sorted({*coarse, *reference[0].reduced}))
    return Reference(_measured(original, reference, families), original.steps, original.gpus)


def compare_with(reference: Reference, migrated: Side, progress: Progress) -> tuple[Comparison, ...]:
    """Run the migrated program and compare it with what the original did. Raises as `verify` does."""
    running = start(migrated.program())
    losses = reference.ranks[0][0].losses
    _watch([running], lambda: progress(losses, running.losses()))
    copy = recorded(running.program)
    return compare_ranks(reference.ranks, copy)


def recorded(program: Program) -> tuple[Recording, ...]:
    """Read the recordings of a program that has ended, by rank.

    Raises:
        RecordingError: It made no optimizer step.
    """
    recordings = read_recordings(program.settings.folder)
    if not recordings:
        raise RecordingError(f"{program.title} made no optimizer step: there is nothing to compare")
    return recordings if recordings[0].world > 1 else recordings[:1]


def _measured(
    original: Side, reference: tuple[Recording, ...], coarse: tuple[str, ...]
) -> tuple[tuple[Recording, Tolerance], ...]:
    """The recording of each rank with the tolerance that runs show which round otherwise."""
    running = [start(program) for program in original.rounding(coarse)]
    _watch(running, lambda: None)
    rounded = zip(*(recorded(each.program) for each in running), strict=True)
    return tuple((one, measured(one, others, coarse)) for one, others in zip(reference, rounded, strict=True))


def _watch(running: list[Running], look: Callable[[], None]) -> None:
    """Wait for programs to end, looking now and then at what they have recorded. If one fails, the others are ended."""
    with futures.ThreadPoolExecutor(len(running)) as pool:
        waits = [pool.submit(each.wait) for each in running]
        try:
            while not all(wait.done() for wait in waits):
                for wait in waits:
                    if wait.done():
                        wait.result()
                look()
                futures.wait(waits, timeout=_POLL, return_when=futures.FIRST_EXCEPTION)
            for wait in waits:
                wait.result()
        finally:
            for each in running:
                each.end()
    look()
