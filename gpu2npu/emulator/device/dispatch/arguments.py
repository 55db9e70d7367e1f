"""Converts the arguments and results of kernels: tensors to arrays and back, checked as torch checks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from gpu2npu.emulator.device import native, randomness, visible_npus
from gpu2npu.emulator.device.dispatch.signature import Signature
from gpu2npu.emulator.device.memory.storage_ops import resize_
from gpu2npu.emulator.device.tensor import NUMPY_DTYPES, TORCH_DTYPES, Array, array, on_npu
from gpu2npu.emulator.kernels.registry import Kernel

_UNSEEN = -2

# What may stand where the schema says Tensor: nothing, or a Python number, which promotes types as numbers do.
_NOT_TENSORS = frozenset({type(None), float, int, bool, complex})

# Besides pointwise operators, those that take a CPU tensor beside NPU tensors: torch moves indices itself, and reads
# 0-dim values on the host.
_TAKES_HOST_INDICES = frozenset({"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"})
_TAKES_HOST_SCALARS = frozenset(
    {"aten::where", "aten::masked_fill", "aten::masked_fill_", "aten::index_fill", "aten::fill"}
)

# op-plugin hands a 0-dim CPU tensor that comes first to these as it is (GtKernelNpuOpApi.cpp, LeKernelNpuOpApi.cpp),
# where the other comparisons read its value.
_REFUSES_HOST_FIRST = frozenset({"aten::gt", "aten::le"})

# These fill an `out=` tensor of as many elements in its own shape (RangeFactories.cpp of PyTorch).
_KEEPS_SHAPE = frozenset({"aten::arange", "aten::linspace", "aten::logspace", "aten::range"})
# These call torch's `assert_no_overlap`; all others its `assert_no_partial_overlap`.
_TAKES_NO_INPUT_AS_OUT = frozenset(
    {"aten::gather", "aten::take", "aten::index_select", "aten::masked_select", "aten::kthvalue", "aten::cat"}
)

Gather = Callable[[list[Any], dict[str, Any]], int]


def gatherer(signature: Signature, convert: Callable[[torch.Tensor], Any] = array) -> Gather:
    """A function that replaces the tensors in `args` and `kwargs` by `convert` of them, dtypes by NumPy's when they
    become arrays, drops what says where to allocate, and returns the number of the NPU that the operator runs on.
    """
    tensors, lists, dtypes, placements = signature.tensors, signature.lists, signature.dtypes, signature.placements
    to_numpy = convert is array
    together = None if native.account is None or not to_numpy or _keeps_bits(signature) else native.account.arrays
    if _keeps_bits(signature):
        convert = _resolving(convert)
    named = signature.named_tensors | signature.named_lists

    def gather(args: list[Any], kwargs: dict[str, Any]) -> int:
        index = _UNSEEN
        count = len(args)
        for position in tensors:
            if position >= count:
                break
            tensor = args[position]
            if tensor.__class__ in _NOT_TENSORS:
                continue
            at = tensor.get_device()
            if at != index:
                index = _common_index(signature, index, at, tensor, args)
            args[position] = convert(tensor)
        for position in lists:
            if position >= count:
                break
            if args[position] is None:
                continue
            found = None if together is None else together(args[position])
            if found is not None and index in (_UNSEEN, found[1]):
                args[position], index = found
                continue
            converted: list[Any] = []
            for tensor in args[position]:
                if tensor.__class__ not in _NOT_TENSORS:
                    at = tensor.get_device()
                    if at != index:
                        index = _common_index(signature, index, at, tensor, args)
                    tensor = convert(tensor)
                converted.append(tensor)
            args[position] = converted
        if dtypes and to_numpy:
            for position in dtypes:
                if position < count and args[position] is not None:
                    args[position] = NUMPY_DTYPES[args[position]]
        if placements:
            for position in placements:
                if position < count:
                    args[position] = None
        if kwargs:
            index = gather_named(args, kwargs, index)
        return index if index >= 0 else visible_npus.current_device()

    def gather_named(args: list[Any], kwargs: dict[str, Any], index: int) -> int:
        for name in named & kwargs.keys():
            value = kwargs[name]
            if value.__class__ in _NOT_TENSORS:
                continue
            for tensor in (value,) if name in signature.named_tensors else value:
                at = tensor.get_device()
                if at != index:
                    index = _common_index(signature, index, at, tensor, args)
            kwargs[name] = convert(value) if name in signature.named_tensors else [convert(tensor) for tensor in value]
        device = kwargs.pop("device", None)
        if index < 0 and device is not None:
            index = visible_npus.current_device() if device.index is None else visible_npus.check(device.index)
        for name in ("layout", "pin_memory", "memory_format"):
            kwargs.pop(name, None)
        if to_numpy and kwargs.get("dtype") is not None:
            kwargs["dtype"] = NUMPY_DTYPES[kwargs["dtype"]]
        return index

    return gather


def _keeps_bits(signature: Signature) -> bool:
    """Return whether torch hands the operator lazily conjugated or negated tensors, as it does to those of BLAS."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(has(signature.op.name(), bit) for bit in ("Conjugate", "Negative"))


