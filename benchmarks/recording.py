"""The CPU time of a training step that `gpu2npu verify` records, beside that of the same step unrecorded.

Two processes take turns on the emulated NPU, one of which is recorded, so that a busy moment of the machine meets both.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu2npu.emulator.launch import emulating
from gpu2npu.verify.programs import SITE
from gpu2npu.verify.recording.environment import RecordingSettings

ROOT = Path(__file__).parents[1]
STEPS = "benchmarks.recording_steps"
WORKLOADS = (
    "CNN, 6 thousand parameters",
    "CNN, 0.1 million",
    "ResNet-18, 0.2 million",
    "ResNet-18, 2.8 million",
    "GPT, 0.1 million",
    "GPT, 3.2 million",
)
ROUNDS = 15
_WARM = 2  # rounds that are not counted
_ENDLESS = 1 << 30  # steps
GOAL = 1.5


@dataclass(frozen=True)
class RecordingCost:
    """The CPU seconds of one step of a workload, the median of all rounds."""

    workload: str
    unrecorded: float
    recorded: float


def measure_recording(workloads: Sequence[str] = WORKLOADS, rounds: int = ROUNDS) -> list[RecordingCost]:
    """Measure workloads of `recording_steps`, one after the other."""
    with tempfile.TemporaryDirectory(prefix="gpu2npu-bench-") as folder:
        return [_measure(name, Path(folder) / str(number), rounds) for number, name in enumerate(workloads)]


def _measure(workload: str, folder: Path, rounds: int) -> RecordingCost:
    environment = emulating({**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}, python=sys.executable)
    path = os.pathsep.join((str(SITE), environment["PYTHONPATH"]))
    recorded = {**environment, **RecordingSettings(folder, ROOT, _ENDLESS).variables(), "PYTHONPATH": path}
    processes = [_start(workload, each) for each in (environment, recorded)]
    seconds: list[list[float]] = [[], []]
    try:
        for _ in range(rounds + _WARM):
            for process, taken in zip(processes, seconds, strict=True):
                taken.append(_turn(process))
    finally:
        for process in processes:
            process.communicate()
    plain, with_recorder = (sorted(taken[_WARM:])[len(taken) // 4] for taken in seconds)
    return RecordingCost(workload, plain, with_recorder)


def _start(workload: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", STEPS, workload]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _turn(process: subprocess.Popen[str]) -> float:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise subprocess.CalledProcessError(process.wait(), process.args)
    return float(line)


def format_recording(costs: Sequence[RecordingCost]) -> str:
    """A table of the workloads."""
    rows = [f"{'CPU time of a step on the emulated NPU':42}{'unrecorded':>12}{'recorded':>12}{'ratio':>8}{'goal':>8}"]
    for cost in costs:
        times = "".join(f"{each * 1e3:9.1f} ms" for each in (cost.unrecorded, cost.recorded))
        rows.append(f"{cost.workload:42}{times}{cost.recorded / cost.unrecorded:>8.2f}{GOAL:>8.1f}")
    return "\n".join(rows)
