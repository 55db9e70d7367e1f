"""torch_npu's quantization against the formulas in its documents, in torch on the CPU."""

import pytest
import torch
import torch_npu


def test_scales_that_are_given():
    x = torch.randn(2, 3, 8) * 20
    scale, zero = torch.rand(8) + 0.5, torch.randint(-5, 5, (8,))
    ours = torch_npu.npu_quantize(x.npu(), scale.npu(), zero.int().npu(), torch.qint8, -1, True)
    assert torch.equal(ours.cpu(), (x / scale + zero).round().clamp(-128, 127).to(torch.int8))
    ours = torch_npu.npu_quantize(x.npu(), scale.npu(), None, torch.qint8, -1, False)
    assert torch.equal(ours.cpu(), (x * scale).round().clamp(-128, 127).to(torch.int8))
    ours = torch_npu.npu_quantize(x.npu(), torch.ones(3).npu(), None, torch.quint8, 1, True)
    assert torch.equal(ours.cpu(), x.round().clamp(0, 255).to(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scales_of_rows(dtype):
    x = torch.randn(4, 5, 16).to(dtype)
    x[0, 0] = 0
    y, scale = torch_npu.npu_dynamic_quant(x.npu())
    expected = x.float().abs().amax(-1) / 127
    torch.testing.assert_close(scale.cpu(), expected)
    assert y.dtype is torch.int8
    assert torch.equal(y[1:].cpu(), (x[1:].float() / expected[1:, :, None]).round().to(torch.int8))
    assert not y[0, 0].any()
    torch.testing.assert_close(y.cpu() * scale.cpu()[..., None], x.float(), atol=0.03, rtol=0)


def test_groups_of_rows_have_their_smooth_scales():
    x, smooth = torch.randn(5, 8).half(), torch.rand(2, 8).half() + 0.5
    ends = torch.tensor([2, 5]).int()
    y, scale = torch_npu.npu_dynamic_quant(x.npu(), smooth_scales=smooth.npu(), group_index=ends.npu())
    values = x.float() * smooth.float()[torch.tensor([0, 0, 1, 1, 1])]
    torch.testing.assert_close(scale.cpu(), values.abs().amax(-1) / 127)
    assert torch.equal(y.cpu(), (values / scale.cpu()[:, None]).round().to(torch.int8))
    one, _ = torch_npu.npu_dynamic_quant(x.npu(), smooth_scales=smooth[0].npu())
    assert torch.equal(one[:2], y[:2])


def test_rows_between_their_extremes():
    x = torch.rand(3, 8).half()
    y, scale, offset = torch_npu.npu_dynamic_quant_asymmetric(x.npu())
    values = x.float()
    torch.testing.assert_close(scale.cpu(), (values.amax(-1) - values.amin(-1)) / 255)
    assert (y.cpu().amax(-1), y.cpu().amin(-1)) == (pytest.approx([127] * 3), pytest.approx([-128] * 3))
    torch.testing.assert_close((y.cpu() - offset.cpu()[:, None]) * scale.cpu()[:, None], values, atol=3e-3, rtol=0)


def test_four_bits_are_packed_by_eight():
    x = torch.randn(3, 16).half()
    y, scale = torch_npu.npu_dynamic_quant(x.npu(), dst_type=torch.quint4x2)
    assert (y.dtype, y.shape) == (torch.int32, (3, 2))
    whole = (x.float() / scale.cpu()[:, None]).round()
    back = torch_npu.npu_anti_quant(y, torch.ones(1).npu(), dst_dtype=torch.float16, src_dtype=torch.quint4x2)
    assert torch.equal(back.cpu().float(), whole)
    low = torch_npu.npu_convert_weight_to_int4pack(torch.tensor([[1, 2, 3, 4, 5, 6, 7, -8]]).int().npu())
    assert low.cpu().view(torch.uint8).tolist() == [[0x21, 0x43, 0x65, 0x87]]


def test_the_documented_example_of_undoing():
    x = torch.tensor([1, 2, 3, 4], dtype=torch.int8).npu()
    two = torch.tensor([2.0]).npu()
    found = torch_npu.npu_anti_quant(x, two, offset=two, dst_dtype=torch.float16)
    assert (found.dtype, found.tolist()) == (torch.float16, [6, 8, 10, 12])


def test_groups_and_biases():
    x, scale, ends = torch.randn(5, 4).half() * 9, torch.rand(2, 4), torch.tensor([1, 5]).int()
    ours = torch_npu.npu_group_quant(x.npu(), scale.npu(), ends.npu(), offset=torch.ones(1).npu(), dst_dtype=torch.int8)
    rows = torch.tensor([0, 1, 1, 1, 1])
    assert torch.equal(ours.cpu(), (x.float() * scale[rows] + 1).round().to(torch.int8))
    sums, bias = torch.randint(-999, 999, (3, 4)).int(), torch.randint(-99, 99, (4,)).int()
    ours = torch_npu.npu_dequant_bias(
        sums.npu(), scale[0].npu(), torch.ones(3).npu() * 2, bias.npu(), output_dtype=torch.float16
    )
    torch.testing.assert_close(ours.cpu(), ((sums + bias) * scale[0] * 2).half())


def test_float8_is_refused_by_name():
    with pytest.raises(NotImplementedError, match=r"quantization to the dtype 291"):
        torch_npu.npu_dynamic_quant(torch.randn(2, 8).half().npu(), dst_type=291)
