"""Every fault is found at its step and module, and copies without one do not diverge, on one rank and on two.

GPU2NPU_TEST_VERIFY=all, as `make test-verify` sets it. All programs of a project run in forks of two processes: one
that plays CUDA's part, one with the emulated NPUs. Projects whose packages are not installed are skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpu2npu.cli.run import newest_release
from gpu2npu.emulator.soc import DEFAULT_SOC
from gpu2npu.project.location import Output
from gpu2npu.project.migration import migrate_project
from gpu2npu.project.settings import Settings
from gpu2npu.verify.commands import commands
from gpu2npu.verify.comparing.causes import explain
from gpu2npu.verify.comparing.compare import Comparison
from gpu2npu.verify.comparing.ranks import compare_ranks, earliest
from gpu2npu.verify.comparing.tolerance import measured
from gpu2npu.verify.programs import emulated, plain
from gpu2npu.verify.recording.environment import RecordingSettings
from gpu2npu.verify.recording.records import Recording, read_recordings

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
SEEDS = (1, 2, 3)


def table(name: str) -> Any:
    """A module beside this one."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


faults, rank_faults, clean = table("faults"), table("rank_faults"), table("clean")
training_faults = table("training_faults")
SUBJECTS = {**faults.SUBJECTS, **rank_faults.SUBJECTS, **training_faults.SUBJECTS, **clean.SUBJECTS}
FAULTS = (*faults.FAULTS, *rank_faults.FAULTS, *training_faults.FAULTS)
ON_ONE_NPU = rank_faults.ON_ONE_NPU

pytestmark = pytest.mark.skipif(os.environ.get("GPU2NPU_TEST_VERIFY") != "all", reason="make test-verify runs these")


def jobs(
    folder: Path, project: Path, subject: Any, ranks: int, fault: Any = None, **settings: Any
) -> list[dict[str, Any]]:
    """The ranks of one program, in a copy of its project, recorded in `folder`."""
    place = folder / "project"
    shutil.copytree(project, place)
    for file, old, new in fault.edits if fault else ():
        text = (place / file).read_text()
        assert old in text, f"{file} has no {old!r}"
        (place / file).write_text(text.replace(old, new))
    recorded = RecordingSettings(folder / "recording", place, subject.steps, **settings).variables()
    return [
        {
            "variables": recorded | (group(rank, ranks) if ranks > 1 else {}),
            "command": [word.format(rank=rank) for word in subject.command],
            "stderr": str(folder / f"stderr-{rank}"),
            "operator": fault.operator if fault else "",
            "kernel": fault.kernel if fault else "",
        }
        for rank in range(ranks)
    ]


