"""Arithmetic at the corners op_db does not visit: mixed dtypes, strides, wrap-around, errors.

Infinities and NaN are in test_special_values.py.
"""

import operator as op

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

aten = torch.ops.aten
SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e8, -1e-3, float("inf"), float("-inf"), float("nan")])
BINARY = [
    aten.add.Tensor,
    aten.sub.Tensor,
    aten.mul.Tensor,
    aten.div.Tensor,
    aten.remainder.Tensor,
    aten.fmod.Tensor,
    aten.floor_divide.default,
    aten.pow.Tensor_Tensor,
    aten.maximum.default,
    aten.minimum.default,
    aten.atan2.default,
    aten.xlogy.Tensor,
    aten.logaddexp.default,
    aten.eq.Tensor,
    aten.lt.Tensor,
    aten.logical_and.default,
]
# torch has no integer version of it, and wants positive integers to be exponents.
FLOAT_ONLY = (aten.logaddexp.default,)
POSITIVE_ONLY = (aten.pow.Tensor_Tensor,)


@pytest.mark.parametrize("operator", [each for each in BINARY if each not in FLOAT_ONLY], ids=str)
def test_binary_of_integers(operator, check):
    a = torch.arange(-6, 6)
    check(operator, a, torch.tensor([1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5]))
    if operator not in POSITIVE_ONLY:
        check(operator, a.to(torch.int32)[:, None], torch.tensor([[-3, 2]]))


SHAPES = st.sampled_from([(), (1,), (3,), (2, 3), (2, 1), (0,), (1, 0)])
DTYPES = st.sampled_from(
    [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
)


@given(
    SHAPES, SHAPES, DTYPES, DTYPES, st.sampled_from([aten.add.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.lt.Tensor])
)
@settings(max_examples=300)
def test_mixed_dtypes_and_broadcast_shapes(check, one, other, first, second, operator):
    try:
        torch.broadcast_shapes(one, other)
    except RuntimeError:
        return
    check(operator, torch.ones(one, dtype=first), torch.full(other, 3, dtype=second), scale=4)


def test_non_contiguous_operands(check):
    x = torch.randn(4, 6, 5)
    check(aten.add.Tensor, x.permute(2, 0, 1)[::2], x.permute(2, 0, 1)[1::2][:1])
    check(aten.mul.Tensor, x[:, ::2].transpose(0, 2), torch.randn(3, 1).expand(3, 4))
    check(aten.exp.default, x.transpose(0, 1))


def test_python_scalars(check):
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool):
        x = torch.ones(3, dtype=dtype)
        for scalar in (True, 2, 0.1):
            check(aten.add.Tensor, x, scalar)
            check(aten.mul.Tensor, x, scalar)
            check(aten.div.Tensor, x, scalar)
            check(aten.eq.Scalar, x, scalar)
            check(aten.pow.Tensor_Scalar, x, scalar)


def test_alpha_and_value(check):
    a, b, c = torch.randn(3, 4), torch.randn(4), torch.rand(3, 1) + 1
    check(aten.add.Tensor, a, b, alpha=0.5)
    check(aten.sub.Tensor, a.half(), b.half(), alpha=3)
    check(aten.rsub.Scalar, a, 2, 3)
    check(aten.addcmul.default, a, b, c, value=0.25)
    check(aten.addcdiv.default, a, b, c, value=-2)
    check(aten.addcdiv.default, a, torch.arange(1, 5), c)
    check(aten.addcdiv.default, a, c, torch.arange(1, 5))


def test_division_of_integers_is_not_added(kernels_of):
    with pytest.raises(RuntimeError, match="Integer division"):
        kernels_of["aten::addcdiv"](np.ones(2, np.float32), np.ones(2, np.int64), np.ones(2, np.int32))


def test_angles(check):
    check(aten.angle.default, torch.tensor([1 + 1j, -1 + 0j, -2j, 0j, 3 - 4j]))
    check(aten.angle.default, SPECIAL)
    check(aten.angle.default, torch.tensor([-2, 0, 3]))


@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 3])
def test_rounding_to_decimals(decimals, check):
    check(aten.round.decimals, torch.tensor([1234.5678, -1250.0, 0.0625, 0.5, 1.5, -0.05]), decimals=decimals)
    assert torch.round(torch.tensor([15, -26], device="npu"), decimals=2).tolist() == [15, -26]  # the CPU refuses them


def test_rounding_modes(check):
    a = torch.tensor([-7, -6, -1, 0, 1, 6, 7])
    for mode in (None, "floor", "trunc"):
        check(aten.div.Tensor_mode, a, torch.tensor([3, -3, 2, 1, -2, 4, 7]), rounding_mode=mode)
        check(aten.div.Tensor_mode, a.float(), torch.tensor(2.0), rounding_mode=mode)
        check(aten.div.Tensor_mode, SPECIAL[:-3], torch.tensor(0.0), rounding_mode=mode)
    for mode in ("floor", "trunc"):  # exactly, which float64 is not
        check(aten.div.Tensor_mode, torch.tensor([2**62 + 1, -(2**62) - 1]), torch.tensor([3, 3]), rounding_mode=mode)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("exponent", [0, 0.5, 1, 1.5, 2, 2.5, 3, 4, -0.5, -1, -1.5, -2, -3])
