"""The steps that the emulator's benchmark times, each on the CPU and on the emulated NPU, in turns.

Runs as a script under the emulator's environment and prints one JSON object: seconds of CPU time of every round by
workload and device, on one thread. With RANK set it is one of the ranks of the distributed workload.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = Callable[[], object]
Rounds = dict[str, dict[str, list[float]]]

CALLS = 2000  # of a small operator, a round


class Cnn(nn.Module):
    """Three stages over 32 x 32 images in colour, each twice as wide as the one before."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        widths = ((3, width), (width, 2 * width), (2 * width, 4 * width))
        self.stages = nn.Sequential(*(self.stage(*each) for each in widths))
        self.head = nn.Linear(4 * width, 10)

    @staticmethod
    def stage(inward: int, outward: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inward, outward, 3, padding=1, bias=False), nn.BatchNorm2d(outward), nn.ReLU(), nn.MaxPool2d(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.stages(x).mean((2, 3)))
        return logits


class Block(nn.Module):
    """A layer of GPT-2: causal attention and a perceptron, each after a norm."""

    is_causal = True

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(attended)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Four layers of 256, over 64 tokens."""

    def __init__(self, vocabulary: int = 1000, width: int = 256, length: int = 64) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.Sequential(*(Block(width, 8) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.blocks(self.tokens(x) + self.positions))).flatten(0, 1)
        return logits


def small_operators(device: str) -> dict[str, Step]:
    """Calls of an operator on 8 numbers, or on as few."""
    x, y, square = torch.ones(8, device=device), torch.ones(8, device=device), torch.ones(8, 8, device=device)
    half, brain, chosen = x.half(), x.bfloat16(), x > 0
    return {
        "x + y": lambda: x + y,
        "x + y, float16": lambda: half + half,
        "x + y, bfloat16": lambda: brain + brain,
        "x + y, broadcast": lambda: square + x,
        "x > y": lambda: x > y,
        "where": lambda: torch.where(chosen, x, y),
        "x[2:4]": lambda: x[2:4],
        "x.t()": lambda: square.t(),
        "x.view(64)": lambda: square.view(64),
        "empty": lambda: torch.empty(8, device=device),
        "empty_like": lambda: torch.empty_like(x),
        "clone": lambda: x.clone(),
    }


def repeated(operator: Step) -> Step:
    """A round of calls of a small operator."""

    def calls() -> None:
        for _ in range(CALLS):
            operator()

    return calls


class Lstm(nn.Module):
    """Two layers of 128 over 50 steps."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.LSTM(128, 128, 2), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layers(x)[0][-1])
        return logits


class Residual(nn.Module):
    """A block of ResNet-18: two convolutions, and one around them where the shape changes."""

    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inward, outward, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outward, outward, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outward), nn.BatchNorm2d(outward)
        same = inward == outward and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(inward, outward, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """ResNet-18 of images of 64 x 64: eight blocks from 64 to 512 channels, after a stem of 7 x 7 and a pooling."""

    def __init__(self) -> None:
        super().__init__()
        widths = (
            (64, 64, 1),
            (64, 64, 1),
            (64, 128, 2),
            (128, 128, 1),
            (128, 256, 2),
            (256, 256, 1),
            (256, 512, 2),
            (512, 512, 1),
        )
        stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        self.body = nn.Sequential(*stem, *(Residual(*each) for each in widths))
        self.head = nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x).mean((2, 3)))
        return logits


class Vit(nn.Module):
    """A vision transformer of two layers of 128, over 16 patches of 8 x 8."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.patches, self.places = nn.Conv2d(3, width, 8, 8), nn.Parameter(torch.zeros(1, 16, width))
        self.blocks = nn.Sequential(*(VitBlock(width, 4) for _ in range(2)))
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places
        logits: Tensor = self.head(self.blocks(tokens).mean(1))
        return logits


class VitBlock(Block):
    """A layer of a transformer that sees every place."""

    is_causal = False


class Down(nn.Sequential):
    """Two convolutions, each with a norm of groups and an activation, as in a diffusion model's U-Net."""

    def __init__(self, inward: int, outward: int) -> None:
        pair = ((inward, outward), (outward, outward))
        super().__init__(*(part for one, other in pair for part in self.part(one, other)))

    @staticmethod
    def part(inward: int, outward: int) -> tuple[nn.Module, ...]:
        return nn.Conv2d(inward, outward, 3, padding=1), nn.GroupNorm(8, outward), nn.SiLU()


