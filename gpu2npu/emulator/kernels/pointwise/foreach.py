"""The `_foreach_` operators of torch's optimizers: one elementwise kernel over lists of tensors.

The functional form returns a list of fresh arrays; the in-place form writes into the arrays it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from inspect import unwrap
from itertools import repeat
from typing import Any, TypeVar

import numpy as np

from gpu2npu.emulator.kernels import parallel
from gpu2npu.emulator.kernels.pointwise import comparison, elementwise, special, unary  # noqa: F401 (they register what is looked up below)
from gpu2npu.emulator.kernels.promotion import F32, Array, Number, Operand, cast, compute_dtype, real_dtype
from gpu2npu.emulator.kernels.reduce import extrema, reduce  # noqa: F401 (likewise)
from gpu2npu.emulator.kernels.registry import KERNELS, Kernel, kernel

List = Sequence[Array]
_UNARY = (
    *("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac"),
    *("log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh"),
    *("sqrt", "tan", "tanh", "trunc", "zero"),
)
# Float32 lists, which optimizers hold, are updated without a temporary.
_UFUNCS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


T = TypeVar("T")


def _single(name: str) -> Kernel:
    """The kernel for one tensor, as it is written: the one for the list has floating-point warnings off already."""
    return unwrap(KERNELS[f"aten::{name}"])


def _each(compute: Callable[..., T], *columns: Iterable[Any]) -> list[T]:
    """`compute` of every row of the columns, of which the first holds arrays; large lists on several threads.

    Raises:
        ValueError: The columns differ in length.
    """
    rows = list(zip(*columns, strict=True))
    return parallel.run_each(compute, rows, sum([row[0].size for row in rows]))


def _into(single: Callable[..., Array]) -> Callable[..., None]:
    """`single`, whose result goes into its first argument."""

    def run(x: Array, *rest: Any) -> None:
        np.copyto(x, single(x, *rest), casting="unsafe")

    return run


def _store(targets: List, values: Iterable[Array]) -> None:
    for target, value in zip(targets, values, strict=True):
        np.copyto(target, value, casting="unsafe")


def _unary(name: str) -> None:
    single = np.zeros_like if name == "zero" else _single(name)

    @kernel(f"aten::_foreach_{name}")
    def functional(self: List) -> list[Array]:
        return _each(single, self)

    @kernel(f"aten::_foreach_{name}_")
    def in_place(self: List) -> None:
        if name == "zero":
            for x in self:
                x.fill(0)
        else:
            _each(_into(single), self)


for _name in _UNARY:
    _unary(_name)


def _seconds(other: List | Operand | Sequence[Number], count: int) -> Iterable[Operand]:
    """The second operand for each of `count` tensors: one for each, or the same for all."""
    return repeat(other, count) if isinstance(other, np.ndarray | bool | int | float | complex) else other


def _binary(name: str, single: Kernel, overloads: Sequence[str]) -> None:
    ufunc = _UFUNCS.get(name)

    def functional(self: List, other: List | Operand, **scaled: Number) -> list[Array]:
        return _each(partial(single, **scaled), self, _seconds(other, len(self)))

    def in_place(self: List, other: List | Operand, **scaled: Number) -> None:
        plain = ufunc is not None and scaled.get("alpha", 1) == 1

        def update(x: Array, y: Operand) -> None:
            if plain and x.dtype is F32:
                if not isinstance(y, np.ndarray):
                    ufunc(x, np.float32(y.real), out=x)  # type: ignore[misc]
                    return
                if y.dtype is F32:
                    ufunc(x, y, out=x)  # type: ignore[misc]
                    return
            np.copyto(x, single(x, y, **scaled), casting="unsafe")

        _each(update, self, _seconds(other, len(self)))

    for overload in overloads:
        kernel(f"aten::_foreach_{name}.{overload}")(functional)
        kernel(f"aten::_foreach_{name}_.{overload}")(in_place)


_FULL = ("List", "Scalar", "ScalarList", "Tensor")
_binary("add", _single("add.Tensor"), _FULL)
_binary("sub", _single("sub.Tensor"), _FULL[:3])
_binary("mul", _single("mul.Tensor"), _FULL)
_binary("div", _single("div.Tensor"), _FULL)
_binary("clamp_max", _single("minimum"), _FULL[:3])
_binary("clamp_min", _single("maximum"), _FULL[:3])
_binary("maximum", _single("maximum"), _FULL[:3])
_binary("minimum", _single("minimum"), _FULL[:3])


_POWER_OF_TENSOR, _POWER_OF_NUMBER = _single("pow.Tensor_Tensor"), _single("pow.Tensor_Scalar")


def _power(x: Array, exponent: Operand) -> Array:
    result: Array = (_POWER_OF_TENSOR if isinstance(exponent, np.ndarray) else _POWER_OF_NUMBER)(x, exponent)
    return result


_binary("pow", _power, _FULL[:3])


@kernel("aten::_foreach_pow.ScalarAndTensor")
def power_of_scalar(self: Number, exponent: List) -> list[Array]:
    """self ** each exponent."""
    return [KERNELS["aten::pow.Scalar"](self, each) for each in exponent]


def _fused(name: str, single: Callable[..., Array], join: np.ufunc) -> None:
    """addcmul and addcdiv: a scalar for all, one for each in a list or a 1-D tensor; `join` is of the two tensors."""

    def scaled(x: Array, a: Array, b: Array, value: Number) -> Array:
        return single(x, a, b, value=value)

    def functional(
        self: List, tensor1: List, tensor2: List, value: Number | Sequence[Number] | Array = 1
    ) -> list[Array]:
        values = value.tolist() if isinstance(value, np.ndarray) else value
        return _each(scaled, self, tensor1, tensor2, _seconds(values, len(self)))

    def in_place(self: List, tensor1: List, tensor2: List, value: Number | Sequence[Number] | Array = 1) -> None:
        def update(x: Array, a: Array, b: Array, scale: Number) -> None:
            if parallel.in_cpp(name, scale.real, x, a, b):
                return
            if x.dtype is a.dtype is b.dtype is F32 and x.shape == a.shape == b.shape != ():
                term = np.multiply(a, np.float32(scale.real))
                np.add(x, join(term, b, out=term), out=x)
            else:
                np.copyto(x, scaled(x, a, b, scale), casting="unsafe")

        values = value.tolist() if isinstance(value, np.ndarray) else value
        _each(update, self, tensor1, tensor2, _seconds(values, len(self)))

    for overload in ("Scalar", "ScalarList", "Tensor"):
        kernel(f"aten::_foreach_{name}.{overload}")(functional)
        kernel(f"aten::_foreach_{name}_.{overload}")(in_place)


_fused("addcmul", _single("addcmul"), np.multiply)
_fused("addcdiv", _single("addcdiv"), np.divide)


_LERP = _single("lerp.Scalar")


@kernel("aten::_foreach_lerp.List", "aten::_foreach_lerp.Scalar", "aten::_foreach_lerp.ScalarList")
def lerp(self: List, tensors1: List, weight: List | Number | Sequence[Number]) -> list[Array]:
    """lerp of each pair, with one weight for all or one for each."""
    return _each(_LERP, self, tensors1, _seconds(weight, len(self)))


@kernel("aten::_foreach_lerp_.List", "aten::_foreach_lerp_.Scalar", "aten::_foreach_lerp_.ScalarList")
def lerp_in_place(self: List, tensors1: List, weight: List | Number | Sequence[Number]) -> None:
    """lerp of each pair, written into the first."""

    def update(x: Array, end: Array, part: Number | Array) -> None:
        if x.dtype is end.dtype is F32 and x.shape == end.shape != () and part.__class__ is float and abs(part) < 0.5:
            if parallel.in_cpp("lerp", part, x, end):  # type: ignore[arg-type]
                return
            step = np.subtract(end, x)
            np.add(x, np.multiply(step, np.float32(part), out=step), out=x)  # type: ignore[arg-type]
        else:
            np.copyto(x, _LERP(x, end, part), casting="unsafe")

    _each(update, self, tensors1, _seconds(weight, len(self)))


@kernel("aten::_foreach_norm.Scalar")
def norm(self: List, ord: Number = 2, dtype: np.dtype | None = None) -> list[Array]:  # noqa: A002
    """The norm of each tensor."""
    return [reduce.vector_norm(x, ord, dtype=dtype) for x in self]


@kernel("aten::_foreach_powsum.Scalar")
def power_sum(self: List, ord: Number = 2, dtype: np.dtype | None = None) -> list[Array]:  # noqa: A002
    """sum(|x| ** ord) of each tensor."""
    sums = []
    for x in self:
        target = real_dtype(dtype or x.dtype)
        powers = np.power(np.abs(cast(x, compute_dtype(target))), ord.real)
        sums.append(np.asarray(np.sum(powers)).astype(target))
    return sums


@kernel("aten::_foreach_max")
def largest(self: List) -> list[Array]:
    """The maximum of each tensor."""
    return [KERNELS["aten::max"](x) for x in self]


@kernel("aten::_foreach_copy")
def copy(self: List, src: List) -> list[Array]:
    """src in the dtypes and shapes of self."""
    return [np.broadcast_to(y, x.shape).astype(x.dtype) for x, y in zip(self, src, strict=True)]


@kernel("aten::_foreach_copy_")
def copy_in_place(self: List, src: List) -> None:
    """Each src copied into its self."""
    _store(self, src)
