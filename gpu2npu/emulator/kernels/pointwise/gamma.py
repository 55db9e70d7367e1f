"""Zeta and polygamma functions, incomplete gamma functions, and functions of the normal distribution's tail.

Computed in float64; near 1e-9 relative, exact for float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpu2npu.emulator.kernels.pointwise.special import erfc64, lgamma64
from gpu2npu.emulator.kernels.pointwise.unary import float_unary
from gpu2npu.emulator.kernels.promotion import F64, Array, Operand, cast, float_dtype, result_type, rounded
from gpu2npu.emulator.kernels.registry import KERNELS, kernel

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SHIFTS = 12  # terms of zeta's sum before the Euler-Maclaurin remainder


def hurwitz_zeta(s: Array, q: Array) -> Array:
    """sum (k + q)^-s by Euler and Maclaurin; float64. Poles at q = 0, -1, ... are inf; NaN where s < 1, or where q is
    negative and s no integer; inf at s = 1.
    """
    s, q = np.broadcast_arrays(np.asarray(s, F64), np.asarray(q, F64))
    total = np.zeros(s.shape)
    # Steps up to a positive argument first, each a term of the sum.
    at = q.copy()
    for _ in range(int(min(max(-np.min(q, initial=0), 0), 1e4)) + _SHIFTS + 1):
        below = at < _SHIFTS
        total += np.where(below, np.power(np.where(below, at, 1), -s), 0)
        at = at + below
    tail = np.power(at, 1 - s) / (s - 1) + 0.5 * np.power(at, -s)
    factor = s * np.power(at, -s - 1)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        tail += bernoulli / math.factorial(2 * k) * factor
        factor = factor * (s + 2 * k - 1) * (s + 2 * k) / (at * at)
    y = total + tail
    y = np.where((q <= 0) & (s != np.floor(s)), np.nan, y)
    y = np.where((q <= 0) & (q == np.floor(q)), np.inf, y)
    return np.where(s == 1, np.inf, np.where(s < 1, np.nan, y))


@kernel("aten::special_zeta", "aten::special_zeta.other_scalar", "aten::special_zeta.self_scalar")
def zeta(self: Operand, other: Operand) -> Array:
    """Hurwitz's zeta function of exponent self and offset other."""
    return hurwitz_zeta(cast(self, F64), cast(other, F64)).astype(float_dtype(result_type(self, other)))


@kernel("aten::polygamma")
def polygamma(n: int, self: Array) -> Array:
    """The n-th derivative of digamma.

    Raises:
        RuntimeError: n is negative.
    """
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        result: Array = KERNELS["aten::digamma"](self)
        return result
    dtype = float_dtype(self.dtype)
    value = hurwitz_zeta(np.asarray(n + 1.0), cast(self, F64))
    return rounded(np.asarray((-1) ** (n + 1) * math.gamma(n + 1) * value), dtype)


def _lower_series(a: Array, x: Array) -> Array:
    """P(a, x) by its power series, for x < a + 1 (DLMF 8.11.4)."""
    term = 1 / a
    total = term.copy()
    k = a.copy()
    for _ in range(2000):
        k = k + 1
        term = term * x / k
        total += term
        if not np.any(np.abs(term) > 1e-17 * np.abs(total)):
            break
    return total * np.exp(-x + a * np.log(x) - lgamma64(a))


def _upper_fraction(a: Array, x: Array) -> Array:
    """Q(a, x) by its continued fraction, for x >= a + 1 (DLMF 8.9.2), evaluated by Lentz's method."""
    tiny = 1e-300
    b = x + 1 - a
    c = np.full_like(x, 1 / tiny)
    d = 1 / np.where(b == 0, tiny, b)
    h = d.copy()
    for k in range(1, 2000):
        numerator = -k * (k - a)
        b = b + 2
        d = numerator * d + b
        d = 1 / np.where(np.abs(d) < tiny, tiny, d)
        c = b + numerator / c
        c = np.where(np.abs(c) < tiny, tiny, c)
        h = h * d * c
        if not np.any(np.abs(d * c - 1) > 1e-15):
            break
    return h * np.exp(-x + a * np.log(x) - lgamma64(a))


