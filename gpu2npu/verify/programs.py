"""Runs the two programs: each in a copy of its project, recorded, and watched as it goes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpu2npu.emulator.launch import emulating, prepare
from gpu2npu.verify.recording.environment import RecordingSettings
from gpu2npu.verify.recording.format import EVENTS, RANK, TRACEBACK

SITE = Path(__file__).parent / "site"
_PACKAGE = Path(__file__).parents[2]  # where `gpu2npu` is imported from
_GRACE = 20  # seconds in which a launcher ends its ranks
_TAIL = 40  # lines of a failed program's stderr that are shown
_RANK = re.compile(f"{RANK}(\\d+)")
_KERNEL = re.compile(r"\w+: (fallthrough )?registered at \S+ \[[\w ]+\]")


@dataclass(frozen=True)
class RecordedProgram:
    """One program to run and record. `project` is copied to `workplace`; what it prints goes to files in `output`."""

    title: str
    project: Path
    command: tuple[str, ...]
    output: Path
    settings: RecordingSettings
    environment: Mapping[str, str]

    @property
    def workplace(self) -> Path:
        """The copy of the project in which the program runs."""
        return self.settings.project

    @property
    def is_played(self) -> bool:
        """Return whether GPUs are played for it where there are none."""
        return self.settings.gpus > 0


class FailedError(RuntimeError):
    """A program could not be started or ended otherwise than with 0."""

    def __init__(self, program: RecordedProgram, exit_code: int, stderr: str) -> None:
        rank, _, words = stderr.partition("\n")
        if found := _RANK.fullmatch(rank):
            stderr = words
            super().__init__(f"{program.title} failed in rank {found[1]} with exit code {exit_code}")
        else:
            super().__init__(f"{program.title} failed with exit code {exit_code}")
        self.program, self.exit_code, self.stderr = program, exit_code, stderr


@dataclass(frozen=True)
class Running:
    """A program that was started."""

    program: RecordedProgram
    process: subprocess.Popen[bytes]

    def wait(self) -> None:
        """Wait for its end.

        Raises:
            FailedError: Its exit code is not 0.
        """
        code = self.process.wait()
        if code:
            raise FailedError(self.program, code, stderr_of(self.program))

    def end(self) -> None:
        """End it, if it has not ended, and the processes that it has left."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, sign)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_GRACE)

    def is_recorded(self) -> bool:
        """Return whether a process of it has imported PyTorch, from where on it is recorded."""
        return next(self.program.settings.folder.glob("process-*"), None) is not None

    def losses(self) -> dict[int, float]:
        """The loss of every step that it has made."""
        return losses_so_far(self.program.settings.folder)


def start(program: RecordedProgram) -> Running:
    """Start a program in a fresh copy of its project.

    Raises:
        gpu2npu.emulator.launch.LaunchError: There is no such script or command.
    """
    shutil.copytree(program.project, program.workplace, symlinks=True)
    program.output.mkdir(parents=True, exist_ok=True)
    environment = dict(program.environment) | program.settings.variables()
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(SITE), environment.get("PYTHONPATH", ""), str(_PACKAGE)))
    )
    environment.setdefault("PYTHONHASHSEED", "0")
    environment["TORCH_COMPILE_DISABLE"] = "1"  # both run operator by operator, which is what is compared
    here = Path.cwd()
    try:
        os.chdir(program.workplace)  # `prepare` looks for scripts where the program will run
        launch = prepare(program.command, environment, python=sys.executable)
    finally:
        os.chdir(here)
    with (program.output / "stdout").open("wb") as out, (program.output / "stderr").open("wb") as err:
        process = subprocess.Popen(
            [launch.program, *launch.argv[1:]],
            env=launch.environment,
            cwd=program.workplace,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,  # so that it can be ended with all that it has started
        )
    return Running(program, process)


def emulated(npus: int, soc: str, torch_npu: str) -> dict[str, str]:
    """The environment of a program on emulated NPUs."""
    return emulating(os.environ, python=sys.executable, npus=npus, soc=soc, torch_npu=torch_npu)


def plain() -> dict[str, str]:
    """The environment of a program on GPUs, real or played, or on real NPUs."""
    environment = dict(os.environ)
    environment.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # to ask for GPUs must not keep a program from forking
    environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environment.get("PATH", os.defpath)))
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return environment


def stderr_of(program: RecordedProgram) -> str:
    """The error and traceback of the rank that failed first, or the last lines that a program wrote to stderr.

    They are without PyTorch's list of the kernels that an operator has elsewhere.
    """
    tracebacks = sorted(
        program.settings.folder.glob(f"process-*/{TRACEBACK}"), key=lambda file: file.stat().st_mtime_ns
    )
    file = tracebacks[0] if tracebacks else program.output / "stderr"
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    shown = [line for line in lines if not _KERNEL.match(line)]
    return "\n".join(shown if tracebacks else shown[-_TAIL:])


def losses_so_far(folder: Path) -> dict[int, float]:
    """The losses that the processes of a program have recorded until now; of several ranks, their mean."""
    found = [losses for file in folder.glob(f"process-*/{EVENTS}") if (losses := _losses(file))]
    common = set.intersection(*map(set, found)) if found else set()
    return {step: sum(losses[step] for losses in found) / len(found) for step in sorted(common)}


def _losses(file: Path) -> dict[int, float]:
    """The sum of the losses of every step that is over."""
    steps = (
        json.loads(line)
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith('{"stepped": ') and line.endswith("}")
    )
    return {fields["stepped"]: fields["loss"] for fields in steps if fields["loss"] is not None}
