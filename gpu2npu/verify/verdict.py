"""One verification: both programs run, and what the comparison says."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, replace
from pathlib import Path

from gpu2npu.verify.comparing.compare import Comparison, compare
from gpu2npu.verify.comparing.tolerance import Tolerance, measured
from gpu2npu.verify.programs import Program, Running, emulated, played, start
from gpu2npu.verify.recording.environment import Settings
from gpu2npu.verify.recording.records import Recording, RecordingError, read_recordings

Progress = Callable[[dict[int, float], dict[int, float]], None]
_ROUNDING_SEEDS = (1, 2, 3)  # of as many runs that round otherwise
_CARDS = 1  # GPUs of the original and NPUs of the migrated program
_POLL = 0.5  # seconds between two looks at what was recorded


@dataclass(frozen=True)
class Task:
    """What to verify: the project and its migrated copy, the command of each, and where everything is written."""

    original: Path
    migrated: Path
    original_command: tuple[str, ...]
    migrated_command: tuple[str, ...]
    folder: Path
    steps: int
    soc: str
    torch_npu: str


def verify(task: Task, progress: Progress) -> Comparison:
    """Run the original and the migrated program, and the original once more rounding otherwise; compare.

    Raises:
        FailedError: A program ended otherwise than with 0.
        LaunchError: A command does not exist.
        RecordingError: A program made no optimizer step.
    """
    original = start(_original(task, "reference"))
    migrated = start(_migrated(task))
    _watch([original, migrated], original, migrated, progress)
    copy = _recorded(migrated.program)
    rounded = [start(program) for program in _rounding(task, copy.hf32)]
    _watch(rounded, original, migrated, progress)
    reference = _recorded(original.program)
    return compare(reference, copy, measured(reference, [_recorded(each.program) for each in rounded]))


def original_recording(task: Task, hf32: tuple[str, ...]) -> tuple[Recording, Tolerance]:
    """Run the original alone, and find what rounding explains. Raises as `verify` does."""
    reference = _alone(_original(task, "reference"))
    return reference, measured(reference, [_alone(program) for program in _rounding(task, hf32)])


def migrated_recording(task: Task) -> Recording:
    """Run the migrated program alone. Raises as `verify` does."""
    return _alone(_migrated(task))


def _alone(program: Program) -> Recording:
    start(program).wait()
    return _recorded(program)


def _rounding(task: Task, hf32: tuple[str, ...]) -> list[Program]:
    """The original, with every operator rounding otherwise, as coarsely as the NPU where that takes HF32."""
    programs = [(seed, _original(task, f"rounding-{seed}")) for seed in _ROUNDING_SEEDS]
    return [
        replace(program, settings=replace(program.settings, rounding=seed, coarse=hf32)) for seed, program in programs
    ]


def _original(task: Task, part: str) -> Program:
    folder = task.folder / part
    settings = Settings(folder=folder / "recording", project=folder / task.original.name, steps=task.steps, gpus=_CARDS)
    title = "the original" if part == "reference" else "the original, rounding otherwise,"
    return Program(title, task.original, task.original_command, folder, settings, played())


def _migrated(task: Task) -> Program:
    folder = task.folder / "migrated"
    settings = Settings(folder=folder / "recording", project=folder / task.migrated.name, steps=task.steps)
    environment = emulated(_CARDS, task.soc, task.torch_npu)
    return Program("the migrated program", task.migrated, task.migrated_command, folder, settings, environment)


def _recorded(program: Program) -> Recording:
    recordings = read_recordings(program.settings.folder)
    if not recordings:
        raise RecordingError(f"{program.title} made no optimizer step: there is nothing to compare")
    return recordings[0]


def _watch(running: list[Running], original: Running, migrated: Running, progress: Progress) -> None:
    """Wait for programs to end, reporting losses as they are recorded. If one fails, the others are ended."""
    with futures.ThreadPoolExecutor(len(running)) as pool:
        waits = [pool.submit(each.wait) for each in running]
        try:
            while not all(wait.done() for wait in waits):
                for wait in waits:
                    if wait.done():
                        wait.result()
                progress(original.losses(), migrated.losses())
                futures.wait(waits, timeout=_POLL, return_when=futures.FIRST_EXCEPTION)
            for wait in waits:
                wait.result()
        finally:
            for each in running:
                if each.process.poll() is None:
                    each.process.terminate()
    progress(original.losses(), migrated.losses())
