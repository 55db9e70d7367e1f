"""Train a flow of couplings on two moons: python flow.py"""
import math

import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", torch.tensor(mask))
        self.scale = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(), nn.Linear(24, 2), nn.Tanh())
        self.shift = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(), nn.Linear(24, 2))

    def forward(self, x):
        stored = x * self.mask
        scale = self.scale(stored) * (1 - self.mask)
        return stored + (1 - self.mask) * (x * scale.exp() + self.shift(stored)), scale.sum(-1)


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.couplings = nn.ModuleList(Coupling([float(number % 2), float(1 - number % 2)]) for number in range(4))

    def forward(self, x):
        total = torch.zeros(len(x), device=x.device)
        for coupling in self.couplings:
            x, change = coupling(x)
            total = total + change
        return (total - 0.5 * x.square().sum(-1) - math.log(2 * math.pi)).mean()


def main():
    torch.manual_seed(21)
    flow = Flow().cuda()
    optimizer = torch.optim.Adamax(flow.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for _ in range(4):
        angles = torch.rand(128, device="cuda") * torch.pi
        upper = torch.stack([angles.cos(), angles.sin()], -1)
        x = torch.where(torch.rand(128, 1, device="cuda") < 0.5, upper, 0.5 - upper) + 0.05 * torch.randn(128, 2, device="cuda")
        loss = -flow(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print("loss", loss.item())


if __name__ == "__main__":
    main()
