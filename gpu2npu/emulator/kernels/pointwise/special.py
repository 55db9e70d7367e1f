"""Special functions that NumPy lacks, by SciPy in float64: error, gamma, zeta and Bessel functions and their kin.

SciPy is loaded when one of them is first computed, for its import takes longer than most scripts need of it. erf in
float32 is a polynomial, within 4e-7 of the exact value, since networks spend time in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from gpu2npu.emulator.kernels.pointwise.unary import float_unary
from gpu2npu.emulator.kernels.promotion import F64, Array, Operand, cast, float_dtype, result_type, rounded
from gpu2npu.emulator.kernels.registry import KERNELS, kernel

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


@cache
def _scipy(name: str) -> Callable[..., Any]:
    """The function of scipy.special that has the name."""
    function: Callable[..., Any] = getattr(import_module("scipy.special"), name)
    return function


def _float64(name: str, *operands: Array) -> Array:
    """The function of scipy.special at float64 operands, as an array of float64 even where it has no dimension."""
    with np.errstate(all="ignore"):
        return np.asarray(_scipy(name)(*(np.asarray(operand, F64) for operand in operands)))


def _horner(x: Array, coefficients: tuple[float, ...]) -> Array:
    kind = x.dtype.type
    y = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        np.multiply(y, x, out=y)
        np.add(y, kind(coefficient), out=y)
    return y


def erf(x: Array) -> Array:
    """The error function of a float32 or float64 array."""
    if x.dtype == F64:
        return _float64("erf", x)
    clipped = np.clip(np.asarray(x), np.float32(-_ERF_LIMIT), np.float32(_ERF_LIMIT))
    squared = np.asarray(np.multiply(clipped, clipped))
    y = _horner(squared, _ERF_P)
    y *= clipped
    y /= _horner(squared, _ERF_Q)
    # Exactly 1 beyond, so that 1 - erf vanishes however large its factor.
    np.copyto(y, np.sign(clipped), where=np.abs(clipped) == np.float32(_ERF_LIMIT))
    return y


def _at_infinity(name: str, limit: Callable[[Array], Array | float]) -> Callable[[Array], Array]:
    """A function for which SciPy has NaN at the infinities, with its limits there."""
    return lambda x: np.where(np.isinf(x), limit(x), _float64(name, x))


def _airy_ai(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.where(np.isinf(x), 0.0, np.asarray(_scipy("airy")(x)[0]))


def _spherical_j0(x: Array) -> Array:
    return np.where(x == 0, 1.0, np.where(np.isinf(x), 0.0, np.sin(x) / np.where(x == 0, 1, x)))


def _lgamma(x: Array) -> Array:
    return np.where(np.isneginf(x), np.inf, _float64("gammaln", x))


def _register(function: str | Callable[[Array], Array], *names: str) -> None:
    """Register a function of float64, by its name in scipy.special or by itself, for every floating dtype."""

    def run(x: Array) -> Array:
        wide = np.asarray(x, F64)
        return (_float64(function, wide) if isinstance(function, str) else np.asarray(function(wide))).astype(x.dtype)

    float_unary(run, *(f"aten::{name}" for name in names))


float_unary(erf, "aten::erf")
_FUNCTIONS: dict[str, str | Callable[[Array], Array]] = {
    "digamma": "psi",
    "erfc": "erfc",
    "erfinv": "erfinv",
    "i0": "i0",
    "lgamma": _lgamma,
    "special_airy_ai": _airy_ai,
    "special_bessel_j0": _at_infinity("j0", lambda x: 0.0),
    "special_bessel_j1": _at_infinity("j1", lambda x: 0.0),
    "special_bessel_y0": _at_infinity("y0", lambda x: np.where(x > 0, 0.0, np.nan)),
    "special_bessel_y1": _at_infinity("y1", lambda x: np.where(x > 0, 0.0, np.nan)),
    "special_erfcx": "erfcx",
    "special_i0e": "i0e",
    "special_i1": _at_infinity("i1", lambda x: x),
    "special_i1e": "i1e",
    "special_log_ndtr": "log_ndtr",
    "special_modified_bessel_i0": _at_infinity("i0", np.abs),
    "special_modified_bessel_i1": _at_infinity("i1", lambda x: x),
    "special_modified_bessel_k0": "k0",
    "special_modified_bessel_k1": "k1",
    "special_ndtri": "ndtri",
    "special_scaled_modified_bessel_k0": "k0e",
    "special_scaled_modified_bessel_k1": "k1e",
    "special_spherical_bessel_j0": _spherical_j0,
}
for _name, _function in _FUNCTIONS.items():
    _register(_function, _name)


@kernel("aten::special_zeta", "aten::special_zeta.other_scalar", "aten::special_zeta.self_scalar")
def zeta(self: Operand, other: Operand) -> Array:
    """Hurwitz's zeta function of exponent self and offset other."""
    return _float64("zeta", cast(self, F64), cast(other, F64)).astype(float_dtype(result_type(self, other)))


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
    value = _float64("zeta", np.asarray(n + 1.0), cast(self, F64))
    return rounded(np.asarray((-1) ** (n + 1) * math.gamma(n + 1) * value), float_dtype(self.dtype))


@kernel("aten::igamma")
def igamma(self: Array, other: Array) -> Array:
    """The regularized lower incomplete gamma function of parameter self at other."""
    return _float64("gammainc", self, other).astype(float_dtype(result_type(self, other)))


@kernel("aten::igammac")
def igammac(self: Array, other: Array) -> Array:
    """The regularized upper incomplete gamma function of parameter self at other."""
    return _float64("gammaincc", self, other).astype(float_dtype(result_type(self, other)))
