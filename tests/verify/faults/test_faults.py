"""Every fault of faults.py is found, at its step and module; GPU2NPU_TEST_VERIFY=all, as `make test-verify` sets it.

All programs of one project run in forks of two processes: one that plays CUDA's part, one with the emulated NPU.
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
from gpu2npu.verify.comparing.compare import Comparison, compare
from gpu2npu.verify.comparing.tolerance import measured
from gpu2npu.verify.programs import emulated, plain
from gpu2npu.verify.recording.environment import Settings
from gpu2npu.verify.recording.records import Recording, read_recordings

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
STEPS = 4
SEEDS = (1, 2, 3)

_spec = importlib.util.spec_from_file_location("faults", HERE / "faults.py")
assert _spec is not None and _spec.loader is not None
faults = sys.modules["faults"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(faults)

pytestmark = pytest.mark.skipif(os.environ.get("GPU2NPU_TEST_VERIFY") != "all", reason="make test-verify runs these")


def job(
    folder: Path, project: Path, settings: dict[str, Any], command: tuple[str, ...], fault: Any = None
) -> dict[str, Any]:
    """One program to run in a copy of a project, recorded in `folder`."""
    place = folder / "project"
    shutil.copytree(project, place)
    for file, old, new in fault.edits if fault else ():
        text = (place / file).read_text()
        assert old in text, f"{file} has no {old!r}"
        (place / file).write_text(text.replace(old, new))
    return {
        "variables": Settings(folder / "recording", place, STEPS, **settings).variables(),
        "command": list(command),
        "stderr": str(folder / "stderr"),
        "operator": fault.operator if fault else "",
        "kernel": fault.kernel if fault else "",
    }


def run_all(jobs: list[dict[str, Any]], environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start a process whose forks run the jobs."""
    at_a_time = os.environ.get("GPU2NPU_TEST_FORKS", str(os.cpu_count() or 1))
    environment = {**environment, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    command = [sys.executable, str(HERE / "forking.py"), at_a_time]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write("".join(json.dumps(each) + "\n" for each in jobs))
    process.stdin.close()
    return process


@dataclass(frozen=True)
class Outcomes:
    """The runs of one project: its original's recordings, and its copy's with each fault; "" is without one."""

    reference: Recording
    rounded: tuple[Recording, ...]
    folder: Path

    def compared(self, name: str) -> Comparison:
        """The original against the copy with a fault."""
        folder = self.folder / (name or "clean")
        recordings = read_recordings(folder / "recording")
        assert recordings, (folder / "stderr").read_text()
        return compare(self.reference, recordings[0], measured(self.reference, self.rounded))


def outcomes(subject: str, folder: Path) -> Outcomes:
    """Run the original of a project, and its copy with each fault."""
    of = faults.SUBJECTS[subject]
    original = REPOSITORY / of.project
    _, copy = migrate_project(Request(original, "2.1.0", folder / "migration"))
    seeded = [(0, "reference"), *((seed, f"rounding-{seed}") for seed in SEEDS)]
    there = [
        job(folder / name, original, {"gpus": 1, "rounding": seed, "coarse": of.reduced}, of.command)
        for seed, name in seeded
    ]
    own = [fault for fault in faults.FAULTS if fault.subject == subject]
    here = [job(folder / "clean", copy, {}, of.command)]
    here += [job(folder / fault.name, copy, {}, of.command, fault) for fault in own]
    running = [
        run_all(there, {**plain(), **of.environment}),
        run_all(here, {**emulated(1, DEFAULT_SOC, newest_release()), **of.environment}),
    ]
    for process in running:
        process.wait()
    recorded = [read_recordings(folder / name / "recording")[0] for _, name in seeded]
    return Outcomes(recorded[0], tuple(recorded[1:]), folder)


class Subjects:
    """The outcomes of each project, made when first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Outcomes] = {}

    def __getitem__(self, subject: str) -> Outcomes:
        if subject not in self._made:
            self._made[subject] = outcomes(subject, self._folder / subject)
        return self._made[subject]


@pytest.fixture(scope="session")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Subjects:
    return Subjects(tmp_path_factory.mktemp("subjects"))


def together(value: object, subject: str, name: str = "") -> Any:
    """A parameter whose tests run in the process that made the subject."""
    return pytest.param(value, marks=pytest.mark.xdist_group(subject), id=(name or subject).replace(" ", "-"))


@pytest.mark.parametrize("subject", [together(subject, subject) for subject in faults.SUBJECTS])
def test_a_copy_without_a_fault_does_not_diverge(subject: str, subjects: Subjects) -> None:
    comparison = subjects[subject].compared("")
    assert comparison.first is None, comparison.first
    assert comparison.migrated.reduced == faults.SUBJECTS[subject].reduced


@pytest.mark.parametrize("fault", [together(fault, fault.subject, fault.name) for fault in faults.FAULTS])
def test_a_fault_is_found(fault: Any, subjects: Subjects) -> None:
    comparison = subjects[fault.subject].compared(fault.name)
    explanation = explain(comparison)
    assert comparison.first is not None and explanation is not None, "not found"
    module = faults.ANY if fault.module == faults.ANY and explanation.module else explanation.module
    found = (comparison.first.event.step + 1, module, explanation.cause.value)
    assert found == (fault.step, fault.module, fault.cause), comparison.first
