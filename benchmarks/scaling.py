"""The cost of data parallelism on emulated NPUs: the same global batch on 1, 2 and 4 ranks, beside torch and gloo.

One job of 4 ranks, started by run_distributed_npu.sh, takes every measurement in turns, so that a busy moment of the
machine meets all: the first 1, 2 or 4 ranks train while the others wait for them. A rank has one thread. `python -m
benchmarks.scaling` runs this alone.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpu2npu.emulator.launch import emulating
from gpu2npu.report.launcher import LAUNCHER_NAME, write_launcher

if TYPE_CHECKING:
    from benchmarks.emulator_steps import Step  # imports torch

RANKS = (1, 2, 4)
BATCH = 32  # pictures in a step, over all ranks
ROUNDS = 7
STEPS = 2  # in a round

# Seconds a step in each round, by "cpu" or "npu" and then by the number of ranks.
Timings = Mapping[str, Mapping[int, Sequence[float]]]


def measure_scaling() -> Timings:
    """Run the job. Raises CalledProcessError with what the first rank that failed said."""
    with tempfile.TemporaryDirectory(prefix="gpu2npu-scaling-") as folder:
        launcher = Path(folder) / LAUNCHER_NAME
        write_launcher(launcher)
        threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "GPU2NPU")}
        outer = {**os.environ, **threads, "LOG_DIR": folder, "BIND_CORES": "0"}
        environment = emulating(outer, python=sys.executable, npus=max(RANKS))
        command = ["bash", launcher, sys.executable, "-m", "benchmarks.scaling", "rank"]
        root = Path(__file__).parents[1]
        subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
        printed = json.loads((Path(folder) / "rank_0.log").read_text(encoding="utf-8").splitlines()[-1])
    return {device: {int(ranks): seconds for ranks, seconds in by.items()} for device, by in printed.items()}


def format_scaling(timings: Timings, cores: int) -> str:
    """A line for each number of ranks; ratios are of the medians."""
    steps = {
        device: {ranks: statistics.median(seconds) for ranks, seconds in by.items()} for device, by in timings.items()
    }
    lines = [
        f"Data parallelism: a CNN, {BATCH} pictures a step over all ranks, one thread a rank, {cores} cores, "
        f"medians of {ROUNDS} rounds",
        f"{'':8}{'torch, gloo':>22}{'emulated NPU, hccl':>24}{'NPU over torch':>18}{'its scaling':>14}",
        f"{'ranks':8}{'ms a step':>12}{'x 1 rank':>10}{'ms a step':>14}{'x 1 rank':>10}",
    ]
    for ranks in RANKS:
        cpu, npu = steps["cpu"][ranks], steps["npu"][ranks]
        cpu_scale, npu_scale = cpu / steps["cpu"][1], npu / steps["npu"][1]
        lines.append(
            f"{ranks:<8}{cpu * 1e3:>12.1f}{cpu_scale:>10.2f}{npu * 1e3:>14.1f}{npu_scale:>10.2f}"
            f"{npu / cpu:>18.2f}{npu_scale / cpu_scale:>14.2f}"
        )
    return "\n".join(
        [
            *lines,
            "",
            f"x 1 rank: the step beside that of 1 rank. With {cores} cores it cannot be below "
            f"{1 / min(cores, max(RANKS)):.2f}; what torch misses of that is the machine's.",
            "its scaling: x 1 rank of the emulated NPU over that of torch: what is the emulator's own. 1.00: nothing.",
        ]
    )


def train_in_turns() -> dict[str, dict[int, list[float]]]:
    """One rank of the job; what rank 0 returns is the measurement."""
    from torch import distributed

    rank = int(os.environ["RANK"])
    distributed.init_process_group("gloo")
    steps: dict[tuple[str, int], Step | None] = {
        (device, ranks): make_step(device, rank, ranks) for ranks in RANKS for device in ("cpu", "npu")
    }
    seconds: dict[str, dict[int, list[float]]] = {device: {ranks: [] for ranks in RANKS} for device in ("cpu", "npu")}
    for number in range(ROUNDS + 1):
        for (device, ranks), step in steps.items():
            distributed.barrier()
            start = time.perf_counter()
            for _ in range(STEPS):
                if step is not None:
                    step()
            if number:  # the first round warms up
                seconds[device][ranks].append((time.perf_counter() - start) / STEPS)
    distributed.barrier()
    distributed.destroy_process_group()
    return seconds


def make_step(device: str, rank: int, ranks: int) -> Step | None:
    """A training step of the first `ranks` ranks; None for the others, which only help to make the group."""
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    from benchmarks.emulator_steps import Cnn, training_step

    torch.manual_seed(0)
    group = distributed.new_group(list(range(ranks)), backend="gloo" if device == "cpu" else "hccl")
    if rank >= ranks:
        return None
    place = torch.device(device) if device == "cpu" else torch.device("npu", rank)
    share = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
    model, x, y = Cnn().to(place), torch.randn(BATCH, 3, 32, 32)[share], torch.randint(10, (BATCH,))[share]
    parallel = DistributedDataParallel(model, process_group=group)
    return training_step(parallel, torch.optim.SGD(parallel.parameters(), 0.01), x.to(place), y.to(place))


def main() -> int:
    if sys.argv[1:] == ["rank"]:
        seconds = train_in_turns()
        if os.environ["RANK"] == "0":
            print(json.dumps(seconds))
        return 0
    try:
        timings = measure_scaling()
    except subprocess.CalledProcessError as error:
        print(f"error: the job of {max(RANKS)} ranks ended with exit code {error.returncode}", file=sys.stderr)
        print(error.stderr[-3000:], file=sys.stderr)
        return 1
    print(format_scaling(timings, os.cpu_count() or 1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
