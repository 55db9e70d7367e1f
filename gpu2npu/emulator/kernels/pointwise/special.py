"""Error functions, which NumPy lacks, by SciPy in float64.

SciPy is loaded when one of them is first computed, for its import takes longer than most scripts need of it. erf in
float32 is a polynomial, within 4e-7 of the exact value, since networks spend time in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

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


def _register(name: str) -> None:
    """Register a function of scipy.special for every floating dtype."""
    float_unary(lambda x: _float64(name, x).astype(x.dtype), f"aten::{name}")


float_unary(erf, "aten::erf")
for _name in ("erfc", "erfinv"):
    _register(_name)
