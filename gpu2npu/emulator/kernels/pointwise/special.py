"""The error function and its kin, and the logarithmic gamma function, which NumPy lacks.

float32: erf within 4e-7 of the exact value; erfinv, erfc, lgamma and digamma are computed in float64.
"""

from __future__ import annotations

import math

import numpy as np

from gpu2npu.emulator.kernels.pointwise.unary import float_unary
from gpu2npu.emulator.kernels.promotion import F64, Array

# Rational minimax approximation x * P(x^2) / Q(x^2) of erf on [-3.75, 3.75], the one of Eigen and XLA.
_ERF_LIMIT = 3.7439211627767994
_ERF_P = (0.00022905065861350646, 0.0034082910107109506, 0.050955695062380861, 0.18520832239976145, 1.128379143519084)
_ERF_Q = (
    -1.1791602954361697e-7,
    0.000023547966471313185,
    0.0010179625278914885,
    0.014070470171167667,
    0.11098505178285362,
    0.49746925110067538,
    1.0,
)
# Giles, "Approximating the erfinv function", single precision: w = -log(1 - x^2), below and above w = 5.
_ERFINV_CENTRAL = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_ERFINV_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def _horner(x: Array, coefficients: tuple[float, ...]) -> Array:
    kind = x.dtype.type
    y = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        np.multiply(y, x, out=y)
        np.add(y, kind(coefficient), out=y)
    return y


def _through_float64(function: np.ufunc) -> np.ufunc:
    def run(x: Array) -> Array:
        return np.asarray(function(x)).astype(x.dtype)

    return run  # type: ignore[return-value]


_erf64 = _through_float64(np.frompyfunc(math.erf, 1, 1))
_erfc = _through_float64(np.frompyfunc(math.erfc, 1, 1))


def _lgamma_scalar(x: float) -> float:
    if x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


_lgamma = _through_float64(np.frompyfunc(_lgamma_scalar, 1, 1))


def erf(x: Array) -> Array:
    """The error function of a float32 or float64 array."""
    if x.dtype == F64:
        return _erf64(x)
    clipped = np.clip(np.asarray(x), np.float32(-_ERF_LIMIT), np.float32(_ERF_LIMIT))
    squared = np.asarray(np.multiply(clipped, clipped))
    y = _horner(squared, _ERF_P)
    y *= clipped
    y /= _horner(squared, _ERF_Q)
    # Exactly 1 beyond, so that 1 - erf vanishes however large its factor.
    np.copyto(y, np.sign(clipped), where=np.abs(clipped) == np.float32(_ERF_LIMIT))
    return y


def _erfinv(x: Array) -> Array:
    wide = np.asarray(x, F64)
    w = -np.log((1 - wide) * (1 + wide))
    central = _horner(w - 2.5, _ERFINV_CENTRAL)
    y = wide * np.where(w < 5, central, _horner(np.sqrt(np.maximum(w, 5)) - 3, _ERFINV_TAIL))
    if x.dtype != F64:
        y = np.where(np.abs(wide) == 1, np.copysign(np.inf, wide), y)
        return y.astype(x.dtype)
    for _ in range(2):  # Newton: the single-precision start has eight digits too few.
        y = y - (_erf64(np.asarray(y)) - wide) / (2 / math.sqrt(math.pi) * np.exp(-y * y))
    return np.where(np.abs(wide) == 1, np.copysign(np.inf, wide), y)


def _digamma(x: Array) -> Array:
    """By the recurrence up to 10, then the asymptotic series; the reflection formula below 0."""
    given = np.asarray(x, F64)
    negative = given < 0
    z = np.where(negative, 1 - given, given)
    shift = np.zeros_like(z)
    for _ in range(10):
        small = z < 10
        shift -= np.where(small, 1 / z, 0)
        z = z + small
    inverse = 1 / (z * z)
    series = np.log(z) - 0.5 / z - inverse * _horner(inverse, _BERNOULLI[::-1])
    y = shift + series
    y = np.where(negative, y - math.pi / np.tan(math.pi * given), y)
    pole = negative & (given == np.floor(given))
    y = np.where(pole, np.nan, y)
    return np.where(given == 0, np.copysign(np.inf, -given), y).astype(x.dtype)


def erfc64(x: Array) -> Array:
    """The complementary error function of a float64 array."""
    return np.asarray(_erfc(np.asarray(x, F64)))


def lgamma64(x: Array) -> Array:
    """The logarithm of the gamma function's magnitude of a float64 array."""
    return np.asarray(_lgamma(np.asarray(x, F64)))


float_unary(erf, "aten::erf", "aten::special_erf")
float_unary(_erfc, "aten::erfc", "aten::special_erfc")
float_unary(_erfinv, "aten::erfinv")
float_unary(_lgamma, "aten::lgamma")
float_unary(_digamma, "aten::digamma")
float_unary(lambda x: np.asarray(0.5 * _erfc(np.asarray(x * -math.sqrt(0.5)))).astype(x.dtype), "aten::special_ndtr")
