"""`make bench-emulator`: steps on the emulated NPU beside the same steps of torch on the CPU, on this machine, now.

Both devices take turns within one process, so that a busy moment of the machine meets both; one thread for each. It
prints medians of CPU time, and ratios, and judges nothing but the goals beside them.
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
# At most these microseconds a call, or multiples of torch's time.
SMALL = {
    "x + y": 3.5,
    **dict.fromkeys(("x + y, float16", "x + y, bfloat16", "x + y, broadcast", "x > y", "where"), 5.0),
    **dict.fromkeys(("x[2:4]", "x.t()", "x.view(64)"), 2.0),
    **dict.fromkeys(("empty", "empty_like", "clone"), 4.0),
}
GOALS = {"CNN": 1.0, "GPT": 1.0, "LSTM": 1.5, "ViT": 1.5, "U-Net": 1.2, "ResNet": 1.2, "AdamW": 1.2, "ddp": 1.2}
NAMES = {
    "CNN": "CNN training step",
    "GPT": "4-layer GPT training step",
    "LSTM": "2-layer LSTM training step",
    "ViT": "2-layer ViT training step",
    "U-Net": "U-Net training step",
    "ResNet": "ResNet-18 training step",
    "AdamW": "AdamW of 100 tensors",
    "ddp": "2 ranks, hccl beside gloo",
}


def main() -> int:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    if native.building is not None:
        native.building.wait()
    try:
        seconds = {**timed([]), **timed(torchrun)}
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


def timed(launcher: list[str]) -> dict[str, dict[str, list[float]]]:
    """Return what `emulator_steps` measures in a process of its own, with one thread for torch and for NumPy."""
    counts = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "GPU2NPU")}
    environment = emulating({**os.environ, **counts}, python=sys.executable, npus=2)
    program = [sys.executable, *launcher, "-m", STEPS, str(ROUNDS)]
    root = Path(__file__).parents[1]
    done = subprocess.run(program, cwd=root, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def row(name: str, cpu: float, npu: float) -> str:
    """One line of the table; a small operator's times are those of one call."""
    if name in SMALL:
        from benchmarks.emulator_steps import CALLS

        texts, goal = [f"{each / CALLS * 1e6:.1f} us" for each in (cpu, npu)], f"{SMALL[name]:.1f} us"
    else:
        texts, goal = [f"{each * 1e3:.1f} ms" for each in (cpu, npu)], f"{GOALS[name]:.1f} x"
    return f"{NAMES.get(name, name):28}{texts[0]:>12}{texts[1]:>14}{npu / cpu:>8.2f}{goal:>9}"


if __name__ == "__main__":
    sys.exit(main())
