"""A recorded model computes: it gives the eager result on inputs that it was not recorded with."""

import io

import pytest
import torch
from torch import nn
from torch.export.passes import move_to_device_pass
from torch.testing import assert_close


class First(nn.Module):
    """The first of a module's results."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)[0]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.projection = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.projection(x).chunk(3, -1)
        return nn.functional.scaled_dot_product_attention(q, k, v)


LINE, IMAGE, VOLUME, ROWS = (2, 4, 9), (2, 4, 8, 8), (2, 4, 5, 5, 5), (2, 5, 8)
MODULES = {
    "conv1d": (lambda: nn.Conv1d(4, 6, 3), LINE),
    "conv2d": (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1), IMAGE),
    "conv2d, same": (lambda: nn.Conv2d(4, 6, 3, padding="same", bias=False), IMAGE),
    "conv2d, grouped": (lambda: nn.Conv2d(4, 8, 3, groups=4), IMAGE),
    "conv3d": (lambda: nn.Conv3d(4, 6, 3), VOLUME),
    "transposed 1d": (lambda: nn.ConvTranspose1d(4, 6, 3), LINE),
    "transposed 2d": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), IMAGE),
    "transposed 3d": (lambda: nn.ConvTranspose3d(4, 6, 3), VOLUME),
    "conv, norm, relu": (lambda: nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU()), IMAGE),
    "lstm": (lambda: First(nn.LSTM(8, 6, batch_first=True)), ROWS),
    "attention": (Attention, ROWS),
    "pooling": (lambda: nn.Sequential(nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()), IMAGE),
}
# The tracer records the device on which an LSTM's first state is made, on every device.
ELSEWHERE = [name for name in MODULES if name != "lstm"]


def of(name):
    torch.manual_seed(0)
    module, shape = MODULES[name]
    return module().npu().eval(), torch.randn(shape).npu(), torch.randn(shape).npu()


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("gradients", [False, True], ids=["no_grad", "grad"])
def test_a_traced_module_computes(name, gradients):
    module, seen, other = of(name)
    with torch.set_grad_enabled(gradients):
        traced = torch.jit.trace(module, seen)
        assert_close(traced(other), module(other))


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_traced_module_runs_on_the_cpu(name):
    module, seen, other = of(name)
    stored = io.BytesIO()
    torch.jit.save(torch.jit.trace(module, seen), stored)
    stored.seek(0)
    loaded = torch.jit.load(stored, map_location="cpu")
    assert_close(loaded(other.cpu()), module(other).cpu())


@pytest.mark.parametrize("name", ["conv1d", "conv, norm, relu", "attention"])
def test_scripted_and_exported_modules_compute(name):
    module, seen, other = of(name)
    expected = module(other)
    assert_close(torch.jit.script(module)(other), expected)
    exported = torch.export.export(module, (seen,))
    assert_close(exported.module()(other), expected)
    elsewhere = move_to_device_pass(exported, "cpu")
    assert_close(elsewhere.module()(other.cpu()), expected.cpu())
