"""Random numbers, drawn from the NumPy generator that every kernel here is given.

The distributions are torch's; the numbers are not, as they differ between any two devices. In-place operators get the
tensor for its shape and dtype and return its new values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu2npu.emulator.kernels.promotion import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I64,
    Array,
    compute_dtype,
    float_dtype,
    rounded,
    wide,
    wide_float,
)
from gpu2npu.emulator.kernels.registry import kernel

Generator = np.random.Generator
# Integers up to these are exact, and random_ without bounds draws from them.
_EXACT = {F16: 2**11, BF16: 2**8, F32: 2**24, F64: 2**53}


def _uniform(generator: Generator, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """In [0, 1), float64 where the dtype is and float32 else."""
    return np.asarray(generator.random(shape, dtype=np.float64 if dtype == F64 else np.float32))


def _normal(generator: Generator, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    return np.asarray(generator.standard_normal(shape, dtype=np.float64 if dtype == F64 else np.float32))


def _below_one(values: Array, low: float, high: float, dtype: np.dtype) -> Array:
    """Rounding to the dtype must not reach the upper bound, which is excluded."""
    out = np.asarray(values).astype(dtype)
    if high > low:
        np.copyto(out, dtype.type(low), where=wide(out) >= high)
    return out


@kernel("aten::uniform_")
def uniform(self: Array, *bounds: float, generator: Generator, **named: float) -> Array:
    """Uniform in [from, to), [0, 1) by default.

    Raises:
        RuntimeError: The interval is empty, or wider than the dtype's numbers.
    """
    low = bounds[0] if bounds else named.get("from", 0.0)
    high = bounds[1] if len(bounds) > 1 else named.get("to", 1.0)
    if not low <= high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    values = _uniform(generator, self.shape, self.dtype)
    if (low, high) != (0.0, 1.0):
        values = values * values.dtype.type(high - low) + values.dtype.type(low)
    return _below_one(values, low, high, self.dtype)


@kernel("aten::normal_")
def normal(self: Array, mean: float = 0.0, std: float = 1.0, *, generator: Generator) -> Array:
    """Normal.

    Raises:
        RuntimeError: std is negative.
    """
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    values = _normal(generator, self.shape, self.dtype)
    if (mean, std) != (0.0, 1.0):
        values = values * values.dtype.type(std) + values.dtype.type(mean)
    return rounded(values, self.dtype)


def _normal_of(mean: Array, std: Array, dtype: np.dtype, generator: Generator) -> Array:
    shape = np.broadcast_shapes(mean.shape, std.shape)
    return rounded(np.asarray(_normal(generator, shape, dtype) * wide(std) + wide(mean)), dtype)


@kernel("aten::normal.Tensor_float")
def normal_tensor_float(mean: Array, std: float = 1.0, *, generator: Generator) -> Array:
    """Normal, one mean for each element."""
    return _normal_of(mean, np.array(std, compute_dtype(mean.dtype)), mean.dtype, generator)


@kernel("aten::normal.float_Tensor")
def normal_float_tensor(mean: float, std: Array, *, generator: Generator) -> Array:
    """Normal, one deviation for each element."""
    return _normal_of(np.array(mean, compute_dtype(std.dtype)), std, std.dtype, generator)


@kernel("aten::normal.Tensor_Tensor")
def normal_tensor_tensor(mean: Array, std: Array, *, generator: Generator) -> Array:
    """Normal, mean and deviation for each element."""
    return _normal_of(mean, std, mean.dtype, generator)


def _limits(dtype: np.dtype) -> tuple[int, int]:
    """The smallest and the largest number of an integer dtype or bool."""
    return (0, 1) if dtype == BOOL else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


@kernel("aten::random_")
def random_any(self: Array, *, generator: Generator) -> Array:
    """Integers from 0 to the largest the dtype holds; for floats to the largest up to which all are exact."""
    if self.dtype == BOOL:
        return generator.integers(0, 2, self.shape).astype(BOOL)
    high = _EXACT.get(self.dtype) or np.iinfo(self.dtype).max
    return np.asarray(generator.integers(0, high, self.shape, dtype=np.int64, endpoint=True)).astype(self.dtype)


@kernel("aten::random_.to")
def random_below(self: Array, to: int, *, generator: Generator) -> Array:
    """Integers in [0, to)."""
    return random_between(self, 0, to, generator=generator)


@kernel("aten::random_.from")
def random_between(self: Array, *bounds: int | None, generator: Generator, **named: Any) -> Array:
    """Integers in [from, to), to the dtype's largest where `to` is None.

    Raises:
        RuntimeError: The interval is empty, or the dtype does not hold it.
    """
    low, high = bounds or (named["from"], named.get("to"))
    assert low is not None
    if high is None:
        high = int(_EXACT.get(self.dtype) or _limits(self.dtype)[1]) + 1
    if self.dtype not in _EXACT:
        smallest, largest = _limits(self.dtype)
        for name, bound in (("from", low), ("to - 1", high - 1)):
            if not smallest <= bound <= largest:
                raise RuntimeError(f"{name} is out of bounds for {self.dtype}")
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return np.asarray(generator.integers(low, high, self.shape, dtype=np.int64)).astype(self.dtype)


@kernel("aten::bernoulli_.float", "aten::bernoulli.p")
def bernoulli_probability(self: Array, p: float = 0.5, *, generator: Generator) -> Array:
    """1 with probability p.

    Raises:
        RuntimeError: p is not a probability.
    """
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return (_uniform(generator, self.shape, F32) < p).astype(self.dtype)


@kernel("aten::bernoulli_.Tensor", "aten::bernoulli.Tensor")
def bernoulli_tensor(self: Array, p: Array, *, generator: Generator) -> Array:
    """1 with each element's own probability."""
    return (_uniform(generator, self.shape, F32) < wide(p)).astype(self.dtype)


