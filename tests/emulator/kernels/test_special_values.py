"""Arithmetic at infinities, NaN and signed zeros, against each operator's definition on one Python float at a time.

torch's own code is not a reference there: it takes another path on each processor, and oneDNN's gelu gives NaN for
infinity. Where values are ordinary, the definitions are held to torch.
"""

import math
import operator as op

import pytest
import torch

aten = torch.ops.aten
INF, NAN = math.inf, math.nan
SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e8, -1e-3, INF, -INF, NAN])
ORDINARY = torch.tensor([0.25, -0.75, 0.5, 1.5, -1.5, 2.25, -2.75, 3.0])


def quotient(x, y):
    """IEEE 754's division, where Python raises an error."""
    if y == 0:
        return NAN if x == 0 or math.isnan(x) else math.copysign(INF, x) * math.copysign(1, y)
    return x / y


def exp(x):
    return INF if x > 700 else math.exp(x)


def log(x):
    return math.log(x) if x > 0 else NAN if x < 0 or math.isnan(x) else -INF


def square_root(x):
    return NAN if x < 0 else math.sqrt(x)


def sigmoid(x):
    return 1 / (1 + exp(-x))


def fmod(x, y):
    """Return what is left of `x` after whole `y`s towards zero."""
    return NAN if math.isinf(x) or y == 0 else math.fmod(x, y)


def remainder(x, y):
    """Return what is left of `x` after whole `y`s downwards."""
    return NAN if math.isinf(x) or y == 0 else x % y


def floor_quotient(x, y):
    return quotient(x, y) if y == 0 else NAN if math.isinf(x) else x // y


def power(x, y):
    try:
        return math.pow(x, y)
    except OverflowError:
        return -INF if x < 0 and y % 2 == 1 else INF
    except ValueError:  # C's pow has a value for each of these
        if x == 0:
            return math.copysign(INF, x) if y % 2 == 1 else INF
        return NAN


def log_of_added_exponentials(x, y):
    if x == y and math.isinf(x):
        return x
    return max(x, y) + math.log1p(exp(-abs(x - y)))


def x_log_y(x, y):
    return NAN if math.isnan(y) else 0.0 if x == 0 else x * log(y)


def with_nan(choose):
    """The larger or smaller of two, NaN where one of them is."""
    return lambda x, y: NAN if math.isnan(x) or math.isnan(y) else choose(x, y)


def whole(rounded):
    """A function to integers, which infinities and NaN are not."""
    return lambda x: float(rounded(x)) if math.isfinite(x) else x


UNARY = {
    aten.exp.default: exp,
    aten.log.default: log,
    aten.sqrt.default: square_root,
    aten.rsqrt.default: lambda x: quotient(1, square_root(x)),
    aten.sigmoid.default: sigmoid,
    aten.tanh.default: math.tanh,
    aten.erf.default: math.erf,
    aten.erfc.default: math.erfc,
    aten.sign.default: lambda x: (x > 0) - (x < 0),
    aten.round.default: whole(round),
    aten.trunc.default: whole(math.trunc),
    aten.frac.default: lambda x: x - whole(math.trunc)(x),
    aten.relu.default: lambda x: x if math.isnan(x) else max(x, 0.0),
    aten.gelu.default: lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    aten.silu.default: lambda x: x * sigmoid(x),
    aten.isnan.default: math.isnan,
    aten.isinf.default: math.isinf,
    aten.signbit.default: lambda x: math.copysign(1, x) < 0,
}
BINARY = {
    aten.add.Tensor: op.add,
    aten.sub.Tensor: op.sub,
    aten.mul.Tensor: op.mul,
    aten.div.Tensor: quotient,
    aten.remainder.Tensor: remainder,
    aten.fmod.Tensor: fmod,
    aten.floor_divide.default: floor_quotient,
    aten.pow.Tensor_Tensor: power,
    aten.maximum.default: with_nan(max),
    aten.minimum.default: with_nan(min),
    aten.atan2.default: math.atan2,
    aten.xlogy.Tensor: x_log_y,
    aten.logaddexp.default: log_of_added_exponentials,
    aten.eq.Tensor: op.eq,
    aten.lt.Tensor: op.lt,
    aten.logical_and.default: lambda x, y: x != 0 and y != 0,
}
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def every_pair(values):
    return [each.flatten() for each in torch.meshgrid(values, values, indexing="ij")]


def by_definition(definition, *operands):
    values = zip(*(each.tolist() for each in operands), strict=True)
    return torch.tensor([definition(*each) for each in values], dtype=torch.float64)


@pytest.mark.parametrize("operator", UNARY, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_operand(operator, dtype, check_values):
    x = SPECIAL.to(dtype)
    check_values(operator, by_definition(UNARY[operator], x), x)


@pytest.mark.parametrize("operator", BINARY, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_two_operands(operator, dtype, check_values):
    a, b = every_pair(SPECIAL.to(dtype))
    check_values(operator, by_definition(BINARY[operator], a, b), a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nan_to_num(dtype, check_values):
    largest = torch.finfo(dtype).max
    x = torch.tensor([1.5, INF, -INF, NAN], dtype=dtype)
    check_values(aten.nan_to_num.default, torch.tensor([1.5, largest, -largest, 0.0]), x)
    check_values(aten.nan_to_num.default, torch.tensor([1.5, 4.0, 3.0, 2.0]), x, 2.0, 4.0, 3.0)


@pytest.mark.parametrize("operator", [*UNARY, *BINARY], ids=str)
def test_the_definitions_are_torchs(operator):
    """On ordinary values all of torch's paths agree, and with them the definitions."""
    definitions = UNARY | BINARY
    operands = [ORDINARY.double()] if operator in UNARY else every_pair(ORDINARY.double())
    torchs = operator(*operands)
    torch.testing.assert_close(by_definition(definitions[operator], *operands).to(torchs.dtype), torchs, equal_nan=True)
