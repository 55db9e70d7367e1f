import teamlib
from teamlib import Trainer
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)

    @teamlib.capture(warmup=3)
    def forward(self, x):
        return teamlib.gpu.norm(self.inner(x), eps=1e-6)


class Ours(Trainer):
    def to_gpu(self):
        super().to_gpu()


def fit(net):
    trainer = Ours(net)
    trainer.to_gpu()
    batch = teamlib.Batch(8)
    if batch.on_gpu:
        net = teamlib.compile(net, fast=True)
    return net, 3 * len(batch)
