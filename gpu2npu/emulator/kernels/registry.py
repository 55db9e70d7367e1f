"""The table of NumPy kernels by aten name, and the decorator that fills it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Kernel = Callable[..., Any]
K = TypeVar("K", bound=Kernel)

KERNELS: dict[str, Kernel] = {}


def _error_state() -> tuple[Callable[[Any], Any], Callable[[Any], Any], Any]:
    """How to set and restore NumPy's handling of floating-point errors, and the setting that ignores them.

    NumPy 2 keeps it in a context variable. To set that to a value made once takes a tenth of the time of np.errstate,
    which makes one for each small operator. Where the variable is not found, np.seterr does.
    """
    try:
        from numpy._core import umath

        variable = umath._extobj_contextvar
        with np.errstate(all="ignore"):
            return variable.set, variable.reset, variable.get()
    except (ImportError, AttributeError):
        return lambda settings: np.seterr(**settings), lambda before: np.seterr(**before), {"all": "ignore"}


_set, _reset, _QUIET = _error_state()


def kernel(*names: str) -> Callable[[K], K]:
    """Register a kernel under its aten names, `aten::add.Tensor` or `aten::relu` for a default overload.

    A kernel is a function of NumPy arrays: tensors come as arrays over device memory (bfloat16 as
    `ml_dtypes.bfloat16`) that it must not write to, a `torch.dtype` comes as `numpy.dtype`, scalars as Python
    scalars; device, layout and memory format are not handed on. It returns fresh arrays of the result's dtype,
    a tuple where the operator has several results. In-place and `out=` overloads run the functional kernel.

    The registered function differs from the decorated one in two ways: floating-point warnings are off, since
    inf and NaN are ordinary results on an accelerator, and the scalar that a ufunc makes of 0-dim arrays becomes a
    0-dim array again.

    Raises:
        ValueError: A name is registered twice.
    """

    def register(function: K) -> K:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            token = _set(_QUIET)
            try:
                result = function(*args, **kwargs)
            finally:
                _reset(token)
            if isinstance(result, np.generic):
                return np.asarray(result)
            if isinstance(result, tuple):
                return tuple(np.asarray(each) if isinstance(each, np.generic) else each for each in result)
            return result

        for name in names:
            if name in KERNELS:
                raise ValueError(f"two kernels for {name}")
            KERNELS[name] = run
        return function

    return register