def _resolving(convert: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    return lambda tensor: convert(tensor.resolve_conj().resolve_neg())


def _common_index(signature: Signature, index: int, at: int, tensor: torch.Tensor, args: list[Any]) -> int:
    """The NPU's number after one more tensor, which is elsewhere than those before; torch's error if it may not be."""
    if at >= 0:
        if index >= 0:
            raise different_devices(f"npu:{index}", f"npu:{at}")
        return at
    if signature.op._schema.name in _TAKES_HOST_INDICES and tensor is args[0]:
        raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
    if signature.op._schema.name in _REFUSES_HOST_FIRST and tensor is args[0]:
        raise RuntimeError(
            "Expected all tensors to be on the same device. Expected NPU tensor, please check whether the input tensor "
            "device is correct."
        )
    if at < 0 and tensor.dim() and signature.op._schema.name in _TAKES_HOST_INDICES and not _is_index(tensor, args):
        raise different_devices(f"npu:{index if index >= 0 else _first_npu(args)}", "cpu")
    written = any(position < len(args) and args[position] is tensor for position in signature.writes)
    if written or not _takes_from_host(signature, tensor.dim()):
        raise different_devices(f"npu:{index if index >= 0 else _first_npu(args)}", "cpu")
    return index


def _is_index(tensor: torch.Tensor, args: list[Any]) -> bool:
    return any(each is tensor for each in args[1] or ())


def _first_npu(args: list[Any]) -> int:
    tensors = [value for arg in args for value in (arg if isinstance(arg, (list, tuple)) else (arg,))]
    return next((t.get_device() for t in tensors if isinstance(t, torch.Tensor) and t.get_device() >= 0), 0)


def _takes_from_host(signature: Signature, dimensions: int) -> bool:
    name = signature.op._schema.name
    if name in _TAKES_HOST_INDICES:
        return True
    return dimensions == 0 and (signature.pointwise or name in _TAKES_HOST_SCALARS or name.startswith("aten::_foreach"))


def different_devices(first: str, second: str) -> RuntimeError:
    """The error of torch's TensorIterator, in its words."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
    )


def fresh(result: Any, inputs: Sequence[Any], keep_strides: bool) -> Array:
    """A kernel's result as an array that owns its memory, in C order unless strides are part of the result."""
    if result.__class__ is not np.ndarray:
        result = np.asarray(result)
    if not (keep_strides or result.flags.c_contiguous):
        return np.ascontiguousarray(result)
    if result.base is None:
        for value in inputs:
            if value is result or (value.__class__ is list and any(item is result for item in value)):
                break
        else:
            return result  # type: ignore[no-any-return]
    elif result.flags.writeable and min(result.strides, default=1) > 0 and not _shares(result, inputs):
        return result  # type: ignore[no-any-return]
    return result.copy(order="K" if keep_strides else "C")  # type: ignore[no-any-return]


def _shares(result: Array, inputs: Sequence[Any]) -> bool:
    """Return whether a result may be in the memory of an input, or of one in a list of them."""
    for value in inputs:
        if isinstance(value, np.ndarray):
            if np.may_share_memory(result, value):
                return True
        elif value.__class__ is list and _shares(result, value):
            return True
    return False


def _arrays(inputs: Sequence[Any]) -> Iterator[Array]:
    for value in inputs:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, list):
            yield from _arrays(value)


def wrap(result: Any, kind: str, index: int, inputs: Sequence[Any], keep_strides: bool = False) -> Any:
    """One value of a result as the schema names its type: arrays become tensors on npu:`index`."""
    if kind == "Tensor":
        return None if result is None else on_npu(fresh(result, inputs, keep_strides), index)
    if kind == "List[Tensor]":
        given = {id(value) for value in _arrays(inputs)}  # asked once: optimizers hand over hundreds of tensors
        is_owner = [value.base is None and id(value) not in given for value in result]
        return [
            on_npu(fresh(value, () if owns else inputs, keep_strides), index)
            for value, owns in zip(result, is_owner, strict=True)
        ]
    return result


def write(target: torch.Tensor, values: Any, inputs: Sequence[Any] = ()) -> None:
    """Store a result in an existing tensor, converted as torch converts.

    Args:
        target: Where to.
        values: What a kernel returned.
        inputs: The arrays that it was computed from.

    Raises:
        RuntimeError: torch does not convert to that dtype, the shape differs, or the memory overlaps.
    """
    values = np.asarray(values)
    into = array(target)
    check_overlap(into, inputs, whole=True)
    if into.dtype != values.dtype:
        check_cast(values, target)
    if into.shape != values.shape:
        raise RuntimeError(
            f"output with shape {list(into.shape)} doesn't match the broadcast shape {list(values.shape)}"
        )
    np.copyto(into, values, casting="unsafe")


