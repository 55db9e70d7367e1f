"""Argument checks: what torch refuses on the CPU is refused on the NPU, in torch's words.

A kernel checks values, and NumPy some of the shapes. All that follows from dtypes, shapes and options (a rounding mode
that does not exist, dtypes that may not meet) is asked of PyTorch, once for each combination of arguments that an
operator meets: of its CPU code, on copies, where they are small, and otherwise of the function that computes the
result's shape on the device "meta", which holds no data; what that refuses is put to the CPU code, whose word is final.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from gpu2npu.emulator.device.dispatch.signature import Signature
from gpu2npu.emulator.device.tensor import host
from gpu2npu.support.behaviour import rows_of

Check = Callable[[Sequence[Any], dict[str, Any]], None]

_META = torch._C.DispatchKey.Meta
_CPU = torch.device("cpu")
_MOST = 1 << 12  # combinations that one operator remembers
_SMALL = 1 << 14  # elements that torch's CPU code may compute, for its opinion
_empty = torch.ops.aten.empty.memory_format
# Their kernels compare the shapes of many tensors, which would make long keys.
_OF_LISTS = ("aten::_foreach_", "aten::_fused_", "aten::_amp_")
# What nearly every model runs: these kernels and NumPy refuse all that the CPU does. PyTorch's functions for "meta" are
# mostly Python, and the first call of one imports half a second of modules.
_COMPLETE = frozenset(
    f"aten::{name}"
    for name in (
        *("addmm", "bmm", "mm", "linear", "convolution_overrideable", "cat", "sum", "mean", "_softmax", "_log_softmax"),
        *("native_dropout", "native_batch_norm", "native_layer_norm", "max_pool2d_with_indices", "embedding", "gelu"),
        *("nll_loss_forward", "index", "index_put", "_index_put_impl_", "uniform_", "normal_", "arange", "argmax"),
    )
)
# Of these, what takes no integers: neither do CANN's documents of aclnnSoftmax, aclnnGelu and their kin.
_OF_FLOATS = frozenset(
    f"aten::{name}"
    for name in (
        *("_softmax", "_log_softmax", "native_dropout", "native_batch_norm", "native_layer_norm", "gelu"),
        "nll_loss_forward",
    )
)
_LACKS_INTEGERS = re.compile("not implemented for '(Bool|Byte|Char|Short|Int|Long)'")
_OF_THE_NPU = frozenset({"aten::one_hot"})  # takes what PyTorch's refuses, and refuses by itself
_ON_META = frozenset({"aten::linalg_ldl_solve"})  # PyTorch 2.13's CPU code ends the process where batches are broadcast
_PLACES = frozenset({"generator", "device", "layout", "pin_memory", "memory_format", "non_blocking"})


def checker(signature: Signature) -> Check | None:
    """A function that raises what torch says to arguments which it refuses; None where PyTorch has nothing to ask.

    Its time on the hot path is that of making a key and looking it up.
    """
    name = signature.name
    schema_name = signature.op._schema.name
    if name.startswith(_OF_LISTS) or not name.startswith("aten::"):
        return None
    if schema_name in _OF_THE_NPU:
        return None
    if not signature.outs and (schema_name in _COMPLETE or "_backward" in schema_name):
        return functools.partial(_refuse_integers, signature) if schema_name in _OF_FLOATS else None
    seen: set[tuple[Any, ...]] = set()
    tensors = signature.tensors
    arguments = signature.op._schema.arguments
    others = tuple(
        position
        for position, argument in enumerate(arguments)
        if not argument.kwarg_only and position not in tensors and str(argument.type) in ("int", "bool", "str")
    )
    described = tuple(
        position
        for position, argument in enumerate(arguments)
        if not argument.kwarg_only and position not in tensors and position not in others
    )

    def check(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        count = len(args)
        key: list[Any] = []
        for position in tensors:
            if position < count:
                tensor = args[position]
                if isinstance(tensor, torch.Tensor):
                    key.append(tensor.shape)
                    key.append(tensor.dtype)
                else:
                    key.append(tensor.__class__)
        key += [args[position] for position in others if position < count]
        key += [_described(args[position]) for position in described if position < count]
        for option, value in kwargs.items():
            if option not in _PLACES:
                key.append(option)
                key.append(_described(value))
        combination = tuple(key)
        if combination not in seen and not _is_watched():
            _ask(signature, args, kwargs)
            if len(seen) >= _MOST:
                seen.clear()
            seen.add(combination)

    return check


def _refuse_integers(signature: Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if not (args[0].is_floating_point() or args[0].is_complex()):
        refused = refusal(signature, args, kwargs)
        if refused is not None:
            raise refused from None


@functools.cache
def _takes_integers(operator: str) -> bool:
    """Return whether CANN's operator takes integers, which PyTorch's CPU code may lack: a row lists its dtypes."""
    return any("DT_INT" in row.words for row in rows_of(operator))


def _described(value: Any) -> Any:
    """Return what the checks depend on of an argument: a tensor's shape and dtype, a float's range, any other value."""
    if isinstance(value, float):
        return value > 0, value >= 0, value > 1, value - value == 0
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype
    if isinstance(value, (list, tuple)):
        return tuple(value) if value and value[0].__class__ is int else tuple([_described(each) for each in value])
    return value.__class__, value


def _is_watched() -> bool:
    """Return whether a tool has replaced methods of tensors: it would see the calls of PyTorch's checks in Python."""
    return torch.Tensor.mul is not torch._C.TensorBase.mul or torch.Tensor.sum is not torch._C.TensorBase.sum


