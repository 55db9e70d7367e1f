"""Bessel functions and their kin, computed in float64 by series, integrals and asymptotic expansions.

Near 1e-9 of the largest neighbouring value: exact for float32, not for float64. Formulas: NIST Digital Library of
Mathematical Functions, chapters 9 and 10.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpu2npu.emulator.kernels.pointwise.unary import float_unary
from gpu2npu.emulator.kernels.promotion import F64, Array

_EULER = 0.5772156649015329
_ASYMPTOTIC = 16.0  # from here on the expansions for large arguments are exact enough
_POINTS = 96  # of the trapezoidal rule over half a period, enough for arguments up to the above
_MANY = 400


def _cylinder_series(x: Array, order: int, sign: int) -> Array:
    """J (sign -1) or I (sign 1) of integer order by its power series (DLMF 10.2.2, 10.25.2)."""
    quarter = sign * x * x / 4
    term = (x / 2) ** order / math.factorial(order)
    total = term.copy()
    for k in range(1, 60):
        term = term * quarter / (k * (k + order))
        total += term
    return total


def _hankel(x: Array, order: int) -> tuple[Array, Array]:
    """P and Q of the expansions for large x (DLMF 10.17): J = sqrt(2 / (pi x)) (P cos w - Q sin w)."""
    mu = 4.0 * order * order
    p, q = np.zeros_like(x), np.zeros_like(x)
    term = np.ones_like(x)
    for k in range(24):
        part = p if k % 2 == 0 else q
        part += term if k % 4 < 2 else -term
        factor = (mu - (2 * k + 1) ** 2) / ((k + 1) * 8 * x)
        term = term * np.where(np.abs(factor) < 1, factor, 0)
    return p, q


def _phase(x: Array, order: int) -> Array:
    return x - (order / 2 + 0.25) * math.pi


def _j(order: int) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        size = np.abs(x)
        small = _cylinder_series(np.minimum(size, _ASYMPTOTIC), order, -1)
        large = np.maximum(size, _ASYMPTOTIC)
        p, q = _hankel(large, order)
        w = _phase(large, order)
        far = np.sqrt(2 / (math.pi * large)) * (p * np.cos(w) - q * np.sin(w))
        y = np.where(size < _ASYMPTOTIC, small, np.where(np.isinf(size), 0, far))
        return np.sign(x) * y if order else y

    return run


def _harmonic(n: int) -> float:
    return sum(1 / k for k in range(1, n + 1))


def _y_series(x: Array, order: int) -> Array:
    """DLMF 10.8.1 for the orders 0 and 1."""
    half = x / 2
    total = 2 / math.pi * np.log(half) * _cylinder_series(x, order, -1)
    if order:
        total -= 1 / (math.pi * half)
    term = half**order / math.factorial(order)
    for k in range(60):
        psi = _harmonic(k) + _harmonic(k + order) - 2 * _EULER
        total -= psi * term / math.pi
        term = term * -(half * half) / ((k + 1) * (k + 1 + order))
    return total


def _y(order: int) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        small = _y_series(np.clip(x, 1e-300, _ASYMPTOTIC), order)
        large = np.maximum(x, _ASYMPTOTIC)
        p, q = _hankel(large, order)
        w = _phase(large, order)
        far = np.sqrt(2 / (math.pi * large)) * (p * np.sin(w) + q * np.cos(w))
        y = np.where(x < _ASYMPTOTIC, small, np.where(np.isinf(x), 0, far))
        return np.where(x < 0, np.nan, np.where(x == 0, -np.inf, y))

    return run


def _i_scaled(order: int) -> Callable[[Array], Array]:
    """exp(-|x|) I(x) by its integral (DLMF 10.32.3); for large x by its expansion (10.40.1)."""
    angles = (np.arange(_POINTS) + 0.5) * math.pi / _POINTS

    def run(x: Array) -> Array:
        size = np.abs(x)
        near = np.minimum(size, 4 * _ASYMPTOTIC)
        total = np.zeros_like(near)
        for angle in angles:
            total += np.exp(near * (math.cos(angle) - 1)) * math.cos(order * angle)
        large = np.maximum(size, 4 * _ASYMPTOTIC)
        series, term = np.ones_like(large), np.ones_like(large)
        for k in range(1, 16):
            term = -term * (4 * order * order - (2 * k - 1) ** 2) / (k * 8 * large)
            series += term
        far = series / np.sqrt(2 * math.pi * large)
        y = np.where(size < 4 * _ASYMPTOTIC, total / _POINTS, np.where(np.isinf(size), 0, far))
        return np.sign(x) * y if order else y

    return run


def _unscaled(scaled: Callable[[Array], Array], odd: bool) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        infinite = x if odd else np.abs(x)
        return np.where(np.isinf(x), infinite, scaled(x) * np.exp(np.abs(x)))

    return run


def _k_scaled(order: int) -> Callable[[Array], Array]:
    """exp(x) K(x) by its integral over cosh (DLMF 10.32.9), a trapezoidal rule that converges doubly exponentially."""

    def run(x: Array) -> Array:
        positive = np.where((x > 0) & np.isfinite(x), x, 1.0)
        # Beyond this the integrand is below 1e-18 of its largest value.
        limit = np.arccosh(1 + 45 / positive) + 1
        step = limit / _MANY
        total = np.full_like(positive, 0.5)
        for k in range(1, _MANY + 1):
            t = k * step
            # 1 - cosh(t) without cancellation.
            total += np.exp(-2 * positive * np.sinh(t / 2) ** 2) * np.cosh(order * t)
        y = np.where(np.isinf(x), 0, total * step)
        y = np.where(x == 0, np.inf, np.where(x < 0, np.nan, y))
        return np.where(np.isnan(x), np.nan, y)

    return run


def _k(order: int) -> Callable[[Array], Array]:
    scaled = _k_scaled(order)
    return lambda x: np.where(x == 0, np.inf, scaled(x) * np.exp(-x))


def _spherical_j0(x: Array) -> Array:
    return np.where(x == 0, 1.0, np.where(np.isinf(x), 0.0, np.sin(x) / np.where(x == 0, 1, x)))


def _airy_ai(x: Array) -> Array:
    """DLMF 9.4.1 near 0, by its relation to K (9.6.2) above and by its expansion (9.7.9) below."""
    near = np.clip(x, -6, 2)
    c1, c2 = 0.355028053887817239, 0.258819403792806798
    cube = near**3
    f, g = np.ones_like(near), near.copy()
    total_f, total_g = f.copy(), g.copy()
    for k in range(1, 60):
        f = f * cube / ((3 * k - 1) * (3 * k))
        g = g * cube / ((3 * k) * (3 * k + 1))
        total_f += f
        total_g += g
    series = c1 * total_f - c2 * total_g
    size = np.maximum(np.abs(x), 2)
    zeta = 2 / 3 * size**1.5
    plus = _airy_decay(size, zeta)
    wave_a, wave_b = np.zeros_like(zeta), np.zeros_like(zeta)
    term = np.ones_like(zeta)
    for k in range(14):
        part = wave_a if k % 2 == 0 else wave_b
        part += term if k % 4 < 2 else -term
        ratio = (6 * k + 1) * (6 * k + 5) / (72 * (k + 1) * zeta)
        term = term * np.where(ratio < 1, ratio, 0)
    turn = zeta - math.pi / 4
    minus = (np.cos(turn) * wave_a + np.sin(turn) * wave_b) / (math.sqrt(math.pi) * size**0.25)
    return np.where(x > 2, plus, np.where(x < -6, minus, series))


def _airy_decay(x: Array, zeta: Array) -> Array:
    """Ai(x) = sqrt(x / 3) K_(1/3)(zeta) / pi for x > 0, with K by its integral."""
    limit = np.arccosh(1 + 45 / zeta) + 1
    step = limit / _MANY
    total = np.full_like(zeta, 0.5)
    for k in range(1, _MANY + 1):
        t = k * step
        total += np.exp(-2 * zeta * np.sinh(t / 2) ** 2) * np.cosh(t / 3)
    return np.sqrt(x / 3) / math.pi * total * step * np.exp(-zeta)


def _in_float64(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        wide = np.asarray(x, F64)
        y = np.asarray(function(np.atleast_1d(wide)))
        return np.where(np.isnan(wide), np.nan, y.reshape(wide.shape)).astype(x.dtype)

    return run


for _name, _function in (
    ("special_bessel_j0", _j(0)),
    ("special_bessel_j1", _j(1)),
    ("special_bessel_y0", _y(0)),
    ("special_bessel_y1", _y(1)),
    ("special_i0e", _i_scaled(0)),
    ("special_i1e", _i_scaled(1)),
    ("special_i1", _unscaled(_i_scaled(1), True)),
    ("i0", _unscaled(_i_scaled(0), False)),
    ("special_modified_bessel_i0", _unscaled(_i_scaled(0), False)),
    ("special_modified_bessel_i1", _unscaled(_i_scaled(1), True)),
    ("special_modified_bessel_k0", _k(0)),
    ("special_modified_bessel_k1", _k(1)),
    ("special_scaled_modified_bessel_k0", _k_scaled(0)),
    ("special_scaled_modified_bessel_k1", _k_scaled(1)),
    ("special_spherical_bessel_j0", _spherical_j0),
    ("special_airy_ai", _airy_ai),
):
    float_unary(_in_float64(_function), f"aten::{_name}")
