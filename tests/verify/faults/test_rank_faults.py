"""Faults of programs on two ranks are found at their step and module, and copies without one do not diverge.

GPU2NPU_TEST_VERIFY=all, as `make test-verify` sets it. All programs of a project run in forks of two processes: one
that plays CUDA's part, one with the emulated NPUs.
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
from gpu2npu.project.migration import migrate_project
from gpu2npu.project.request import Request
from gpu2npu.verify.comparing.causes import explain
from gpu2npu.verify.comparing.compare import Comparison
from gpu2npu.verify.comparing.ranks import compare_ranks, earliest
from gpu2npu.verify.comparing.tolerance import measured
from gpu2npu.verify.programs import emulated, plain
from gpu2npu.verify.recording.environment import Settings
from gpu2npu.verify.recording.records import Recording, read_recordings

HERE = Path(__file__).parent
FIXTURES = HERE.parents[2] / "fixtures"
RANKS = 2
SEEDS = (1, 2, 3)

_spec = importlib.util.spec_from_file_location("rank_faults", HERE / "rank_faults.py")
assert _spec is not None and _spec.loader is not None
rank_faults = sys.modules["rank_faults"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rank_faults)

pytestmark = pytest.mark.skipif(os.environ.get("GPU2NPU_TEST_VERIFY") != "all", reason="make test-verify runs these")


def jobs(
    folder: Path, project: Path, subject: Any, ranks: int, fault: Any = None, **settings: Any
) -> list[dict[str, Any]]:
    """The ranks of one program, in a copy of its project."""
    place = folder / "project"
    shutil.copytree(project, place)
    if fault is not None:
        script = place / subject.script
        text = script.read_text()
        assert fault.old in text, f"{subject.script} has no {fault.old!r}"
        script.write_text(text.replace(fault.old, fault.new))
    recorded = Settings(folder / "recording", place, subject.steps, shared=subject.ranks == 1, **settings).variables()
    made = []
    for rank in range(ranks):
        group = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": ranks,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": 29500,
        }
        made.append({
            "variables": recorded | ({name: str(value) for name, value in group.items()} if ranks > 1 else {}),
            "command": [word.format(rank=rank) for word in subject.command],
            "stderr": str(folder / f"stderr-{rank}"),
            "operator": "",
            "kernel": "",
        })  # fmt: skip
    return made


def start(programs: list[list[dict[str, Any]]], environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start a process whose forks run the programs; in its order, and two at once or more, as a pair has to be."""
    at_a_time = max(int(os.environ.get("GPU2NPU_TEST_FORKS", str(os.cpu_count() or 1))), RANKS)
    environment = {**environment, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    command = [sys.executable, str(HERE / "forking.py"), str(at_a_time)]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stdin is not None
    process.stdin.write("".join(json.dumps(job) + "\n" for program in programs for job in program))
    process.stdin.close()
    return process


@dataclass(frozen=True)
class Outcomes:
    """The runs of one project: its original's recordings, plain and rounding otherwise, and its copies in `folder`."""

    reference: tuple[Recording, ...]
    rounded: tuple[tuple[Recording, ...], ...]
    folder: Path

    def compared(self, name: str) -> Comparison:
        """The original against the copy with a fault; "" is without one."""
        folder = self.folder / (name or "clean")
        ranks = read_recordings(folder / "recording")
        assert len(ranks) == RANKS, "".join(file.read_text() for file in sorted(folder.glob("stderr-*")))
        rounded = zip(*self.rounded, strict=True)
        pairs = [(one, measured(one, others, ("conv",))) for one, others in zip(self.reference, rounded, strict=True)]
        return earliest(compare_ranks(pairs, ranks))


def outcomes(name: str, folder: Path) -> Outcomes:
    """Run the original of a project, and its copy with each fault."""
    subject = rank_faults.SUBJECTS[name]
    original = FIXTURES / subject.project
    _, copy = migrate_project(Request(original, "2.1.0", folder / "migration"))
    places = ["reference", *(f"rounding-{seed}" for seed in SEEDS)]
    there = [
        jobs(folder / place, original, subject, subject.ranks, gpus=RANKS, rounding=seed, coarse=("conv",))
        for seed, place in enumerate(places)
    ]
    here = [jobs(folder / "clean", copy, subject, RANKS)]
    here += [
        jobs(folder / fault.name, copy, subject, RANKS, fault) for fault in rank_faults.FAULTS if fault.subject == name
    ]
    for process in [start(there, plain()), start(here, emulated(RANKS, DEFAULT_SOC, newest_release()))]:
        process.wait()
    recorded = []
    for place in places:
        ranks = read_recordings(folder / place / "recording")
        assert len(ranks) == subject.ranks, "".join(file.read_text() for file in (folder / place).glob("stderr-*"))
        recorded.append(ranks)
    return Outcomes(recorded[0], tuple(recorded[1:]), folder)


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
    return Made(tmp_path_factory.mktemp("ranks"))


def together(value: object, subject: str, name: str = "") -> Any:
    """A parameter whose tests run in the process that made the subject."""
    named = f"{subject}-{name}" if name else subject
    return pytest.param(value, marks=pytest.mark.xdist_group(f"ranks-{subject}"), id=named.replace(" ", "-"))


@pytest.mark.parametrize("subject", [together(subject, subject) for subject in rank_faults.SUBJECTS])
def test_a_copy_on_two_ranks_without_a_fault_does_not_diverge(subject: str, made: Made) -> None:
    comparison = made[subject].compared("")
    assert comparison.first is None, comparison.first
    assert len(comparison.measured) > 100 and comparison.migrated.world == RANKS


@pytest.mark.parametrize("fault", [together(fault, fault.subject, fault.name) for fault in rank_faults.FAULTS])
def test_a_fault_of_ranks_is_found(fault: Any, made: Made) -> None:
    comparison = made[fault.subject].compared(fault.name)
    explanation = explain(comparison)
    assert comparison.first is not None and explanation is not None, "not found"
    found = (comparison.first.event.step + 1, explanation.module, explanation.cause.value)
    assert found == (fault.step, fault.module, fault.cause), comparison.first
