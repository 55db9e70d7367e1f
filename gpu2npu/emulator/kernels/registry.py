"""The table of NumPy kernels by aten name, and the decorator that fills it."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Kernel = Callable[..., Any]
K = TypeVar("K", bound=Kernel)

KERNELS: dict[str, Kernel] = {}
# Those that are one function of arrays of one floating dtype, most of them a ufunc.
FUNCTIONS: dict[str, Callable[..., Any]] = {}


# NumPy (from 2.0) keeps in the context how it handles floating-point errors. To call a function in a context where they
# are ignored takes a tenth of the time of np.errstate, for each small operator.
_QUIET = contextvars.Context()
_QUIET.run(np.seterr, all="ignore")
# A context is entered once at a time: each call has its own copy, `quiet_context().run(function, ...)`.
quiet_context = _QUIET.copy


def kernel(*names: str, function: Callable[..., Any] | None = None) -> Callable[[K], K]:
    """Register a kernel under its aten names, `aten::add.Tensor` or `aten::relu` for a default overload.

    A kernel is a function of NumPy arrays: tensors come as arrays over device memory (bfloat16 as
    `ml_dtypes.bfloat16`) that it must not write to, a `torch.dtype` comes as `numpy.dtype`, scalars as Python
    scalars; device, layout and memory format are not handed on. It returns fresh arrays of the result's dtype,
    a tuple where the operator has several results. In-place and `out=` overloads run the functional kernel.

    The registered function differs from the decorated one in two ways: floating-point warnings are off, and the scalar
    that a ufunc makes of 0-dim arrays becomes a 0-dim array again.

    Args:
        names: Of the overloads.
        function: Computes the same of float32 arrays, where the overload has no other arguments.

    Raises:
        ValueError: A name is registered twice.
    """

    def register(body: K) -> K:
        @functools.wraps(body)
        def run(*args: Any, **kwargs: Any) -> Any:
            result = quiet_context().run(body, *args, **kwargs)
            if result.__class__ is np.ndarray:
                return result
            if isinstance(result, np.generic):
                return np.asarray(result)
            if isinstance(result, tuple):
                return tuple(np.asarray(each) if isinstance(each, np.generic) else each for each in result)
            return result

        for name in names:
            if name in KERNELS:
                raise ValueError(f"two kernels for {name}")
            KERNELS[name] = run
            if function is not None:
                FUNCTIONS[name] = function
        return body

    return register
