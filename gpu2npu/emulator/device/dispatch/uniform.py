"""Operators that are one ufunc, of tensors of one floating dtype that fill their memory, or of one and a number.

Nothing is converted or refused there, and where the shapes are one, all about the result but its values is known from
the memory of the first operand: a small operator costs little more than the ufunc and the way between C++ and Python.
16-bit floats are for the ufuncs whose one rounding is that of float32's result.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import torch

from gpu2npu.emulator.device.dispatch.limits import unlimited
from gpu2npu.emulator.device.dispatch.operator_errors import with_operator
from gpu2npu.emulator.device.dispatch.signature import Signature
from gpu2npu.emulator.device.dispatch.tally import Tally
from gpu2npu.emulator.device.memory.memory import Block, blocks
from gpu2npu.emulator.device.tensor import on_npu, on_npu_like
from gpu2npu.emulator.kernels.registry import quiet_context

Operator = Callable[..., Any]

_FLOAT32, _BFLOAT16 = torch.float32, torch.bfloat16
_ROUNDED_ONCE = frozenset({
    np.add, np.subtract, np.multiply, np.divide, np.equal, np.not_equal, np.less, np.less_equal, np.greater,
    np.greater_equal,
})  # fmt: skip


def operator(signature: Signature, ufunc: np.ufunc | None, entry: Tally, otherwise: Operator) -> Operator:
    """The function that PyTorch calls for an overload that `ufunc` computes of float32 arrays: `otherwise` without it.

    Args:
        signature: The overload, functional or in place.
        ufunc: Of one or two arrays.
        entry: The operator's count.
        otherwise: Takes any arguments, and counts itself.
    """
    if ufunc is None or signature.outs or not signature.only_tensors or len(signature.tensors) != ufunc.nin:
        return otherwise
    if not any("f" * ufunc.nin + result in ufunc.types for result in ("->f", "->?")):
        return otherwise
    make = _binary if ufunc.nin == 2 else _unary
    return make(signature, ufunc, entry, otherwise)


def _binary(signature: Signature, ufunc: np.ufunc, entry: Tally, otherwise: Operator) -> Operator:
    name, is_in_place = signature.name, bool(signature.writes)
    narrow = unlimited(signature, (torch.float16, _BFLOAT16)) if ufunc in _ROUNDED_ONCE else ()
    is_comparison = "ff->?" in ufunc.types
    if is_in_place and is_comparison:
        return otherwise

    def run(*args: Any, **kwargs: Any) -> Any:
        start = perf_counter()
        if kwargs or len(args) != 2:
            return otherwise(*args, **kwargs)
        first, second = args
        block = _filled(first)
        if block is None:
            return otherwise(first, second)
        dtype = block.dtype
        is_alike = not is_comparison and dtype is not _BFLOAT16
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
            if other.shape != block.shape:
                if is_in_place:
                    return otherwise(first, second)
                is_alike = False
            right = other()
        try:
            if is_in_place:
                left = block()
                quiet_context().run(ufunc, left, right, left)
                result = first
            elif is_alike:
                result = on_npu_like(quiet_context().run(ufunc, block(), right), block)
            else:
                values = quiet_context().run(ufunc, block(), right)
                result = on_npu(values if values.flags.c_contiguous else values.copy(), block.pool.index)
        except (MemoryError, ValueError):  # the latter where shapes do not broadcast
            return otherwise(first, second)
        except Exception as error:
            raise with_operator(error, name, args, kwargs)  # noqa: B904
        entry[0] += 1
        entry[1] += perf_counter() - start
        return result

    return run


def _unary(signature: Signature, ufunc: np.ufunc, entry: Tally, otherwise: Operator) -> Operator:
    name, is_in_place = signature.name, bool(signature.writes)

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
                result = on_npu_like(quiet_context().run(ufunc, values), block)
        except MemoryError:
            return otherwise(*args)
        except Exception as error:
            raise with_operator(error, name, args, kwargs)  # noqa: B904
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
