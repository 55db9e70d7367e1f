"""Operators that are one function of NumPy's, of tensors of one dtype that fill their memory, or of one and a number.

Nothing is converted or refused there: a small operator costs little more than the function and the way between C++ and
Python, or none of that way where the library of `native.py` calls the function.
16-bit floats are for the ufuncs whose one rounding is that of float32's result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch

from gpu2npu.emulator.device import native
from gpu2npu.emulator.device.dispatch.limits import unlimited
from gpu2npu.emulator.device.dispatch.signature import Signature
from gpu2npu.emulator.device.dispatch.tally import Tally
from gpu2npu.emulator.device.memory.memory import Block, blocks
from gpu2npu.emulator.device.tensor import NUMPY_DTYPES, on_npu
from gpu2npu.emulator.kernels.registry import quiet_context

Operator = Callable[..., Any]
Function = Callable[..., Any]

_FLOAT32, _BFLOAT16 = torch.float32, torch.bfloat16
_MOST_DIMENSIONS = 7
_ROUNDED_ONCE = frozenset({
    np.add, np.subtract, np.multiply, np.divide, np.equal, np.not_equal, np.less, np.less_equal, np.greater,
    np.greater_equal,
})  # fmt: skip


def operator(signature: Signature, function: Function | None, entry: Tally, otherwise: Operator) -> Operator:
    """The function that PyTorch calls for an overload that `function` computes of float32 arrays.

    `otherwise` where there is none.

    Args:
        signature: The overload, functional or in place.
        function: A ufunc of one or two arrays; any other is of a condition and two arrays.
        entry: The operator's count.
        otherwise: Takes any arguments, and counts itself.
    """
    if function is None or signature.outs or not signature.only_tensors:
        return otherwise
    if not isinstance(function, np.ufunc):
        dtypes = unlimited(signature, NUMPY_DTYPES, _MOST_DIMENSIONS)
        _plan(signature, function, entry, tuple(dtypes))
        return _choice(signature, function, entry, otherwise, dtypes)
    ufunc = function
    if len(signature.tensors) != ufunc.nin:
        return otherwise
    if not any("f" * ufunc.nin + result in ufunc.types for result in ("->f", "->?")):
        return otherwise
    if ufunc.nin == 1:
        _plan(signature, ufunc, entry, (_FLOAT32,))
        return _unary(signature, ufunc, entry, otherwise)
    if signature.writes and "ff->?" in ufunc.types:
        return otherwise
    narrow = unlimited(signature, (torch.float16, _BFLOAT16)) if ufunc in _ROUNDED_ONCE else frozenset()
    _plan(signature, ufunc, entry, (_FLOAT32, *narrow))
    return _binary(signature, ufunc, entry, otherwise, narrow)


def _plan(signature: Signature, function: Function, entry: Tally, dtypes: Sequence[torch.dtype]) -> None:
    """Let the library in C++, where there is one, call the function for an operator where the calls are plain."""
    if native.account is not None:
        name, operands = signature.name.removeprefix("aten::"), len(signature.tensors)
        native.account.plan(name, function, entry, operands, bool(signature.writes), dtypes, (_FLOAT32,))


def _binary(
    signature: Signature, ufunc: np.ufunc, entry: Tally, otherwise: Operator, narrow: frozenset[torch.dtype]
) -> Operator:
    is_in_place = bool(signature.writes)

    def run(*args: Any, **kwargs: Any) -> Any:
        start = perf_counter()
        if kwargs or len(args) != 2:
            return otherwise(*args, **kwargs)
        first, second = args
        block = _filled(first)
        if block is None:
            return otherwise(first, second)
        dtype = block.dtype
        right: Any
        if dtype is not _FLOAT32 and dtype not in narrow:
            return otherwise(first, second)
        if second.__class__ is float or second.__class__ is int:
            if dtype is not _FLOAT32:  # PyTorch computes with the number in float32
                return otherwise(first, second)
            right = second
        else:
            other = _filled(second)
            if other is None or other.dtype is not dtype or other.pool is not block.pool:
                return otherwise(first, second)
            if is_in_place and other.shape != block.shape:
                return otherwise(first, second)
            right = other()
        try:
            if is_in_place:
                left = block()
                quiet_context().run(ufunc, left, right, left)
                result = first
            else:
                values = quiet_context().run(ufunc, block(), right)
                result = on_npu(values if values.flags.c_contiguous else values.copy(), block.pool.index)
        except (MemoryError, ValueError):  # the latter where shapes do not broadcast
            return otherwise(first, second)
        entry[0] += 1
        entry[1] += perf_counter() - start
        return result

    return run


def _unary(signature: Signature, ufunc: np.ufunc, entry: Tally, otherwise: Operator) -> Operator:
    is_in_place = bool(signature.writes)

    def run(*args: Any, **kwargs: Any) -> Any:
        start = perf_counter()
        block = None if kwargs or len(args) != 1 else _filled(args[0])
        if block is None or block.dtype is not _FLOAT32:
            return otherwise(*args, **kwargs)
        try:
            values = block()
            if is_in_place:
                quiet_context().run(ufunc, values, values)
                result = args[0]
            else:
                result = on_npu(quiet_context().run(ufunc, values), block.pool.index)
        except MemoryError:
            return otherwise(*args)
        entry[0] += 1
        entry[1] += perf_counter() - start
        return result

    return run


def _choice(
    signature: Signature, function: Function, entry: Tally, otherwise: Operator, dtypes: frozenset[torch.dtype]
) -> Operator:
    def run(*args: Any, **kwargs: Any) -> Any:
        start = perf_counter()
        condition, first, second = map(_filled, args) if len(args) == 3 and not kwargs else (None, None, None)
        if condition is None or first is None or second is None or condition.dtype is not torch.bool:
            return otherwise(*args, **kwargs)
        if (
            first.dtype is not second.dtype
            or first.dtype not in dtypes
            or not first.pool is second.pool is condition.pool
        ):
            return otherwise(*args)
        if max(len(condition.shape or ()), len(first.shape or ()), len(second.shape or ())) > _MOST_DIMENSIONS:
            return otherwise(*args)
        try:
            result = on_npu(function(condition(), first(), second()), first.pool.index)
        except (MemoryError, ValueError):  # the latter where shapes do not broadcast
            return otherwise(*args)
        entry[0] += 1
        entry[1] += perf_counter() - start
        return result

    return run


def _filled(value: Any) -> Block | None:
    """The memory of a tensor with dimensions that fills it in C order; None for any other value."""
    if not isinstance(value, torch.Tensor):
        return None
    block = blocks.get(value.data_ptr())
    if (
        block is not None
        and block.shape
        and value.shape == block.shape
        and value.dtype is block.dtype
        and value.is_contiguous()
    ):
        return block
    return None