def test_powers_of_one_exponent(exponent, dtype, check):
    check(aten.pow.Tensor_Scalar, SPECIAL.to(dtype), exponent)


def test_integers_wrap_on_overflow(kernels_of):
    big = np.full(1, 2**31 - 1, np.int32)
    assert kernels_of["aten::add.Tensor"](big, 1) == -(2**31)


def test_integer_division_by_zero_is_torchs_error(kernels_of):
    for name in ("aten::floor_divide", "aten::remainder.Tensor", "aten::fmod.Tensor"):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            kernels_of[name](np.arange(3), np.array([1, 0, 2]))


def test_integers_to_negative_powers(check, kernels_of):
    check(aten.pow.Tensor_Tensor, torch.tensor([1, -1, -1, 2, 5]), torch.tensor([-3, -3, -2, -1, 2]))
    with pytest.raises(RuntimeError, match="negative integer powers"):
        kernels_of["aten::pow.Tensor_Scalar"](np.arange(3), -1)


def test_bool_subtraction_is_refused(kernels_of):
    with pytest.raises(RuntimeError, match="two bool tensors"):
        kernels_of["aten::sub.Tensor"](np.ones(1, bool), np.ones(1, bool))


def test_error_function_is_accurate_to_single_precision(kernels_of):
    x = np.linspace(-5, 5, 20001, dtype=np.float32)
    expected = torch.erf(torch.from_numpy(x.astype(np.float64))).numpy()
    assert np.max(np.abs(kernels_of["aten::erf"](x) - expected)) < 4e-7


def test_inverse_error_function_inverts(kernels_of):
    y = np.linspace(-0.9999, 0.9999, 2001)
    assert np.allclose(kernels_of["aten::erf"](kernels_of["aten::erfinv"](y)), y, rtol=1e-12)


@pytest.mark.parametrize("name", ["left", "right"])
def test_shifts_by_more_bits_than_there_are_and_by_fewer_than_none(name, check):
    shift = getattr(aten, f"bitwise_{name}_shift")
    for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64):
        x = torch.tensor([100, -100, 3, -3, 1, -1]).to(dtype)
        for bits in (-1, 0, 1, 7, 8, 31, 63, 64, 100):
            check(shift.Tensor, x, torch.full((6,), bits, dtype=dtype))
            check(shift.Tensor_Scalar, x, bits)
    check(shift.Tensor_Scalar, torch.tensor([True, False]), 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool], ids=str)
@pytest.mark.parametrize("shift", [op.lshift, op.rshift, torch.bitwise_left_shift, torch.bitwise_right_shift])
def test_shifts_are_of_integers(shift, dtype):
    for device in ("cpu", "npu"):
        x = torch.ones(2, dtype=dtype, device=device)
        with pytest.raises(RuntimeError, match="not implemented for"):
            shift(x, x)


@pytest.mark.parametrize("bounds", [(0.0, None), (None, 0.5), (-0.5, 0.5), (1.0, -1.0), (0, 1)], ids=str)
def test_clamp(bounds, check):
    check(aten.clamp.default, SPECIAL, *bounds)
    check(aten.clamp.default, torch.arange(-3, 3), *bounds)
    tensors = [None if each is None else torch.full((1,), float(each)) for each in bounds]
    check(aten.clamp.Tensor, SPECIAL, *tensors)


def test_masked_fill_broadcasts_both_ways(check):
    x = torch.randn(2, 3)
    check(aten.masked_fill.Scalar, x, torch.tensor([True, False, True]), float("-inf"))
    check(aten.masked_fill.Scalar, x, torch.rand(4, 2, 3) > 0.5, 1.5)
    check(aten.masked_fill.Tensor, x.bfloat16(), x > 0, torch.tensor(2.0))


@pytest.mark.parametrize(
    ("name", "dtypes"),
    [
        ("heaviside", (torch.float32, torch.float16)),
        ("heaviside", (torch.float32, torch.int64)),
        ("hypot", (torch.int64, torch.int32)),
        ("hypot", (torch.bool, torch.bool)),
        ("nextafter", (torch.int32, torch.int32)),
    ],
)
def test_dtypes_that_are_refused(name, dtypes):
    a, b = (torch.ones(3).to(dtype) for dtype in dtypes)
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError, match=r"not (yet )?implemented for"):
            getattr(torch, name)(a.to(device), b.to(device))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8], ids=str)
def test_integers_to_the_powers_zero_and_one(dtype, check):
    for exponent in (0, 1, 3):
        check(torch.ops.aten.pow.Tensor_Scalar, torch.tensor([0, 1, 2, 5], dtype=dtype), exponent)
