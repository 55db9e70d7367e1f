import teamlib
from teamlib import Trainer
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x):
        return teamlib.npu.norm(self.inner(x), epsilon=1e-6)


class Ours(Trainer):
    def to_npu(self):
        super().to_npu()


def fit(net):
    trainer = Ours(net)
    trainer.to_npu()
    batch = teamlib.Batch(8)
    if batch.is_on("npu"):
        net = teamlib.compile(net, fast=True, level=2)
    return net, 3 * len(batch)
