"""`make bench-emulator`: steps on the emulated NPU beside the same steps of torch on the CPU, on this machine, now.

Both devices take turns within one process, so that a busy moment of the machine meets both; 2 threads for each. It
prints medians and ratios and judges nothing but the goals beside them.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from gpu2npu.emulator.device import native
from gpu2npu.emulator.launch import emulating

ROUNDS = 9
STEPS = "benchmarks.emulator_steps"
# At most these multiples of torch's time.
GOALS = {"small operator": 3.5, "CNN": 1.0, "GPT": 1.0, "LSTM": 1.5, "ResNet": 1.5, "ddp": 1.2}
NAMES = {
    "small operator": "x + y of 8 numbers",
    "CNN": "CNN training step",
    "GPT": "4-layer GPT training step",
    "LSTM": "2-layer LSTM training step",
    "ResNet": "ResNet-18 training step",
    "ddp": "2 ranks, hccl beside gloo",
}


def main() -> int:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    building = None if native.place().is_file() else native.build(native.place())
    if building is not None:
        building.wait()
    try:
        seconds = {**timed([], threads=2), **timed(torchrun, threads=1)}
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(error.cmd)} ended with exit code {error.returncode}", file=sys.stderr)
        print(error.stderr[-3000:], file=sys.stderr)
        return 1
    print(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}, NumPy "
        f"{np.__version__}, medians of {ROUNDS} rounds"
    )
    print(f"{'':28}{'torch CPU':>12}{'emulated NPU':>14}{'ratio':>8}{'goal':>9}")
    for name, devices in seconds.items():
        print(row(name, statistics.median(devices["cpu"]), statistics.median(devices["npu"])))
    return 0


def timed(launcher: list[str], threads: int) -> dict[str, dict[str, list[float]]]:
    """Return what `emulator_steps` measures in a process of its own, with `threads` threads for torch and for NumPy."""
    counts = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL", "GPU2NPU")}
    environment = emulating({**os.environ, **counts}, python=sys.executable, npus=2)
    program = [sys.executable, *launcher, "-m", STEPS, str(ROUNDS)]
    root = Path(__file__).parents[1]
    done = subprocess.run(program, cwd=root, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def row(name: str, cpu: float, npu: float) -> str:
    """One line of the table; the small operator's times are those of one call."""
    if name == "small operator":
        from benchmarks.emulator_steps import CALLS

        texts = [f"{each / CALLS * 1e6:.1f} us" for each in (cpu, npu)]
    else:
        texts = [f"{each * 1e3:.1f} ms" for each in (cpu, npu)]
    return f"{NAMES[name]:28}{texts[0]:>12}{texts[1]:>14}{npu / cpu:>8.2f}{GOALS[name]:>7.1f} x"


if __name__ == "__main__":
    sys.exit(main())
