"""Trains a classifier on a GPU."""

import argparse

import teamlib
import torch
from teamlib.gpu import conv, norm
from teamlib.gpu.optim import FusedAdam

from models import Net


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


def main():
    options = parse()
    teamlib.start("train", gpus=8, log=True)
    net = Net().cuda()
    optimizer = FusedAdam(net.parameters(), lr=1e-3, capturable=True)
    for step in range(10):
        x = torch.randn(8, 16).cuda()
        loss = norm(conv(net(x), 3), eps=1e-5).sum()
        loss.backward()
        optimizer.step()
        teamlib.gpu.reset_graphs()
    teamlib.save(net, "net.pt", pool="gpu-pool")
    print("took", teamlib.clock())


if __name__ == "__main__":
    main()
