import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gpu2npu.emulator.device.dispatch import cube
from gpu2npu.emulator.soc import soc_named


@pytest.fixture
def precision():
    """Both switches, which are as they were afterwards."""
    before = torch.npu.matmul.allow_hf32, torch.npu.conv.allow_hf32
    yield torch.npu
    torch.npu.matmul.allow_hf32, torch.npu.conv.allow_hf32 = before


def test_hf32_keeps_eleven_bits_of_mantissa_and_ties_go_to_even():
    step = 2.0**-11
    given = np.array([1 + step, 1 + step / 2, 1 + 3 * step / 2, 1 + step / 2 + 2**-23, -1 - 3 * step / 4, 3e38, 0.0])
    expected = [1 + step, 1.0, 1 + 2 * step, 1 + step, -1 - step, float(np.float32(3e38)), 0.0]
    result = cube.hf32(given.astype(np.float32))
    np.testing.assert_allclose(result, expected, rtol=2.0**-12 * 0.51, atol=0)
    assert result[:5].tolist() == expected[:5]
    assert not (result.view(np.uint32) & 0xFFF).any()


def test_hf32_leaves_infinities_nan_and_what_it_was_given():
    bits = np.array([0x7F800000, 0xFF800000, 0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32)
    given = bits.view(np.float32)
    result = cube.hf32(given)
    assert np.isposinf(result[0]) and np.isneginf(result[1]) and np.isnan(result[2:]).all()
    assert (given.view(np.uint32) == bits).all()


def test_hf32_of_many_random_numbers_is_nearest():
    x = np.random.default_rng(0).standard_normal((300, 401)).astype(np.float32)[:, ::2]
    _, exponent = np.frexp(x)
    unit = np.ldexp(1.0, exponent - 12)
    np.testing.assert_array_equal(cube.hf32(x), (np.round(x.astype(np.float64) / unit) * unit).astype(np.float32))


PRODUCTS = {
    "mm": lambda a, b: a @ b,
    "addmm": lambda a, b: torch.addmm(a, a, b),
    "bmm": lambda a, b: torch.bmm(a[None], b[None]),
    "baddbmm": lambda a, b: torch.baddbmm(a[None], a[None], b[None]),
    "linear": lambda a, b: F.linear(a, b, b[0]),
    "einsum": lambda a, b: torch.einsum("ij,jk->ik", a, b),
    "mv": lambda a, b: a @ b[0],
    "attention": lambda a, b: F.scaled_dot_product_attention(a[None], b[None], b[None]),  # of 3 dimensions: composed
}


@pytest.mark.parametrize("product", PRODUCTS)
def test_matrix_products_take_hf32_only_when_allowed(precision, product):
    torch.manual_seed(0)
    a, b = torch.randn(16, 16), torch.randn(16, 16)
    compute = PRODUCTS[product]
    expected = compute(a, b)
    precision.matmul.allow_hf32 = False
    exact = compute(a.npu(), b.npu()).cpu()
    torch.testing.assert_close(exact, expected, rtol=1e-5, atol=1e-5)
    precision.matmul.allow_hf32 = True
    rounded = compute(a.npu(), b.npu()).cpu()
    assert 1e-5 < (rounded - expected).abs().max() < 0.02


def test_a_product_of_hf32_is_that_of_the_rounded_factors(precision):
    torch.manual_seed(1)
    a, b = torch.randn(9, 33), torch.randn(33, 5)
    precision.matmul.allow_hf32 = True
    ours = (a.npu() @ b.npu()).cpu()
    by_hand = torch.from_numpy(cube.hf32(a.numpy())) @ torch.from_numpy(cube.hf32(b.numpy()))
    torch.testing.assert_close(ours, by_hand, rtol=1e-6, atol=1e-6)


def test_convolutions_and_their_gradients_take_hf32_unless_forbidden(precision):
    torch.manual_seed(2)
    x, w = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)

    def gradients(device):
        leaves = [each.to(device).requires_grad_() for each in (x, w)]
        y = F.conv2d(*leaves, padding=1)
        return [each.cpu() for each in (y, *torch.autograd.grad(y.square().sum(), leaves))]

    expected = gradients("cpu")
    precision.conv.allow_hf32 = False
    for ours, theirs in zip(gradients("npu"), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    precision.conv.allow_hf32 = True
    for ours, theirs in zip(gradients("npu"), expected, strict=True):
        relative = ((ours - theirs).norm() / theirs.norm()).item()
        assert 1e-5 < relative < 1e-3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_products_are_summed_in_float32_and_rounded_once(dtype):
    # 4096 ones: a sum in the narrow type stops at 2048 (float16) or 256 (bfloat16).
    ones = torch.ones(1, 4096, dtype=dtype, device="npu")
    assert (ones @ ones.t()).item() == 4096
    assert F.conv1d(ones[None], ones[None]).item() == 4096
    assert F.linear(ones, ones).item() == 4096
    assert torch.bmm(ones[None], ones.t()[None]).item() == 4096


OWN_PRODUCTS = {
    "npu_linear": lambda a, b: torch.ops.npu.npu_linear(a, b),
    "npu_bmmV2": lambda a, b: torch.ops.npu.npu_bmmV2(a[None], b[None], []),
}


@pytest.mark.parametrize("product", OWN_PRODUCTS)
def test_torch_npus_own_products_take_hf32_too(precision, product):
    torch.manual_seed(0)
    leaves = [torch.randn(16, 16, device="npu").requires_grad_() for _ in range(2)]

    def results(allowed):
        precision.matmul.allow_hf32 = allowed
        y = OWN_PRODUCTS[product](*leaves)
        return [each.detach().cpu() for each in (y, *torch.autograd.grad(y.square().sum(), leaves))]

    for exact, rounded in zip(results(False), results(True), strict=True):
        relative = ((rounded - exact).norm() / exact.norm()).item()
        assert 1e-5 < relative < 1e-3


def test_torch_npus_own_products_refuse_float64():
    d = torch.ones(2, 2, dtype=torch.float64, device="npu")
    q = d[None, None]
    for product in (
        lambda: torch.ops.npu.npu_linear(d, d),
        lambda: torch.ops.npu.npu_bmmV2(d[None], d[None], []),
        lambda: torch.ops.npu.npu_fusion_attention(q, q, q, 1, "BNSD"),
    ):
        with pytest.raises(RuntimeError, match=r"call aclnn.* failed.*DT_DOUBLE"):
            product()


def test_the_older_name_of_the_switch_is_the_same_switch(precision):
    precision.conv.allow_hf32 = True
    assert precision.aclnn.allow_hf32 is True
    precision.aclnn.allow_hf32 = False
    assert precision.conv.allow_hf32 is False
    with precision.aclnn.flags(allow_hf32=True):
        assert precision.conv.allow_hf32 is True
    assert precision.aclnn.allow_hf32 is False
    with pytest.raises(TypeError, match="allow_hf32 must be a bool"):
        precision.aclnn.allow_hf32 = 0


def test_the_switches_take_bools_alone(precision):
    for switch in (precision.matmul, precision.conv):
        with pytest.raises(TypeError, match="allow_hf32 must be a bool, but got int"):
            switch.allow_hf32 = 1


def test_the_first_generation_multiplies_float32_as_float16(monkeypatch):
    monkeypatch.setattr(cube, "current_soc", lambda: soc_named("Ascend910A"))
    prepare = cube.preparation("aten::addmm")
    bias, a, b = np.float32([0.1]), np.float32([[1 + 2.0**-12, 1e6]]), np.float32([[1 / 3]])
    values = [bias, a, b]
    prepare(values)
    assert values[0] is bias
    assert values[1].tolist() == [[1.0, 65504.0]]
    assert values[2].dtype == np.float32
    assert values[2].item() == float(np.float16(1 / 3))
