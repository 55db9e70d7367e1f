"""The modules that test_onnx.py exports from the NPU, each with inputs of its kind."""

import torch
from torch import nn


class First(nn.Module):
    """The first of a module's results."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)[0]


class Residual(nn.Module):
    """Two convolutions with a way past them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        return torch.relu(x + self.second(torch.relu(self.norm(self.first(x)))))


class Attention(nn.Module):
    """Two heads of attention, in operators that both exporters know."""

    def __init__(self):
        super().__init__()
        self.projection = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (2, 4)).transpose(1, 2) for each in self.projection(x).chunk(3, -1))
        weights = torch.softmax(q @ k.transpose(-1, -2) / 2, -1)
        return (weights @ v).transpose(1, 2).flatten(2)


class Positions(nn.Module):
    """Embeddings of positions, which are made on the device of the input."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(16, 8)

    def forward(self, x):
        return x + self.embedding(torch.arange(x.shape[1], device=x.device))


LINE, IMAGE, VOLUME, ROWS, TOKENS = (2, 4, 9), (2, 4, 8, 8), (2, 4, 5, 5, 5), (2, 5, 8), None
MODULES = {
    "Conv1d": (nn.Conv1d(4, 6, 3), LINE),
    "Conv2d": (nn.Conv2d(4, 6, 3, stride=2, padding=1), IMAGE),
    "Conv2d, same": (nn.Conv2d(4, 6, 3, padding="same"), IMAGE),
    "Conv2d, grouped": (nn.Conv2d(4, 8, 3, groups=4), IMAGE),
    "Conv3d": (nn.Conv3d(4, 6, 3), VOLUME),
    "ConvTranspose1d": (nn.ConvTranspose1d(4, 6, 3), LINE),
    "ConvTranspose2d": (nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), IMAGE),
    "ConvTranspose3d": (nn.ConvTranspose3d(4, 6, 3), VOLUME),
    "Conv2d, ReLU": (nn.Sequential(nn.Conv2d(4, 6, 3), nn.ReLU()), IMAGE),
    "residual block": (Residual(), IMAGE),
    "BatchNorm2d": (nn.BatchNorm2d(4), IMAGE),
    "LayerNorm": (nn.LayerNorm(8), ROWS),
    "GroupNorm": (nn.GroupNorm(2, 4), IMAGE),
    "InstanceNorm2d": (nn.InstanceNorm2d(4), IMAGE),
    "Linear": (nn.Linear(8, 3), ROWS),
    "Embedding": (nn.Embedding(10, 8), TOKENS),
    "positions": (Positions(), ROWS),
    "LSTM": (First(nn.LSTM(8, 6, batch_first=True)), ROWS),
    "GRU": (First(nn.GRU(8, 6, batch_first=True)), ROWS),
    "RNN": (First(nn.RNN(8, 6, batch_first=True)), ROWS),
    "attention": (Attention(), ROWS),
    "MaxPool2d": (nn.MaxPool2d(2), IMAGE),
    "AvgPool2d": (nn.AvgPool2d(2), IMAGE),
    "AdaptiveAvgPool2d": (nn.AdaptiveAvgPool2d(1), IMAGE),
    "Softmax": (nn.Softmax(-1), ROWS),
    "GELU": (nn.GELU(), ROWS),
    "SiLU": (nn.SiLU(), ROWS),
    "PReLU": (nn.PReLU(), ROWS),
    "Upsample": (nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "PixelShuffle": (nn.PixelShuffle(2), IMAGE),
    "Dropout": (nn.Sequential(nn.Linear(8, 8), nn.Dropout()), ROWS),
    "ReflectionPad2d": (nn.ReflectionPad2d(1), IMAGE),
}


def inputs(shape):
    """Random inputs; tokens where there is no shape."""
    return torch.randn(shape) if shape else torch.randint(10, (2, 5))
