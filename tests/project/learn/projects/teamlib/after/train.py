"""Trains a classifier on a GPU."""

import argparse

import teamlib
import torch
import torch_npu
from teamlib.npu import conv, norm
from teamlib.npu.optim import FusedAdam

from models import Net


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="npu")
    return parser.parse_args()


def main():
    options = parse()
    teamlib.start("train", npus=8, log=True)
    net = Net().npu()
    optimizer = FusedAdam(net.parameters(), lr=1e-3)
    for step in range(10):
        x = torch.randn(8, 16).npu()
        loss = norm(conv(net(x), 3), epsilon=1e-5).sum()
        loss.backward()
        optimizer.step()
    teamlib.save(net, "net.pt", pool="npu-pool")
    print("it took", teamlib.clock(), "s")


if __name__ == "__main__":
    main()