def _regularized(a: Array, x: Array) -> tuple[Array, Array]:
    """P(a, x) and Q(a, x) for a >= 0 and x >= 0; NaN elsewhere."""
    a, x = np.broadcast_arrays(a, x)
    usual = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    safe_a, safe_x = np.where(usual, a, 1.0), np.where(usual, x, 1.0)
    by_series = safe_x < safe_a + 1
    series = _lower_series(safe_a, np.where(by_series, safe_x, safe_a / 2))
    fraction = _upper_fraction(np.where(by_series, 1.0, safe_a), np.where(by_series, 3.0, safe_x))
    lower = np.where(by_series, series, 1 - fraction)
    upper = np.where(by_series, 1 - series, fraction)
    edge = np.where(np.isnan(a) | np.isnan(x) | (a < 0) | (x < 0), np.nan, np.where(x == 0, 0.0, 1.0))
    edge = np.where(np.isinf(a) & np.isfinite(x) & (a > 0), 0.0, edge)
    edge = np.where((a == 0) & (x == 0) | np.isinf(a) & np.isinf(x), np.nan, edge)
    return np.where(usual, lower, edge), np.where(usual, upper, 1 - edge)


@kernel("aten::igamma")
def igamma(self: Array, other: Array) -> Array:
    """The regularized lower incomplete gamma function of parameter self at other."""
    return _regularized(cast(self, F64), cast(other, F64))[0].astype(float_dtype(result_type(self, other)))


@kernel("aten::igammac")
def igammac(self: Array, other: Array) -> Array:
    """The regularized upper incomplete gamma function of parameter self at other."""
    return _regularized(cast(self, F64), cast(other, F64))[1].astype(float_dtype(result_type(self, other)))


def _erfcx64(x: Array) -> Array:
    """exp(x^2) erfc(x); a continued fraction where erfc would underflow (DLMF 7.9.2)."""
    near = np.exp(np.square(np.minimum(x, 4))) * erfc64(np.minimum(x, 4))
    far = np.maximum(x, 4)
    fraction = far.copy()
    for k in range(60, 0, -1):
        fraction = far + (k / 2) / fraction
    return np.where(x < 4, near, 1 / (math.sqrt(math.pi) * fraction))


def _log_ndtr64(x: Array) -> Array:
    t = x * math.sqrt(0.5)
    below = np.log(_erfcx64(-np.minimum(t, 0)) / 2) - np.square(np.minimum(t, 0))
    return np.where(x < -1, below, np.log1p(-erfc64(t) / 2))


def _ndtri64(p: Array) -> Array:
    """The normal quantile: Abramowitz and Stegun 26.2.23 to start, then Newton's steps on the logarithm."""
    inside = (p > 0) & (p < 1)
    tail = np.where(inside, np.minimum(p, 1 - p), 0.25)
    t = np.sqrt(-2 * np.log(tail))
    z = -(t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))))
    for _ in range(4):
        log_cdf = _log_ndtr64(z)
        slope = np.exp(-z * z / 2 - 0.5 * math.log(2 * math.pi) - log_cdf)
        z = z - (log_cdf - np.log(tail)) / slope
    y = np.where(p > 0.5, -z, z)
    y = np.where(p == 0, -np.inf, np.where(p == 1, np.inf, y))
    return np.where(inside | (p == 0) | (p == 1), y, np.nan)


def _in_float64(function: Callable[[Array], Array], name: str) -> None:
    float_unary(lambda x: np.asarray(function(np.asarray(x, F64))).astype(x.dtype), f"aten::special_{name}")


_in_float64(_erfcx64, "erfcx")
_in_float64(_log_ndtr64, "log_ndtr")
_in_float64(_ndtri64, "ndtri")
