"""torch_npu's products of quantized matrices against the formulas in its documents, in torch on the CPU."""

import pytest
import torch
import torch_npu


def whole(*shape):
    return torch.randint(-100, 100, shape, dtype=torch.int8)


def exact(a, b):
    return (a.double() @ b.double()).float()


def test_the_documented_example_of_int8():
    """Scale and offset as they are, and packed into 64 bits: the same but for a scale of 19 bits."""
    x1, x2 = torch.randint(-5, 5, (1, 16, 32), dtype=torch.int8), torch.randint(-5, 5, (3, 32, 16), dtype=torch.int8)
    scale, offset = torch.rand(16) * 0.1, torch.randint(-20, 20, (16,)).float()
    bias = torch.randint(-5, 5, (3, 1, 16)).int()
    ours = torch_npu.npu_quant_matmul(x1.npu(), x2.npu(), scale.npu(), offset=offset.npu(), bias=bias.npu())
    expected = ((exact(x1, x2) + bias) * scale + offset).round().clamp(-128, 127).to(torch.int8)
    assert torch.equal(ours.cpu(), expected)
    together = torch_npu.npu_trans_quant_param(scale.npu(), offset.npu())
    assert together.dtype is torch.int64
    packed = torch_npu.npu_quant_matmul(x1.npu(), x2.npu(), together, bias=bias.npu())
    assert (packed.cpu().int() - expected.int()).abs().max() <= 1
    round_scale = torch.tensor([0.5, -2.0, 3.0])
    exactly = torch_npu.npu_trans_quant_param(round_scale.npu(), torch.tensor([1.0, -256, 300]).npu()).cpu()
    assert (exactly & 0xFFFFFFFF).to(torch.int32).view(torch.float32).tolist() == round_scale.tolist()
    assert [(each >> 37) & 0x1FF for each in exactly.tolist()] == [1, 256, 255]


@pytest.mark.parametrize(("dtype", "bias"), [(torch.bfloat16, torch.float32), (torch.float16, torch.int32)])
def test_scales_of_rows_and_columns(dtype, bias):
    x1, x2, scale, rows = whole(6, 32), whole(32, 16), torch.rand(16) * 1e-3, torch.rand(6)
    addend = torch.randint(-50, 50, (16,)).to(bias)
    ours = torch_npu.npu_quant_matmul(
        x1.npu(), x2.npu(), scale.npu(), pertoken_scale=rows.npu(), bias=addend.npu(), output_dtype=dtype
    )
    sums = exact(x1, x2) + (addend if bias is torch.int32 else 0)
    expected = sums * scale * rows[:, None] + (0 if bias is torch.int32 else addend)
    torch.testing.assert_close(ours.cpu(), expected.to(dtype))
    sums = torch_npu.npu_quant_matmul(x1.npu(), x2.npu(), scale.npu(), output_dtype=torch.int32)
    assert torch.equal(sums.cpu(), exact(x1, x2).int())


def test_a_linear_layer_survives_quantization():
    x, weight = torch.randn(8, 64).half(), torch.randn(64, 32) * 0.1
    scale = weight.abs().amax(0) / 127
    y, rows = torch_npu.npu_dynamic_quant(x.npu())
    stored = (weight / scale).round().to(torch.int8)
    ours = torch_npu.npu_quant_matmul(y, stored.npu(), scale.npu(), pertoken_scale=rows, output_dtype=torch.float16)
    torch.testing.assert_close(ours.cpu().float(), x.float() @ weight, atol=0.05, rtol=0)
    same = torch_npu.npu_quant_matmul_dequant(x.npu(), stored.t().contiguous().npu(), scale.npu())
    torch.testing.assert_close(same, ours, atol=2e-3, rtol=2e-3)


def test_int4_matrices_in_int32():
    x1, x2 = torch.randint(-8, 8, (4, 16)).int(), torch.randint(-8, 8, (16, 24)).int()
    pack = torch_npu.npu_convert_weight_to_int4pack
    scale = torch.rand(24)
    ours = torch_npu.npu_quant_matmul(pack(x1.npu()), pack(x2.npu()), scale.npu(), output_dtype=torch.float16)
    torch.testing.assert_close(ours.cpu(), ((x1 @ x2) * scale).half())
    turned = pack(x2.t().contiguous().npu()).t()
    again = torch_npu.npu_quant_matmul(pack(x1.npu()), turned, scale.npu(), output_dtype=torch.float16)
    assert torch.equal(again, ours)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1,), (1, 16), (16,), (4, 16)])
def test_a_quantized_weight(dtype, shape):
    x, weight, bias = torch.randn(5, 128).to(dtype), whole(128, 16), torch.randn(16)
    scale, offset = torch.rand(shape).to(dtype) * 0.01, torch.randint(-5, 5, shape).to(dtype)
    size = 32 if shape == (4, 16) else 0
    ours = torch_npu.npu_weight_quant_batchmatmul(
        x.npu(), weight.npu(), scale.npu(), offset.npu(), bias=bias.npu(), antiquant_group_size=size
    )
    many = (lambda t: t.float().repeat_interleave(32, 0)) if size else (lambda t: t.float())
    plain = ((weight.float() + many(offset)) * many(scale)).to(dtype).float()
    torch.testing.assert_close(ours.cpu(), (x.float() @ plain + bias).to(dtype), atol=2e-2, rtol=2e-2)


def test_a_weight_of_four_bits_and_a_result_of_eight():
    x, weight = torch.randn(5, 16).half(), torch.randint(-8, 8, (16, 24)).int()
    scale, rounding = torch.rand(1, 24).half(), torch.rand(1, 24) * 4
    packed = torch_npu.npu_convert_weight_to_int4pack(weight.npu())
    ours = torch_npu.npu_weight_quant_batchmatmul(x.npu(), packed, scale.npu())
    torch.testing.assert_close(ours.cpu(), (x.float() @ (weight * scale).float()).half(), atol=2e-2, rtol=1e-2)
    small = torch_npu.npu_weight_quant_batchmatmul(x.npu(), packed, scale.npu(), quant_scale=rounding.npu())
    assert small.dtype is torch.int8
    assert (small.cpu().float() - (ours.cpu().float() * rounding).round().clamp(-128, 127)).abs().max() <= 1


def test_a_convolution_of_integers():
    x, weight, scale, bias = (
        whole(2, 4, 6, 6),
        whole(8, 2, 3, 3),
        torch.rand(8) * 1e-3,
        torch.randint(-9, 9, (8,)).int(),
    )
    ours = torch_npu.npu_quant_conv2d(
        x.npu(), weight.npu(), scale.npu(), [1, 1], [1, 1], [1, 1], 2, 0, "rint", torch.float16, bias.npu()
    )
    sums = torch.nn.functional.conv2d(x.double(), weight.double(), bias.double(), padding=1, groups=2)
    torch.testing.assert_close(ours.cpu(), (sums * scale[:, None, None]).half())


def test_what_is_not_computed_is_named():
    with pytest.raises(NotImplementedError, match="npu_quant_matmul with group_sizes"):
        torch_npu.npu_quant_matmul(whole(2, 8).npu(), whole(8, 8).npu(), torch.ones(8).npu(), group_sizes=[1, 1, 32])
