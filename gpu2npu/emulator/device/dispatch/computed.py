"""Operators that a NumPy kernel computes: one function per overload, all decisions taken when it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch

from gpu2npu.emulator.device.chip_family import restrained
from gpu2npu.emulator.device.dispatch import uniform
from gpu2npu.emulator.device.dispatch.arguments import add_generator, apart, fresh, gatherer, wrap, write, write_out
from gpu2npu.emulator.device.dispatch.checks import Check, checker, refusal
from gpu2npu.emulator.device.dispatch.cube import preparation
from gpu2npu.emulator.device.dispatch.limits import refusing
from gpu2npu.emulator.device.dispatch.signature import Signature
from gpu2npu.emulator.device.dispatch.tally import ComputedBy, tally
from gpu2npu.emulator.device.memory.memory import exhausted
from gpu2npu.emulator.device.tensor import BFLOAT16, NoArrayError, on_npu
from gpu2npu.emulator.kernels.registry import FUNCTIONS, Kernel

Operator = Callable[..., Any]

_FILLS = "aten::_foreach_zero_"  # PyTorch lets it write tensors that overlap themselves
_NUMPY_ERRORS = (ValueError, TypeError, IndexError, ZeroDivisionError)
# A pointwise operator of nothing but tensors refuses these for their shapes only, as NumPy does.
_FLOATS = (np.dtype(np.float32), BFLOAT16, np.dtype(np.float16))


class DeclinedError(Exception):
    """A kernel does not do this case (it raised NotImplementedError, or NumPy lacks the dtype)."""


def operator(signature: Signature, kernel: Kernel, direct: bool, otherwise: Operator) -> Operator:
    """The function that PyTorch calls for an overload that `kernel` computes.

    Args:
        signature: The overload.
        kernel: Computes the functional overload, or, when `direct`, this very overload, writing its written arguments.
        direct: Whether the kernel is registered under the overload's own name.
        otherwise: Computes the operator when the kernel declines.
    """
    whole = restrained(signature.name, kernel, signature.writes)
    run = refusing(signature, _any_arguments(signature, whole, direct, otherwise))
    if whole is not kernel:
        return run
    entry = tally(signature.functional, ComputedBy.NUMPY)
    return uniform.operator(signature, FUNCTIONS.get(signature.functional), entry, run)


def _any_arguments(signature: Signature, kernel: Kernel, direct: bool, otherwise: Operator) -> Operator:
    if signature.returns == ("Tensor",) and not (signature.op._schema.is_mutable or signature.random):
        return _one_tensor(signature, kernel, otherwise)
    check = checker(signature)
    writes_lists = signature.writes and signature.name.startswith("aten::_foreach_") and signature.name != _FILLS
    compute = _compute(signature, apart(kernel) if writes_lists else kernel)
    if check is not None and signature.pointwise and signature.only_tensors and signature.writes and not direct:
        compute, check = _checking_late(compute, check), None
    if signature.outs:
        store = _into_outs(signature, compute)
    elif not signature.op._schema.is_mutable or (direct and signature.returns and not signature.returns_written):
        store = _results(signature, compute)
    elif direct:
        store = _in_place_by_kernel(signature, compute)
    else:
        store = _in_place(signature, compute)

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            if check is not None:
                check(args, kwargs)
            return store(args, dict(kwargs))
        except DeclinedError:
            return otherwise(*args, **kwargs)
        except _NUMPY_ERRORS as error:
            raise refusal(signature, args, kwargs) or error from None

    return run


def _all_floats(values: Sequence[Any]) -> bool:
    return all(value.__class__ is np.ndarray and value.dtype in _FLOATS for value in values)


def _one_tensor(signature: Signature, kernel: Kernel, otherwise: Operator) -> Operator:
    """The common case in one function, which is what a small operator costs."""
    gather = gatherer(signature)
    keep_strides = signature.pointwise
    entry = tally(signature.functional, ComputedBy.NUMPY)
    prepare = preparation(signature.op._schema.name)
    check = late_check = checker(signature)
    if signature.only_tensors and signature.pointwise:
        check = None
    else:
        late_check = None

    def run(*args: Any, **kwargs: Any) -> torch.Tensor:
        start = perf_counter()
        values = list(args)
        named = dict(kwargs) if kwargs else kwargs
        try:
            index = gather(values, named)
            if check is not None:
                check(args, kwargs)
            if prepare is not None:
                prepare(values)
            try:
                result = kernel(*values, **named)
            except NotImplementedError as error:
                raise DeclinedError from error
            if late_check is not None and result.dtype not in _FLOATS and not _all_floats(values):
                late_check(args, kwargs)
            tensor = on_npu(fresh(result, values, keep_strides), index)
        except (NoArrayError, DeclinedError):
            return otherwise(*args, **kwargs)  # type: ignore[no-any-return]
        except MemoryError as error:
            raise exhausted(error, index) from None
        except _NUMPY_ERRORS as error:
            raise refusal(signature, args, kwargs) or error from None
        entry[0] += 1
        entry[1] += perf_counter() - start
        return tensor

    return run


Compute = Callable[[list[Any], dict[str, Any]], tuple[Any, int]]
Store = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def _compute(signature: Signature, kernel: Kernel) -> Compute:
    """Turn the arguments into arrays in place and run the kernel: its result, and the number of the NPU."""
    gather = gatherer(signature)
    entry = tally(signature.functional, ComputedBy.NUMPY)
    random = signature.random
    prepare = preparation(signature.op._schema.name)

    def compute(args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, int]:
        start = perf_counter()
        try:
            index = gather(args, kwargs)
        except NoArrayError as error:
            raise DeclinedError from error
        if random:
            add_generator(kwargs, index)
        if prepare is not None:
            prepare(args)
        try:
            result = kernel(*args, **kwargs)
        except NotImplementedError as error:
            raise DeclinedError from error
        except MemoryError as error:
            raise exhausted(error, index) from None
        entry[0] += 1
        entry[1] += perf_counter() - start
        return result, index

    return compute


def _checking_late(compute: Compute, check: Check) -> Compute:
    """As `_one_tensor` checks pointwise operators, for those that write into their first tensor."""

    def computed(args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, int]:
        given = tuple(args)
        result, index = compute(args, kwargs)
        if result.dtype not in _FLOATS and not _all_floats(args):
            check(given, kwargs)
        return result, index

    return computed


def _results(signature: Signature, compute: Compute) -> Store:
    kinds, keep_strides = signature.returns, signature.pointwise

    def store(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = list(args)
        result, index = compute(values, kwargs)
        if not kinds:
            return None
        if len(kinds) == 1:
            return wrap(result, kinds[0], index, values, keep_strides)
        made = []
        for value, kind in zip(result, kinds, strict=True):
            made.append(wrap(value, kind, index, values, keep_strides))
            values.append(value)  # the kernel may give one array for two results
        return tuple(made)

    return store


def _in_place(signature: Signature, compute: Compute) -> Store:
    """The functional kernel's result goes into the first written argument, a tensor or a list of tensors."""
    target_position = signature.writes[0]
    is_list = target_position in signature.lists

    def store(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inputs = list(args)
        result, _ = compute(inputs, kwargs)
        target = args[target_position]
        if not is_list:
            del inputs[target_position]  # the target itself, which may be what it was
            write(target, result, inputs)
            return target
        for tensor, values in zip(target, result, strict=True):
            write(tensor, values)
        return None

    return store


def _in_place_by_kernel(signature: Signature, compute: Compute) -> Store:
    """The kernel writes the arrays it is given, or returns the new values of the first written tensor."""
    target_position = signature.writes[0]
    returns_target = signature.returns_written

    def store(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = list(args)
        result, _ = compute(values, kwargs)
        if result is not None and result is not values[target_position] and target_position in signature.tensors:
            write(args[target_position], result)
        return args[target_position] if returns_target else None

    return store


def _into_outs(signature: Signature, compute: Compute) -> Store:
    names, operator = signature.outs, signature.op._schema.name

    def store(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        targets = [kwargs.pop(name) for name in names]
        if signature.factory:
            kwargs["device"] = _device_of(targets[0])
            kwargs.setdefault("dtype", targets[0].dtype)
        inputs = list(args)
        result, index = compute(inputs, kwargs)
        if len(targets) == 1 and not isinstance(targets[0], torch.Tensor):
            for target, values in zip(targets[0], result, strict=True):
                write_out(target, values, index, inputs, operator)
            return targets[0] if signature.returns else None
        for target, values in zip(targets, (result,) if len(targets) == 1 else result, strict=True):
            write_out(target, values, index, inputs, operator)
        if not signature.returns:
            return None
        return targets[0] if len(targets) == 1 else tuple(targets)

    return store


def _device_of(target: Any) -> torch.device:
    return target.device if isinstance(target, torch.Tensor) else target[0].device
