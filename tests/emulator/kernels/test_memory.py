"""Operators whose plainest code has a square of its elements in memory: at most 8 times the inputs beside them."""

import tracemalloc

import pytest
import torch
from torch.nn import functional as F

SIGNAL, ROWS = (1, 2, 100_000), (700, 300)
CALLS = {
    "cdist": (ROWS, lambda x: torch.cdist(x, x.detach())),
    "pdist": (ROWS, torch.pdist),
    "reflection": (SIGNAL, lambda x: F.pad(x, (5, 5), mode="reflect")),
    "replication": (SIGNAL, lambda x: F.pad(x, (5, 5), mode="replicate")),
    "nearest": (SIGNAL, lambda x: F.interpolate(x, scale_factor=2.0)),
    "labels": ((300, 300), lambda x: F.multilabel_margin_loss(x, torch.arange(300).repeat(300, 1).npu())),
    "linear": (SIGNAL, lambda x: F.interpolate(x, scale_factor=0.5, mode="linear")),
}


@pytest.mark.filterwarnings("ignore:CAUTION")
@pytest.mark.parametrize("name", CALLS)
def test_it_takes_a_few_times_the_memory_of_its_inputs(name: str) -> None:
    shape, call = CALLS[name]
    given = torch.randn(shape).npu().requires_grad_()
    call(given).sum().backward()  # loads what is loaded once
    tracemalloc.start()
    try:
        call(given).sum().backward()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 8 * given.numel() * given.element_size() + 8 * (1 << 20), most


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_a_sparse_map_gives_what_a_dense_one_does(mode: str) -> None:
    given = torch.randn(1, 2, 3000)
    found = []
    for device in ("cpu", "npu"):
        x = given.to(device, copy=True).requires_grad_()
        out = F.interpolate(F.pad(x, (7, 9), mode="reflect"), size=2100, mode=mode)
        (out * out.detach().cos()).sum().backward()
        found.append((out.detach().cpu(), x.grad.cpu()))
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-4)
