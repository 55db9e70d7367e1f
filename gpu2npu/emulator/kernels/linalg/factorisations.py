"""QR factors and singular values of batches of matrices. Double precision, rounded once."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.promotion import C128, F64, Array, real_dtype
from gpu2npu.emulator.kernels.registry import kernel


def double(x: Array) -> Array:
    """A float64 or complex128 copy."""
    return x.astype(C128 if x.dtype.kind == "c" else F64)


def adjoint(x: Array) -> Array:
    """The conjugate transpose of each matrix."""
    return np.conj(np.swapaxes(x, -2, -1))


@kernel("aten::linalg_qr")
def qr(A: Array, mode: str = "reduced") -> tuple[Array, Array]:  # noqa: N803
    """Q and R with A = Q R; Q is empty in mode "r"."""
    if mode == "r":
        return np.zeros(0, A.dtype), np.asarray(np.linalg.qr(double(A), mode="r")).astype(A.dtype)
    q, r = np.linalg.qr(double(A), mode=mode)  # type: ignore[call-overload]
    return q.astype(A.dtype), r.astype(A.dtype)


@kernel("aten::_linalg_svd")
def svd(
    A: Array,  # noqa: N803
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> tuple[Array, Array, Array]:
    """U, S and V^H with A = U S V^H, singular values descending; U and V^H are empty unless asked for.

    Raises:
        ValueError: Values are not finite.
    """
    real = real_dtype(A.dtype)
    if not compute_uv:
        empty = np.zeros(0, A.dtype)
        return empty, np.linalg.svd(double(A), compute_uv=False).astype(real), empty
    u, s, vh = np.linalg.svd(double(A), full_matrices=full_matrices)
    return u.astype(A.dtype), s.astype(real), vh.astype(A.dtype)