class UNet(nn.Module):
    """Three levels of 32, 64 and 128 channels over images of 32 x 32."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = Down(3, 32), Down(32, 64), Down(64, 128)
        self.up1, self.up2 = nn.ConvTranspose2d(128, 64, 2, 2), nn.ConvTranspose2d(64, 32, 2, 2)
        self.fourth, self.fifth, self.head = Down(128, 64), Down(64, 32), nn.Conv2d(32, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.first(x)
        middle = self.second(F.max_pool2d(fine, 2))
        coarse = self.third(F.max_pool2d(middle, 2))
        middle = self.fourth(torch.cat((self.up1(coarse), middle), 1))
        noise: Tensor = self.head(self.fifth(torch.cat((self.up2(middle), fine), 1)))
        return noise


def training_step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Step:
    def step() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def cnn(device: str) -> Step:
    torch.manual_seed(0)
    model, x, y = Cnn(), torch.randn(32, 3, 32, 32), torch.randint(10, (32,))
    model.to(device)
    return training_step(model, torch.optim.SGD(model.parameters(), 0.01, momentum=0.9), x.to(device), y.to(device))


def gpt(device: str) -> Step:
    torch.manual_seed(0)
    model, x, y = Gpt(), torch.randint(1000, (8, 64)), torch.randint(1000, (8 * 64,))
    model.to(device)
    return training_step(model, torch.optim.AdamW(model.parameters(), 1e-3), x.to(device), y.to(device))


def lstm(device: str) -> Step:
    torch.manual_seed(0)
    model, x, y = Lstm(), torch.randn(50, 32, 128), torch.randint(10, (32,))
    model.to(device)
    return training_step(model, torch.optim.SGD(model.parameters(), 0.01), x.to(device), y.to(device))


def resnet(device: str) -> Step:
    torch.manual_seed(0)
    model, x, y = ResNet(), torch.randn(32, 3, 64, 64), torch.randint(10, (32,))
    model.to(device)
    return training_step(model, torch.optim.SGD(model.parameters(), 0.01), x.to(device), y.to(device))


def vit(device: str) -> Step:
    torch.manual_seed(0)
    model, x, y = Vit(), torch.randn(16, 3, 32, 32), torch.randint(10, (16,))
    model.to(device)
    return training_step(model, torch.optim.AdamW(model.parameters(), 1e-3), x.to(device), y.to(device))


def unet(device: str) -> Step:
    torch.manual_seed(0)
    model, x = UNet().to(device), torch.randn(8, 3, 32, 32).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step() -> float:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def adamw(device: str) -> Step:
    """A step of AdamW over 100 parameters of 64 x 64."""
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(64, 64).to(device)) for _ in range(100)]
    for each in parameters:
        each.grad = torch.randn(64, 64).to(device)
    return torch.optim.AdamW(parameters, 1e-3).step


def ddp(device: str) -> Step:
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    rank = distributed.get_rank()
    torch.manual_seed(rank)
    group = distributed.new_group(backend="gloo" if device == "cpu" else "hccl")
    place = device if device == "cpu" else f"npu:{rank}"
    model, x, y = Cnn().to(place), torch.randn(16, 3, 32, 32).to(place), torch.randint(10, (16,)).to(place)
    parallel = DistributedDataParallel(model, process_group=group)
    return training_step(parallel, torch.optim.SGD(parallel.parameters(), 0.01), x, y)


def in_turns(make: Callable[[str], Step], rounds: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of CPU time of every round of `repeats` steps on either device, after one that warms up."""
    steps = {device: make(device) for device in ("cpu", "npu")}
    seconds: dict[str, list[float]] = {device: [] for device in steps}
    for number in range(rounds + 1):
        for device, step in steps.items():
            start = time.process_time()
            for _ in range(repeats):
                step()
            if number:
                seconds[device].append((time.process_time() - start) / repeats)
    return seconds


def main(rounds: int) -> None:
    result: Rounds
    if "RANK" in os.environ:
        from torch import distributed

        torch.set_num_threads(1)
        distributed.init_process_group("gloo")
        result = {"ddp": in_turns(ddp, rounds, 2)}
        is_first = distributed.get_rank() == 0
        distributed.destroy_process_group()
        if not is_first:
            return
    else:
        torch.set_num_threads(1)
        small = {
            name: lambda device, name=name: repeated(small_operators(device)[name]) for name in small_operators("cpu")
        }
        result = {name: in_turns(make, rounds, 1) for name, make in small.items()}
        steps = {"CNN": cnn, "GPT": gpt, "LSTM": lstm, "ViT": vit, "U-Net": unet}
        result |= {name: in_turns(make, rounds, 2) for name, make in steps.items()}
        result |= {"ResNet": in_turns(resnet, rounds, 1), "AdamW": in_turns(adamw, rounds, 20)}
    print(json.dumps(result))


if __name__ == "__main__":
    main(int(sys.argv[1]))