def _ask(signature: Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    refused = None
    on_meta = signature.op._schema.name in _ON_META
    if not on_meta and (_elements(args) <= _SMALL or _holds_complex(args)):
        refused = refusal(signature, args, kwargs)
    else:
        try:
            signature.op._op_dk(_META, *_without_data(args), **_options_without_data(kwargs, signature.outs))
        except NotImplementedError:
            pass
        except Exception as error:
            refused = error if on_meta else refusal(signature, args, kwargs)
    if refused is not None:
        raise refused from None


def _holds_complex(args: Sequence[Any]) -> bool:
    """Return whether an argument is complex: the functions for "meta" ignore that complex numbers have no order."""
    return any(isinstance(value, torch.Tensor) and value.is_complex() for value in args)


def _elements(values: Iterable[Any]) -> int:
    count = 0
    for value in values:
        if isinstance(value, torch.Tensor):
            count += value.numel()
        elif isinstance(value, (list, tuple)):
            count += _elements(value)
    return count


def _without_data(values: Iterable[Any]) -> list[Any]:
    return [_on_meta(value) for value in values]


def _on_meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.dim() == 0 and value.get_device() < 0:
            return value  # a number that PyTorch wrapped
        return _empty(value.shape, dtype=value.dtype, device="meta")
    if isinstance(value, (list, tuple)):
        return _without_data(value)
    return None if isinstance(value, torch.Generator) else value


def _options_without_data(kwargs: dict[str, Any], outs: Sequence[str]) -> dict[str, Any]:
    """Options for the device "meta"; `out=` tensors are empty, so that none is resized with a warning."""
    options = {}
    for name, value in kwargs.items():
        if name == "device":
            options[name] = torch.device("meta")
        elif name in outs:
            options[name] = _map(lambda out: _empty((0,), dtype=out.dtype, device="meta"), value)
        else:
            options[name] = _on_meta(value)
    return options


def _map(change: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    return change(value) if isinstance(value, torch.Tensor) else [change(each) for each in value]


def refusal(signature: Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> Exception | None:
    """Return the error of torch's CPU code for copies of the arguments; None when it takes them or lacks the dtype."""

    def copied(value: Any) -> Any:
        if isinstance(value, torch.Generator):
            return None
        if isinstance(value, torch.Tensor):
            return host(value).clone()
        if isinstance(value, (list, tuple)):
            return [copied(item) for item in value]
        return _CPU if isinstance(value, torch.device) else value

    options = {name: copied(value) for name, value in kwargs.items() if name not in signature.outs}
    for name in signature.outs:  # empty, so that torch resizes none with a warning
        options[name] = _map(lambda out: torch.empty(0, dtype=out.dtype, device="cpu"), kwargs[name])
    if any(argument.name == "generator" for argument in signature.op._schema.arguments):
        options["generator"] = torch._C.Generator()
    try:
        signature.op(*map(copied, args), **options)
    except Exception as error:
        words = str(error)  # from PyTorch 2.14 on, a bool that is negated or subtracted is a NotImplementedError too
        is_refused = "is not supported. If you are trying to invert a mask" in words
        if _LACKS_INTEGERS.search(words) and not _takes_integers(signature.op._schema.name):
            is_refused = True
        lacks_dtype = "not implemented for" in words or isinstance(error, NotImplementedError)
        return error if is_refused or not lacks_dtype or "not implemented for 'Complex" in words else None
    return None
