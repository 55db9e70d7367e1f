"""Every `_foreach_` overload, functional and in place, against torch."""

import pytest
import torch

aten = torch.ops.aten
UNARY = (
    *("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac"),
    *("log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh"),
    *("sqrt", "tan", "tanh", "trunc", "zero"),
)
BINARY = ["add", "sub", "mul", "div", "clamp_max", "clamp_min", "maximum", "minimum", "pow"]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def tensors(dtype, count=3):
    return [torch.rand(2 + i, 3).mul(0.9).add(0.05).to(dtype) for i in range(count)]


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_unary(name, dtype, check):
    check(getattr(aten, f"_foreach_{name}").default, tensors(dtype), scale=4)
    check(getattr(aten, f"_foreach_{name}_").default, tensors(dtype), scale=4)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_binary(name, dtype, check):
    for suffix in ("", "_"):
        packet = getattr(aten, f"_foreach_{name}{suffix}")
        check(packet.List, tensors(dtype), tensors(dtype), scale=4)
        check(packet.Scalar, tensors(dtype), 0.5, scale=4)
        check(packet.ScalarList, tensors(dtype), [0.5, 2, 0.25], scale=4)
        if "Tensor" in packet.overloads():
            check(packet.Tensor, tensors(dtype), torch.tensor(0.5, dtype=dtype), scale=4)
        if name in ("add", "sub"):
            check(packet.List, tensors(dtype), tensors(dtype), alpha=0.5, scale=4)


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fused_multiply_and_divide(name, dtype, check):
    for suffix in ("", "_"):
        packet = getattr(aten, f"_foreach_{name}{suffix}")
        lists = (tensors(dtype), tensors(dtype), tensors(dtype))
        check(packet.Scalar, *lists, 0.5, scale=4)
        check(packet.ScalarList, *lists, [0.5, 1.5, -1], scale=4)
        check(packet.Tensor, *lists, torch.tensor([0.5, 1.5, -1.0], dtype=dtype), scale=4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_lerp(dtype, check):
    for packet in (aten._foreach_lerp, aten._foreach_lerp_):
        check(packet.Scalar, tensors(dtype), tensors(dtype), 0.1, scale=4)
        check(packet.List, tensors(dtype), tensors(dtype), tensors(dtype), scale=4)
        check(packet.ScalarList, tensors(dtype), tensors(dtype), [0.1, 0.6, 1.0], scale=4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("order", [1, 2, float("inf")])
def test_norm(dtype, order, check):
    check(aten._foreach_norm.Scalar, tensors(dtype), order, scale=4)


def test_norm_in_another_dtype(check):
    check(aten._foreach_norm.Scalar, tensors(torch.bfloat16), 2, torch.float32)
    check(aten._foreach_powsum.Scalar, tensors(torch.float32), 2)


def test_max_copy_and_power_of_a_scalar(check):
    check(aten._foreach_max.default, tensors(torch.float32))
    check(aten._foreach_copy.default, tensors(torch.bfloat16), tensors(torch.float32))
    check(aten._foreach_copy_.default, tensors(torch.float16), tensors(torch.float32))
    check(aten._foreach_pow.ScalarAndTensor, 0.9, tensors(torch.float32))


def test_integer_lists(check):
    lists = [torch.arange(4), torch.arange(3, dtype=torch.int32)]
    check(aten._foreach_add_.Scalar, lists, 1)
    check(aten._foreach_mul_.Scalar, lists, 3)
    check(aten._foreach_add.List, lists, lists, alpha=2)


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_fused_operators_broadcast_and_take_lists_of_mixed_kinds(name, check):
    firsts = [torch.rand(2, 3), torch.rand(2, 3), torch.rand(()), torch.rand(2, 3).double(), torch.rand(3, 2).t()]
    seconds = [torch.rand(3), torch.rand(2, 3), torch.rand(()), torch.rand(2, 3), torch.rand(2, 3)]
    check(getattr(aten, f"_foreach_{name}_").ScalarList, firsts, seconds, seconds, [0.5, 0.1, 2.0, 3.0, -0.7], scale=4)


def test_lists_that_overlap_in_part_are_refused():
    x = torch.arange(6.0, device="npu")
    last, first = [x[:2], x[1:]], [x[:2], x[:-1]]
    for write in (
        lambda: torch._foreach_add_(last, first),
        lambda: torch._foreach_copy_(last, first),
        lambda: torch._foreach_lerp_(last, first, 0.5),
        lambda: torch._foreach_addcmul_(last, last, first),
    ):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"):
            write()
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single"):
        torch._foreach_mul_([x[:1].expand(3)], 2.0)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    torch._foreach_add_(last, last)
    assert x.tolist() == [0, 4, 4, 6, 8, 10]
