"""Fourier transforms, computed in double precision and rounded once; float32 in, complex64 out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu2npu.emulator.kernels.promotion import C64, C128, F16, F32, F64, Array
from gpu2npu.emulator.kernels.registry import kernel

Dims = Sequence[int]
# torch's enum fft_norm_mode.
_BY_ROOT_N, _BY_N = 1, 2


def _scaled(y: Array, count: int, normalization: int, dtype: np.dtype) -> Array:
    if normalization == _BY_ROOT_N:
        y = y / np.sqrt(count)
    elif normalization == _BY_N:
        y = y / count
    return np.asarray(y).astype(dtype)


def _count(shape: Sequence[int], dim: Dims) -> int:
    return int(np.prod([shape[each] for each in dim], dtype=np.int64))


@kernel("aten::_fft_c2c")
def complex_to_complex(self: Array, dim: Dims, normalization: int, forward: bool) -> Array:
    """The transform of complex numbers along dimensions, or its inverse; divided by n, by its root or not at all."""
    if not dim:
        return self.copy()
    transform, unscaled = (np.fft.fftn, "backward") if forward else (np.fft.ifftn, "forward")
    y = transform(self.astype(C128), axes=tuple(dim), norm=unscaled)  # type: ignore[operator, arg-type]
    return _scaled(y, _count(self.shape, dim), normalization, self.dtype)


@kernel("aten::_fft_r2c")
def real_to_complex(self: Array, dim: Dims, normalization: int, onesided: bool) -> Array:
    """The transform of real numbers; where onesided, the last of `dim` keeps the n // 2 + 1 nonnegative frequencies.

    Raises:
        NotImplementedError: The numbers are float16, whose transform would be complex32, which NumPy lacks.
    """
    if self.dtype == F16:
        raise NotImplementedError("complex32")
    transform = np.fft.rfftn if onesided else np.fft.fftn
    y = transform(self.astype(F64), axes=tuple(dim))
    return _scaled(y, _count(self.shape, dim), normalization, C128 if self.dtype == F64 else C64)


@kernel("aten::_fft_c2r")
def complex_to_real(self: Array, dim: Dims, normalization: int, last_dim_size: int) -> Array:
    """The inverse of `real_to_complex`, onesided: the last of `dim` gets `last_dim_size` elements."""
    sizes = [*(self.shape[each] for each in dim[:-1]), last_dim_size]
    y = np.fft.irfftn(self.astype(C128), s=sizes, axes=tuple(dim), norm="forward")
    return _scaled(y, int(np.prod(sizes, dtype=np.int64)), normalization, F64 if self.dtype == C128 else F32)
