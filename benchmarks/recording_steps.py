"""Training steps on the emulated NPU whose CPU time the recording benchmark compares, in a recorded process or another.

Runs as a script with the name of a workload; MAKERS are in the order of WORKLOADS. For every line on stdin it makes a
few steps, and prints the seconds of this process's CPUs for one.
"""

from __future__ import annotations

import itertools
import sys
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.emulator_steps import Cnn, Gpt, Step, training_step
from benchmarks.recording import WORKLOADS


class Residual(nn.Module):
    """A block of ResNet-18."""

    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inward, outward, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outward, outward, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outward), nn.BatchNorm2d(outward)
        conv = nn.Conv2d(inward, outward, 1, stride, bias=False)
        self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(outward)) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.shortcut(x))


def resnet18(width: int) -> nn.Module:
    """ResNet-18 for small images, with `width` channels in its first stage, 64 in the original."""
    widths = [width * scale for scale in (1, 1, 2, 4, 8)]
    blocks = [
        Residual(inward if number == 0 else outward, outward, 2 if stage and number == 0 else 1)
        for stage, (inward, outward) in enumerate(itertools.pairwise(widths))
        for number in range(2)
    ]
    stem = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))


def images(model: nn.Module, batch: int) -> Step:
    """A step of a classifier on pictures of 32 x 32 in colour."""
    x, y = torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))
    return training_step(model.npu(), torch.optim.SGD(model.parameters(), 0.01, momentum=0.9), x.npu(), y.npu())


def words(width: int, batch: int) -> Step:
    """A step of a language model of four layers on 64 tokens."""
    model = Gpt(vocabulary=100, width=width)
    x, y = torch.randint(100, (batch, 64)), torch.randint(100, (batch * 64,))
    return training_step(model.npu(), torch.optim.AdamW(model.parameters(), 1e-3), x.npu(), y.npu())


MAKERS = (
    lambda: images(Cnn(4), 16),
    lambda: images(Cnn(16), 32),
    lambda: images(resnet18(8), 8),
    lambda: images(resnet18(32), 8),
    lambda: words(48, 4),
    lambda: words(256, 8),
)
REPEATS = 3


def main(workload: str) -> None:
    import torch_npu  # type: ignore[import-not-found]  # noqa: F401

    torch.manual_seed(0)
    step = dict(zip(WORKLOADS, MAKERS, strict=True))[workload]()
    for _ in sys.stdin:
        start = time.process_time()
        for _ in range(REPEATS):
            step()
        print((time.process_time() - start) / REPEATS, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
