"""Norms and gated units that end in integers, against their parts in torch on the CPU."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
import torch_npu

EPS = 1e-6


def normed(x, gamma, beta=0):
    return F.rms_norm(x.float(), gamma.shape, gamma.float(), EPS) + beta


def near(ours, values, low=-128, high=127):
    """Equal but where a value is between two integers."""
    assert ours.dtype is torch.int8
    assert (ours.cpu().float() - values.round().clamp(low, high)).abs().max() <= 1
    assert (ours.cpu().float() == values.round().clamp(low, high)).float().mean() > 0.98


def test_norms():
    x1, x2, gamma, beta = (torch.randn(shape).half() for shape in ((16, 32), (16, 32), (32,), (32,)))
    scale, zero = torch.rand(32) + 0.5, torch.randint(-10, 10, (32,)).int()
    x = (x1 + x2).half()
    values = normed(x, gamma, beta.float())
    args = [each.npu() for each in (x1, x2, gamma, scale, zero, beta)]
    y1, _, total = torch_npu.npu_add_rms_norm_quant(*args)
    near(y1, values / scale + zero)
    assert torch.equal(total.cpu(), x)
    _, y2, _ = torch_npu.npu_add_rms_norm_quant(*args, scales2=(scale * 2).npu(), div_mode=False)
    near(y2, values * scale * 2)
    one, half = torch.tensor([3.0]).half(), torch.tensor([1], dtype=torch.int8)
    near(
        torch_npu.npu_rms_norm_quant(x1.npu(), gamma.npu(), beta.npu(), one.npu(), half.npu(), EPS),
        normed(x1, gamma, beta.float()) * 3 + 1,
    )


def test_norms_by_rows():
    x1, x2, gamma, smooth = (torch.randn(shape).half() for shape in ((4, 5, 32), (4, 5, 32), (32,), (32,)))
    values = normed((x1 + x2).half(), gamma)
    scales = {"smooth_scale1": smooth.npu(), "smooth_scale2": (2 * smooth).npu()}
    quantized = partial(torch_npu.npu_add_rms_norm_dynamic_quant, x1.npu(), x2.npu(), gamma.npu(), **scales)
    y1, y2, x, scale1, scale2 = quantized(output_mask=[True, True])
    assert torch.equal(y1, quantized()[0])
    with pytest.raises(NotImplementedError, match=r"does not compute output_mask \[True, False\]"):
        quantized(output_mask=[True, False])
    expected = (values * smooth.float()).abs().amax(-1) / 127
    torch.testing.assert_close(scale1.cpu(), expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(scale2.cpu(), 2 * expected, rtol=1e-4, atol=1e-6)
    near(y1, values * smooth.float() / expected[..., None])
    assert torch.equal(y1, y2)
    assert torch.equal(x.cpu(), (x1 + x2).half())


def gated(x, left=False):
    a, b = x.float().chunk(2, -1)
    return F.silu(a) * b if left else F.silu(b) * a


def test_swiglu():
    x, smooth = torch.randn(6, 32), torch.rand(2, 16) + 0.5
    for kind, index in ((0, [2, 6]), (1, [2, 4])):
        y, scale = torch_npu.npu_swiglu_quant(
            x.npu(), smooth_scales=smooth.npu(), group_index=torch.tensor(index).int().npu(), quant_mode=1,
            group_list_type=kind,
        )  # fmt: skip
        values = gated(x) * smooth[torch.tensor([0, 0, 1, 1, 1, 1])]
        torch.testing.assert_close(scale.cpu(), values.abs().amax(-1) / 127)
        near(y, values / scale.cpu()[:, None])
    y, _ = torch_npu.npu_swiglu_quant(x.npu(), smooth_scales=smooth[0].npu(), activate_left=True)
    near(y, gated(x, True) * smooth[0])


def test_swiglu_of_sums():
    sums = torch.randint(-2000, 2000, (6, 128)).int()
    weight, rows, quant = torch.rand(1, 128) * 1e-2, torch.rand(6), torch.rand(1, 64) + 0.5
    y, scale = torch_npu.npu_dequant_swiglu_quant(
        sums.npu(), weight_scale=weight.npu(), activation_scale=rows.npu(), quant_scale=quant.npu(),
        group_index=torch.tensor([6]).npu(), activate_left=True, quant_mode=1,
    )  # fmt: skip
    values = gated(sums * weight * rows[:, None], True) * quant
    torch.testing.assert_close(scale.cpu(), values.abs().amax(-1) / 127)
    near(y, values / scale.cpu()[:, None])


def test_gelu():
    x = torch.randn(4, 16)
    y, scale = torch_npu.npu_gelu_quant(x.npu(), approximate="tanh")
    values = F.gelu(x, approximate="tanh")
    torch.testing.assert_close(scale.cpu(), values.abs().amax(-1) / 127)
    near(y, values / scale.cpu()[:, None])


def test_scattering_into_a_cache():
    cache = torch.zeros(3, 6, 4, dtype=torch.int8)
    updates, scales, starts = torch.randn(3, 2, 4).half() * 9, torch.rand(1, 1, 4) + 0.5, torch.tensor([0, 3, 1]).int()
    ours = torch_npu.npu_quant_scatter(cache.npu(), starts.npu(), updates.npu(), scales.npu(), axis=-2)
    expected = cache.clone()
    for batch, start in enumerate(starts.tolist()):
        expected[batch, start : start + 2] = (updates[batch].float() / scales[0]).round()
    assert torch.equal(ours.cpu(), expected)
    in_place = cache.npu()
    torch_npu.npu_quant_scatter_(in_place, starts.npu(), updates.npu(), scales.npu(), axis=-2)
    assert torch.equal(in_place, ours)
