"""Training with one bottleneck put into it, profiled: PROGRAM, the FOLDER of the profile, and "db" for databases.

A program of several ranks is started by torchrun.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch_npu
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 3
WIDTH = 1024


class Rows(Dataset):
    """Rows of noise, each of which takes `seconds` to fetch."""

    def __init__(self, seconds: float, width: int = WIDTH) -> None:
        self.seconds, self.width = seconds, width

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.zeros(self.width)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)).npu()


def trained(model: nn.Module, x: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


def healthy():
    """Large products, and nothing else."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(2048, WIDTH, device="npu")
    while True:
        trained(model, x, optimizer)
        yield


def slow_loader():
    """Fetching a batch takes longer than training on it."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(Rows(0.01), batch_size=16):
        trained(model, x.npu(), optimizer)
        yield


def small_kernels():
    """Thousands of kernels of a few numbers, one at a time."""
    x = torch.ones(8, device="npu")
    while True:
        for _ in range(200):
            x = (x * 1.01 + 0.1).sigmoid() - 0.5
        yield


def copies():
    """The data travel to the device again in every step, many times what is computed on them."""
    data = [torch.randn(2048, 4096) for _ in range(3)]
    weight = torch.randn(4096, 4, device="npu")
    while True:
        for _ in range(4):
            for part in data:
                _ = part.npu() @ weight
        yield


def fallbacks():
    """An operator that this release of torch_npu lacks, on a large tensor."""
    x = torch.rand(128, 256, device="npu") + 1
    while True:
        for _ in range(4):
            _ = torch.lgamma(x).sum()
        yield


def slow_rank():
    """Data-parallel training in which the last rank computes four times as much."""
    dist.init_process_group("hccl")
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.parallel.DistributedDataParallel(perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    is_last = dist.get_rank() == dist.get_world_size() - 1
    x = torch.randn(2048 if is_last else 512, WIDTH, device="npu")
    while True:
        trained(model, x, optimizer)
        yield


def main(program: str, folder: str, kind: str = "text") -> None:
    steps = globals()[program]()
    next(steps)
    with torch_npu.profiler.profile(
        schedule=torch_npu.profiler.schedule(wait=0, warmup=1, active=STEPS, repeat=1),
        on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(folder, worker_name=program),
        with_stack=program != "small_kernels",
        profile_memory=True,
        experimental_config=torch_npu.profiler._ExperimentalConfig(
            profiler_level=torch_npu.profiler.ProfilerLevel.Level1,
            aic_metrics=torch_npu.profiler.AiCMetrics.PipeUtilization,
            export_type=kind,
        ),
    ) as profile:
        for _ in range(STEPS + 1):
            next(steps)
            profile.step()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