def write_out(
    target: torch.Tensor, values: Any, index: int, inputs: Sequence[Any] = (), operator: str = "aten::add"
) -> None:
    """Store a result in an `out=` tensor on npu:`index`, which takes the result's shape as torch's `resize_` gives it.

    Raises:
        RuntimeError: As `write`, or the tensor is elsewhere.
    """
    values = np.asarray(values)
    if target.get_device() != index:
        raise different_devices(f"npu:{index}", str(target.device))
    check_overlap(array(target), inputs, operator not in _TAKES_NO_INPUT_AS_OUT)
    if target.shape != values.shape:
        if operator in _KEEPS_SHAPE and target.numel() == values.size:
            values = values.reshape(target.shape)
        else:
            check_cast(values, target)
            resize_out(target, values.shape)
    write(target, values)


def resize_out(target: torch.Tensor, shape: Sequence[int]) -> None:
    """Give an `out=` tensor the result's shape, within its own memory where that is large enough; torch warns of it."""
    if target.numel():
        warn_resized(target, shape)
    resize_(target, shape)


def warn_resized(target: torch.Tensor, shape: Sequence[int]) -> None:
    """The warning of torch's `resize_output`, in its words."""
    warnings.warn(
        f"An output with one or more elements was resized since it had shape {list(target.shape)}, which does not "
        f"match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch release "
        "outputs will not be resized unless they have zero elements.",
        UserWarning,
        stacklevel=4,
    )


def check_cast(values: Array, target: torch.Tensor) -> None:
    """Raise torch's error when a result may not be stored as the target's dtype."""
    source = TORCH_DTYPES.get(values.dtype)
    if source is not None and not torch.can_cast(source, target.dtype):
        raise RuntimeError(
            f"result type {_scalar_type(source)} can't be cast to the desired output type {_scalar_type(target.dtype)}"
        )


def _scalar_type(dtype: torch.dtype) -> str:
    return str(torch.empty(0, dtype=dtype).type()).rpartition(".")[2].removesuffix("Tensor")


def add_generator(kwargs: dict[str, Any], index: int) -> None:
    """Replace the torch.Generator of a random operator (the NPU's own unless one is given) by NumPy's."""
    kwargs["generator"] = randomness.numpy_generator(kwargs.get("generator"), index)


def check_overlap(into: Array, inputs: Sequence[Any], whole: bool) -> None:
    """Raise the error of `assert_no_internal_overlap` and `assert_no_partial_overlap` (ATen/MemoryOverlap.cpp).

    Args:
        into: The memory of the tensor to write.
        inputs: The arrays, and lists of arrays, that the result was computed from.
        whole: Whether `into` may be one of them.

    Raises:
        RuntimeError: In torch's words.
    """
    if 0 in into.strides and _overlaps_itself(into):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    owner = _owner(into)
    for value in inputs:
        if value.__class__ is list:
            check_overlap(into, value, whole)
        elif value.__class__ is np.ndarray and _owner(value) is owner and _refused(into, value, whole):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                "memory location. Please clone() the tensor before performing the operation."
            )


def apart(kernel: Kernel) -> Kernel:
    """The kernel, which refuses a tensor to write that is partly one of those at its place in the other lists."""

    def run(*args: Any, **kwargs: Any) -> Any:
        lists = [each for each in args if each.__class__ is list]
        # Of whole blocks none is a part of another.
        if any(value.__class__ is np.ndarray and _owner(value) is not value for each in lists for value in each):
            for into, *others in zip(*lists, strict=False):
                check_overlap(into, others, whole=True)
        return kernel(*args, **kwargs)

    return run


def _owner(values: Array) -> Array:
    """The array of the whole block that a view is of."""
    base = values.base
    return base if base.__class__ is np.ndarray else values  # type: ignore[return-value]


def _overlaps_itself(values: Array) -> bool:
    """Return whether an expanded dimension makes several elements of one."""
    spread = any(size > 1 and not step for size, step in zip(values.shape, values.strides, strict=True))
    return spread and values.size > 0


def _refused(into: Array, other: Array, whole: bool) -> bool:
    """Return whether both are dense and share a part of their memory; sharing all of it counts unless `whole`."""
    if not (into.size and other.size and into.flags.forc and other.flags.forc):
        return False
    start, start_other = into.ctypes.data, other.ctypes.data
    if start == start_other and into.nbytes == other.nbytes:
        return not whole or into.strides != other.strides
    return start < start_other + other.nbytes and start_other < start + into.nbytes
