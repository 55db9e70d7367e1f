"""`torch.set_default_dtype`: integers become it where floats are needed, and factories make it."""

import pytest
import torch
from torch.testing import assert_close


@pytest.fixture(params=[torch.float16, torch.bfloat16, torch.float64], ids=str)
def default(request):
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


def results(device):
    x = torch.arange(1, 4, device=device)
    yield from (x / 2, x / x, x * 2.0, x + 0.5, x**0.5, x**-1.0, torch.atan2(x, x), torch.xlogy(x, x))
    yield from (x.sqrt(), x.exp(), x.sin(), x.sigmoid(), x.logit(eps=0.1), torch.special.erf(x), x.rsqrt(), x.log())
    yield from (torch.where(x > 1, 1.0, 0.0), x.logsumexp(0), x.bool() / x.bool(), x.float() * 2.0, x * 1.0 + x)
    yield from (torch.eye(2, device=device), torch.eye(2, 3, device=device), torch.ones(2, device=device))
    yield from (torch.linspace(0, 1, 3, device=device), torch.logspace(0, 1, 3, device=device))
    yield from (torch.arange(0, 1, 0.5, device=device), torch.arange(3, device=device))
    yield from (torch.full((2,), 1.5, device=device), torch.tensor([1.5], device=device))
    yield from (
        torch.empty(2, device=device).fill_(1),
        torch.zeros(2, device=device),
        torch.hann_window(4, device=device),
    )


def test_the_default_dtype_is_that_of_floats(default):
    for expected, actual in zip(results("cpu"), results("npu"), strict=True):
        assert_close(actual.cpu(), expected)


def test_random_factories_make_it(default):
    assert {make(2, device="npu").dtype for make in (torch.rand, torch.randn, torch.empty)} == {default}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.bool, torch.float16])
def test_factories_of_another_dtype(dtype):
    for device in ("cpu", "npu"):
        assert torch.eye(2, dtype=dtype, device=device).dtype is dtype
    if dtype is not torch.bool:
        for make in (torch.linspace, torch.logspace):
            assert torch.equal(make(0, 2, 3, dtype=dtype, device="npu").cpu(), make(0, 2, 3, dtype=dtype))
