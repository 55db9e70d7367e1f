"""Type promotion as torch does it, and the dtypes kernels compute in.

torch ranks dtypes by category (bool < integer < floating < complex). A tensor with dimensions decides the width
within its category; 0-dim tensors and Python scalars only lift the category. See `torch.result_type` and
"Type promotion" in the torch.Tensor attributes documentation. A Python float counts as the default dtype: float32, or
what `follow_default` has been given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import ml_dtypes
import numpy as np

Array: TypeAlias = np.ndarray
Number: TypeAlias = bool | int | float | complex
Operand: TypeAlias = Array | Number

BOOL = np.dtype(np.bool_)
U8 = np.dtype(np.uint8)
I8 = np.dtype(np.int8)
I16 = np.dtype(np.int16)
I32 = np.dtype(np.int32)
I64 = np.dtype(np.int64)
F16 = np.dtype(np.float16)
BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)
C64 = np.dtype(np.complex64)
C128 = np.dtype(np.complex128)

_FLOATING = frozenset({F16, BF16, F32, F64})
_COMPLEX = frozenset({C64, C128})
_SCALARS: dict[type, np.dtype] = {bool: BOOL, int: I64}
# The half types are stored, not computed in.
_COMPUTE: dict[np.dtype, np.dtype] = {F16: F32, BF16: F32}
_COMPLEX_OF: dict[np.dtype, np.dtype] = {F16: C64, BF16: C64, F32: C64, F64: C128}
_REAL_OF: dict[np.dtype, np.dtype] = {C64: F32, C128: F64}
_PROMOTED: dict[tuple[np.dtype, np.dtype], np.dtype] = {}


def _float32() -> np.dtype:
    return F32


_default: Callable[[], np.dtype] = _float32


def follow_default(dtype: Callable[[], np.dtype]) -> None:
    """Let `dtype` say from now on as what Python floats count, and what integers become where floats are needed."""
    global _default
    _default = dtype


def default_dtype() -> np.dtype:
    """The dtype of Python floats."""
    return _default()


def is_floating(dtype: np.dtype) -> bool:
    """Return whether the dtype is float16, bfloat16, float32 or float64."""
    return dtype in _FLOATING


def is_complex(dtype: np.dtype) -> bool:
    """Return whether the dtype is complex64 or complex128."""
    return dtype in _COMPLEX


def is_integral(dtype: np.dtype) -> bool:
    """Return whether the dtype is bool or an integer type."""
    return dtype not in _FLOATING and dtype not in _COMPLEX


def compute_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype arithmetic runs in: float32 for float16 and bfloat16, else the dtype itself."""
    return _COMPUTE.get(dtype, dtype)


def float_dtype(dtype: np.dtype) -> np.dtype:
    """The result dtype of an operator that always yields floats: the default one for integers and bool."""
    return _default() if is_integral(dtype) else dtype


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of a complex dtype's magnitude; any other dtype itself."""
    return _REAL_OF.get(dtype, dtype)


def _promote(a: np.dtype, b: np.dtype) -> np.dtype:
    if a in _FLOATING and b in _FLOATING:
        return F64 if F64 in (a, b) else F32
    if a in _COMPLEX or b in _COMPLEX:
        return C128 if {C128, F64} & {a, b} else C64
    if a in _FLOATING or b in _FLOATING:
        return a if a in _FLOATING else b
    return np.dtype(np.promote_types(a, b))


def promote_types(a: np.dtype, b: np.dtype) -> np.dtype:
    """The smallest dtype both convert to by torch's rules (`torch.promote_types`): int64 with float16 is float16."""
    if a is b:
        return a
    found = _PROMOTED.get((a, b))
    if found is None:
        found = _PROMOTED[a, b] = a if a == b else _promote(a, b)
    return found


def _combine(higher: np.dtype | None, lower: np.dtype | None) -> np.dtype | None:
    """One priority level over another: the lower one counts only where its category is higher."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher in _COMPLEX:
        return higher
    if higher in _FLOATING:
        return _COMPLEX_OF[higher] if lower in _COMPLEX else higher
    if higher == BOOL or lower in _FLOATING or lower in _COMPLEX:
        return promote_types(higher, lower)
    return higher


def _default_of(kind: type) -> np.dtype:
    return _COMPLEX_OF[_default()] if kind is complex else _default()


def result_type(*operands: Operand) -> np.dtype:
    """The dtype torch computes an elementwise operator of these operands in.

    Args:
        operands: Arrays (0-dim ones have less weight) and Python scalars (least weight); at least one.
    """
    dimensioned: np.dtype | None = None
    zero_dim: np.dtype | None = None
    scalar: np.dtype | None = None
    for operand in operands:
        if isinstance(operand, np.ndarray):
            if operand.ndim:
                dimensioned = operand.dtype if dimensioned is None else promote_types(dimensioned, operand.dtype)
            else:
                zero_dim = operand.dtype if zero_dim is None else promote_types(zero_dim, operand.dtype)
        else:
            kind = _SCALARS.get(type(operand)) or _default_of(type(operand))
            scalar = kind if scalar is None else promote_types(scalar, kind)
    found = _combine(dimensioned, _combine(zero_dim, scalar))
    assert found is not None
    return found


def cast(x: Operand, dtype: np.dtype) -> Array:
    """The operand as an array of this dtype, uncopied if it is one; integers wrap around."""
    if isinstance(x, np.ndarray):
        return x if x.dtype is dtype else x.astype(dtype)
    return np.array(x).astype(dtype)


def operands(a: Operand, b: Operand) -> tuple[Array, Array, np.dtype]:
    """Two operands in the dtype to compute in, and the dtype of the result."""
    if type(a) is np.ndarray and a.dtype is F32:
        if type(b) is np.ndarray:
            if b.dtype is F32:
                return a, b, F32
            if b.dtype is F64 and not b.ndim and a.ndim:  # a Python number, as PyTorch wraps it
                return a, b.astype(F32), F32
        elif type(b) is float or type(b) is int:
            return a, np.float32(b), F32  # type: ignore[return-value]
    dtype = result_type(a, b)
    compute = _COMPUTE.get(dtype, dtype)
    return cast(a, compute), cast(b, compute), dtype


def float_operands(a: Operand, b: Operand) -> tuple[Array, Array, np.dtype]:
    """As `operands`, for operators that always yield floats: integers become the default dtype."""
    dtype = float_dtype(result_type(a, b))
    compute = _COMPUTE.get(dtype, dtype)
    return cast(a, compute), cast(b, compute), dtype


def wide(x: Array) -> Array:
    """float16 and bfloat16 as float32, anything else as it is."""
    dtype = x.dtype
    if dtype is F32:
        return x
    compute = _COMPUTE.get(dtype)
    return x if compute is None else x.astype(compute)


def wide_float(x: Array) -> Array:
    """float16 and bfloat16 as float32, integers and bool as the default dtype's, anything else as it is."""
    dtype = x.dtype
    if dtype is F32:
        return x
    if is_integral(dtype):
        return x.astype(compute_dtype(_default()))
    return x.astype(F32) if dtype in _COMPUTE else x


def rounded(x: Array, dtype: np.dtype) -> Array:
    """The result of a computation rounded once to its dtype, uncopied if it has it."""
    return x if x.dtype is dtype else x.astype(dtype)
