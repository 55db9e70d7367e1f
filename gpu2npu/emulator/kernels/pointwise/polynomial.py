"""Orthogonal polynomials by their three-term recurrences, in float64: torch's `special_*_polynomial_*`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpu2npu.emulator.kernels.parallel import blocks
from gpu2npu.emulator.kernels.promotion import F64, Array, Operand, cast, float_dtype, result_type
from gpu2npu.emulator.kernels.registry import kernel

# From the degree k, x, P_k and P_(k-1) to P_(k+1).
Step = Callable[[int, Array, Array, Array], Array]


def _twice(k: int, x: Array, now: Array, before: Array) -> Array:
    return 2 * x * now - before


def _hermite(k: int, x: Array, now: Array, before: Array) -> Array:
    return 2 * x * now - 2 * k * before


def _hermite_e(k: int, x: Array, now: Array, before: Array) -> Array:
    return x * now - k * before


def _laguerre(k: int, x: Array, now: Array, before: Array) -> Array:
    return ((2 * k + 1 - x) * now - k * before) / (k + 1)


def _legendre(k: int, x: Array, now: Array, before: Array) -> Array:
    return ((2 * k + 1) * x * now - k * before) / (k + 1)


def _polynomial(name: str, first: Callable[[Array], Array], step: Step, shifted: bool = False) -> None:
    """Register a family that starts with 1 and `first`; shifted ones take 2x - 1."""

    @kernel(*(f"aten::special_{name}{overload}" for overload in ("", ".x_scalar", ".n_scalar")))
    def evaluate(x: Operand, n: Operand) -> Array:
        dtype = float_dtype(result_type(x, n))
        given, degrees = np.broadcast_arrays(x, n)
        found, flat, order = np.empty(given.size, dtype), given.reshape(-1), degrees.reshape(-1)
        for part in blocks(given.size, given.size):
            found[part] = values(cast(flat[part], F64), np.trunc(cast(order[part], F64)))
        return found.reshape(given.shape)

    def values(given: Array, degrees: Array) -> Array:
        t = 2 * given - 1 if shifted else given
        before, now = np.ones_like(t), first(t)
        result = np.where(degrees == 0, before, np.where(degrees == 1, now, 0.0))
        for k in range(1, int(np.max(degrees, initial=0))):
            before, now = now, step(k, t, now, before)
            result = np.where(degrees == k + 1, now, result)
        return np.where(np.isnan(given) & (degrees > 0), np.nan, result)


for _prefix, _shifted in (("", False), ("shifted_", True)):
    _polynomial(f"{_prefix}chebyshev_polynomial_t", lambda x: x, _twice, _shifted)
    _polynomial(f"{_prefix}chebyshev_polynomial_u", lambda x: 2 * x, _twice, _shifted)
    _polynomial(f"{_prefix}chebyshev_polynomial_v", lambda x: 2 * x - 1, _twice, _shifted)
    _polynomial(f"{_prefix}chebyshev_polynomial_w", lambda x: 2 * x + 1, _twice, _shifted)
_polynomial("hermite_polynomial_h", lambda x: 2 * x, _hermite)
_polynomial("hermite_polynomial_he", lambda x: x, _hermite_e)
_polynomial("laguerre_polynomial_l", lambda x: 1 - x, _laguerre)
_polynomial("legendre_polynomial_p", lambda x: x, _legendre)
