"""Whole models, forward, backward and optimizer step: every operator agrees with torch, and none lacks a kernel."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

# What the device does by itself: allocation, copies, numbers of the host.
DEVICES_OWN = {
    *("clone", "copy_", "_to_copy", "detach", "_local_scalar_dense", "_unsafe_view", "scalar_tensor"),
    *(
        "empty.memory_format",
        "empty_like",
        "new_empty_strided",
        "ones",
        "zeros",
        "zeros_like",
        "new_zeros",
        "ones_like",
    ),
    *(
        "empty_strided",
        "resize_",
        "full",
        "full_like",
        "fill_.Scalar",
        "fill_.Tensor",
        "zero_",
        "lift_fresh",
        "unsqueeze_",
    ),
}


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)),
            *(nn.Conv2d(8, 8, 3, groups=2), nn.GroupNorm(2, 8), nn.SiLU(), nn.AvgPool2d(2)),
            *(nn.ConvTranspose2d(8, 6, 4, 2, 1), nn.LeakyReLU(0.2), nn.Upsample(scale_factor=2, mode="bilinear")),
            *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 10)),
        )

    def forward(self, x):
        return self.body(x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.norm, self.heads = nn.Embedding(11, 16), nn.LayerNorm(16), 2
        self.qkv, self.mlp, self.out = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 10)
        self.rms = nn.RMSNorm(16)

    def forward(self, tokens):
        x = self.embedding(tokens)
        b, t, width = x.shape
        q, k, v = (
            each.view(b, t, self.heads, -1).transpose(1, 2) for each in self.qkv(self.norm(x)).split(width, dim=2)
        )
        scores = (q @ k.transpose(-2, -1)) * width**-0.5
        scores = scores.masked_fill(torch.triu(torch.ones(t, t, dtype=torch.bool), 1), float("-inf"))
        x = x + (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, width)
        return self.out(self.rms(x + F.gelu(self.mlp(x)))).mean(1)


IMAGES, TOKENS = torch.randn(4, 3, 16, 16), torch.randint(0, 11, (4, 7))
OPTIMIZERS = [
    lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    lambda parameters: torch.optim.AdamW(parameters, 0.01, foreach=True),
    lambda parameters: torch.optim.Adam(parameters, 0.01, foreach=False, amsgrad=True),
    lambda parameters: torch.optim.RMSprop(parameters, 0.01, momentum=0.5, centered=True),
    lambda parameters: torch.optim.Adagrad(parameters, 0.01),
    lambda parameters: torch.optim.Adadelta(parameters),
    lambda parameters: torch.optim.NAdam(parameters, 0.01, foreach=True),
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=range(len(OPTIMIZERS)))
@pytest.mark.parametrize(("model", "batch"), [(Convolutional, IMAGES), (Attention, TOKENS)], ids=["conv", "attention"])
def test_training_steps(model, batch, optimizer, differential):
    torch.manual_seed(0)
    network = model()
    steps = optimizer(network.parameters())
    target = torch.tensor([1, 2, 3, 4])
    mode = differential(scale=10)
    with mode:
        for _ in range(2):
            steps.zero_grad()
            F.cross_entropy(network(batch), target).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            steps.step()
    assert not mode.failures, mode.failures
    missing = {name.removeprefix("aten::") for name in +mode.missing if name.startswith("aten::")}
    # The device derives `out=` overloads from the functional kernel.
    assert {name for name in missing if not name.endswith("out")} <= DEVICES_OWN