@kernel("aten::bernoulli")
def bernoulli(self: Array, *, generator: Generator) -> Array:
    """1 with the probability that self holds.

    Raises:
        RuntimeError: self holds something that is not a probability.
    """
    p = wide(self)
    if p.size and not (p.min() >= 0 and p.max() <= 1):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true")
    return bernoulli_tensor(self, p, generator=generator)


@kernel("aten::exponential_")
def exponential(self: Array, lambd: float = 1.0, *, generator: Generator) -> Array:
    """Exponential with rate lambd, never 0."""
    values = -np.log1p(-_uniform(generator, self.shape, F64))
    smallest = np.finfo(np.float32).tiny
    return (np.maximum(values, smallest) / lambd).astype(self.dtype)


@kernel("aten::log_normal_")
def log_normal(self: Array, mean: float = 1.0, std: float = 2.0, *, generator: Generator) -> Array:
    """exp of a normal number."""
    return np.asarray(generator.lognormal(mean, std, self.shape)).astype(self.dtype)


@kernel("aten::cauchy_")
def cauchy(self: Array, median: float = 0.0, sigma: float = 1.0, *, generator: Generator) -> Array:
    """Cauchy."""
    return (median + sigma * np.asarray(generator.standard_cauchy(self.shape))).astype(self.dtype)


@kernel("aten::geometric_")
def geometric(self: Array, p: float, *, generator: Generator) -> Array:
    """The number of trials up to the first success."""
    return np.asarray(generator.geometric(p, self.shape)).astype(self.dtype)


@kernel("aten::multinomial")
def multinomial(self: Array, num_samples: int, replacement: bool = False, *, generator: Generator) -> Array:
    """Indices drawn by the weights in the last dimension, (num_samples,) or (rows, num_samples), int64.

    Raises:
        RuntimeError: Weights are integers, negative or not finite, a row sums to 0, or too many are drawn without
            replacement.
    """
    if self.dtype.kind in "iub":
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {self.dtype}")
    weights = wide(self).astype(F64)
    rows = weights.reshape(-1, weights.shape[-1])
    if not np.all(np.isfinite(rows)) or np.any(rows < 0):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if np.any(rows.sum(axis=1) <= 0):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and num_samples > rows.shape[1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if replacement:
        limits = np.cumsum(rows, axis=1)
        draws = generator.random((rows.shape[0], num_samples)) * limits[:, -1:]
        found = np.stack(
            [np.searchsorted(limit, draw, side="right") for limit, draw in zip(limits, draws, strict=True)]
        )
        found = np.minimum(found, rows.shape[1] - 1)
    else:
        # The smallest exponential times 1 / weight wins with probability weight / sum.
        keys = generator.standard_exponential(rows.shape) / rows
        found = np.argsort(keys, axis=1)[:, :num_samples]
    return found.astype(I64).reshape(*self.shape[:-1], num_samples)


@kernel("aten::randperm", "aten::randperm.generator")
def randperm(n: int, *, generator: Generator, dtype: np.dtype | None = None) -> Array:
    """A permutation of 0 ... n - 1.

    Raises:
        RuntimeError: `n` is negative.
    """
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got{n}")
    return np.asarray(generator.permutation(n)).astype(dtype or I64)


@kernel("aten::native_dropout")
def dropout(input: Array, p: float, train: bool | None, *, generator: Generator) -> tuple[Array, Array]:  # noqa: A002
    """The input with a share p of its elements zeroed and the rest scaled by 1 / (1 - p); and the bool mask kept."""
    if train is False:
        return input.copy(), np.ones(input.shape, BOOL)
    mask = _uniform(generator, input.shape, F32) >= p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    x = wide(input)
    return rounded(np.asarray(x * mask * x.dtype.type(scale)), input.dtype), mask


@kernel("aten::native_dropout_backward")
def dropout_backward(grad_output: Array, mask: Array, scale: float) -> Array:
    """The gradient where the mask is set, scaled."""
    grad = wide_float(grad_output)
    return rounded(np.asarray(grad * mask * grad.dtype.type(scale)), float_dtype(grad_output.dtype))


@kernel("aten::rrelu_with_noise")
def rrelu_with_noise(
    self: Array,
    noise: Array,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    *,
    generator: Generator,
) -> Array:
    """Negative elements times a slope drawn from [lower, upper), their mean when not training; slopes go to noise."""
    x = wide(self)
    if not training:
        return rounded(np.where(x < 0, x * x.dtype.type((lower + upper) / 2), x), self.dtype)
    slopes = generator.uniform(lower, upper, x.shape).astype(x.dtype)
    drawn = np.where(x <= 0, slopes, x.dtype.type(1))
    np.copyto(noise, drawn, casting="unsafe")
    return rounded(np.asarray(x * drawn), self.dtype)