def group(rank: int, ranks: int) -> dict[str, str]:
    """The variables by which a launcher gives a process its rank; a recorded group has a port of its own."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_PORT": 29500}
    return {"MASTER_ADDR": "127.0.0.1"} | {name: str(number) for name, number in numbers.items()}


def start(programs: list[list[dict[str, Any]]], subject: Any, environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start a process whose forks run the programs in order, at least as many at once as one has ranks."""
    at_a_time = max(int(os.environ.get("GPU2NPU_TEST_FORKS", str(os.cpu_count() or 1))), subject.ranks)
    environment = {**environment, **subject.environment, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    environment["TORCH_COMPILE_DISABLE"] = "1"  # as `gpu2npu verify` does
    command = [sys.executable, str(HERE / "forking.py"), str(at_a_time)]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stdin is not None
    process.stdin.write("".join(json.dumps(job) + "\n" for program in programs for job in program))
    process.stdin.close()
    return process


def recordings_in(folder: Path, ranks: int) -> tuple[Recording, ...]:
    """The recording of each rank; what they wrote to stderr is shown where one is missing."""
    found = read_recordings(folder / "recording")
    assert len(found) == ranks, "".join(file.read_text() for file in sorted(folder.glob("stderr-*")))
    return found


@dataclass(frozen=True)
class Outcomes:
    """The runs of one project: its original's recordings, plain and rounding otherwise, and its copies in `folder`.

    `shared`: the copies' ranks share each batch of the original's one process.
    """

    subject: Any
    reference: tuple[Recording, ...]
    rounded: tuple[tuple[Recording, ...], ...]
    folder: Path
    shared: bool

    def compared(self, name: str) -> Comparison:
        """The original against the copy with a fault; "" is without one."""
        ranks = recordings_in(self.folder / (name or "clean"), self.subject.ranks)
        coarse, rounded = self.subject.reduced, zip(*self.rounded, strict=True)
        pairs = [(one, measured(one, others, coarse)) for one, others in zip(self.reference, rounded, strict=True)]
        return earliest(compare_ranks(pairs, ranks, self.shared))


def outcomes(name: str, folder: Path) -> Outcomes:
    """Run the original of a project, and its copy with each fault."""
    subject = SUBJECTS[name]
    original = REPOSITORY / subject.project
    _, copy = migrate_project(original, Settings("2.1.0"), Output(folder / "migration"))
    seeded = {"reference": 0, **{f"rounding-{seed}": seed for seed in SEEDS}}
    cards = subject.cards or subject.ranks
    shared = subject.original_ranks == 1 and commands(subject.command, copy, cards).shared
    played = {"gpus": cards, "coarse": subject.reduced, "shared": shared}
    there = [
        jobs(folder / place, original, subject, subject.original_ranks, rounding=seed, **played)
        for place, seed in seeded.items()
    ]
    put = [None, *(fault for fault in (*FAULTS, *ON_ONE_NPU) if fault.subject == name)]
    here = [
        jobs(folder / (fault.name if fault else "clean"), copy, subject, subject.ranks, fault, shared=shared)
        for fault in put
    ]
    npus = emulated(cards, DEFAULT_SOC, newest_release())
    for process in [start(there, subject, plain()), start(here, subject, npus)]:
        process.wait()
    recorded = [recordings_in(folder / place, subject.original_ranks) for place in seeded]
    return Outcomes(subject, recorded[0], tuple(recorded[1:]), folder, shared)


class Made:
    """The outcomes of each project, made when first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Outcomes] = {}

    def __getitem__(self, subject: str) -> Outcomes:
        if subject not in self._made:
            self._made[subject] = outcomes(subject, self._folder / subject)
        return self._made[subject]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("subjects"))


def together(value: object, subject: str, name: str = "") -> Any:
    """A parameter whose tests run in the process that made the subject, if what it imports is installed."""
    package = SUBJECTS[subject].package
    marks = [
        pytest.mark.xdist_group(subject),
        pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed"),
    ]
    return pytest.param(value, marks=marks, id=(f"{subject}-{name}" if name else subject).replace(" ", "-"))


@pytest.mark.parametrize("subject", [together(subject, subject) for subject in SUBJECTS])
def test_a_copy_without_a_fault_does_not_diverge(subject: str, made: Made) -> None:
    comparison = made[subject].compared("")
    assert comparison.first is None, comparison.first
    assert comparison.migrated.reduced == SUBJECTS[subject].reduced
    assert comparison.compile_switched_off == (clean.COMPILE in SUBJECTS[subject].command)
    assert len(comparison.measured) > 50 and comparison.migrated.world == SUBJECTS[subject].ranks


@pytest.mark.parametrize("program", clean.REFUSED, ids=lambda program: "-".join(map(str, program)))
def test_what_cannot_be_compared_is_refused(program: tuple[str, str, int], tmp_path: Path) -> None:
    folder, name, cards = program
    (tmp_path / "project").mkdir()
    shutil.copy(clean.FIXTURES / folder / f"{name}.py", tmp_path / "project")
    words = ["-i", str(tmp_path / "project"), "-v", "2.1.0", "--npus", str(cards), "--", f"{name}.py"]
    command = [sys.executable, "-m", "gpu2npu", "verify", *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 3
    assert clean.REFUSED[program] in done.stderr and "Error: the original" in done.stderr


@pytest.mark.parametrize("fault", [together(fault, fault.subject, fault.name) for fault in FAULTS])
def test_a_fault_is_found(fault: Any, made: Made) -> None:
    comparison = made[fault.subject].compared(fault.name)
    explanation = explain(comparison)
    assert comparison.first is not None and explanation is not None, "not found"
    module = faults.ANY if fault.module == faults.ANY and explanation.module else explanation.module
    found = (comparison.first.event.step + 1, module, explanation.cause.value)
    assert found == (fault.step, fault.module, fault.cause), comparison.first


@pytest.mark.parametrize("fault", [together(fault, fault.subject, fault.name) for fault in ON_ONE_NPU])
def test_two_ranks_on_one_npu_are_named(fault: Any, made: Made) -> None:
    written = (made[fault.subject].folder / fault.name).glob("stderr-*")
    assert "ranks 0 and 1 are on the same NPU" in "".join(file.read_text() for file in written)
