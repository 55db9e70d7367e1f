"""Every operator that reaches `cuda`: PyTorch's CPU code computes it on the host memory.

Operators that only allocate, copy or alias memory are here; what PyTorch composes of others needs nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from gpu2npu.emulator.device.dispatch.signature import Signature, read
from gpu2npu.verify.reference import rounding, sparse, visible_gpus
from gpu2npu.verify.reference.tensors import adopt, host

_KEY = "CUDA"
_NARROW = (torch.float16, torch.bfloat16)
_NUMBER = (int, float, complex)
_TO_FLOAT = "half to float conversion is not supported on CPU"
_NOT_IMPLEMENTED = ("not implemented for 'Half'", "not implemented for 'BFloat16'")

# CUDA takes CPU tensors beside its own for these: indices and lengths anywhere, and values that are read on the host.
_TAKES_HOST_INDICES = frozenset({
    "aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_ctc_loss",
    "aten::_ctc_loss_backward",
})  # fmt: skip
_TAKES_HOST_SCALARS = frozenset(
    {"aten::where", "aten::masked_fill", "aten::masked_fill_", "aten::index_fill", "aten::fill", "aten::fill_"}
)
# Composites that ask whether a tensor is on CUDA and then call code that only a CUDA build has.
_TESTING_FOR_CUDA = (
    *("convolution", "convolution_backward", "_conv_depthwise2d", "native_dropout", "native_dropout_backward"),
)

_aten = torch.library.Library("aten", "IMPL")
_every = torch.library.Library("_", "IMPL")
_ops = torch.ops.aten
_CPU_KEY, _META_KEY = torch._C.DispatchKey.CPU, torch._C.DispatchKey.Meta


def install() -> None:
    """Register with PyTorch's dispatcher."""
    for name, function in _OWN.items():
        if not name.startswith("_use_") or hasattr(_ops, name.partition(".")[0]):  # a release may lack MIOpen's
            _aten.impl(name, function, _KEY)
    for name in _TESTING_FOR_CUDA:
        _aten.impl(name, functools.partial(compute, getattr(_ops, name).default), _KEY)
    _every.fallback(compute, _KEY)
    sparse.install(compute)


def compute(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Run an operator on the host memory of its arguments.

    Raises:
        RuntimeError: Tensors are on different devices, in PyTorch's words, or PyTorch's CPU code refuses.
    """
    return _operator(op)(args, kwargs)


@functools.cache
def _operator(op: OpOverload) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    signature = read(op)
    call = rounding.rounding_otherwise(signature, _call) if rounding.is_on() else _call

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        placing = _Placing(signature)
        outs = {name: kwargs[name] for name in signature.outs}
        values = [placing.taken(value, position in signature.writes) for position, value in enumerate(args)]
        named = {name: placing.taken(value, name in outs) for name, value in kwargs.items()}
        index = placing.index
        if outs:
            scratch = {name: _empty_like(out) for name, out in outs.items()}
            result = call(signature, values, {**named, **scratch})
            _fill(list(outs.values()), result if signature.returns else tuple(scratch.values()), index)
            targets = list(outs.values())
            return None if not signature.returns else targets[0] if len(targets) == 1 else tuple(targets)
        result = call(signature, values, named)
        for position in signature.writes:
            if position < len(args) and _is_sparse(args[position]):  # its parts are others now
                args[position].data = adopt(values[position], index)
        if signature.returns_written and isinstance(result, torch.Tensor):
            return args[signature.writes[0]]
        return _placed(result, args, values, index)

    return run


class _Placing:
    """Collects which GPU an operator runs on, while its arguments become host tensors."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._index = -1
        self._refuses_cuda = False  # a host tensor was seen that cannot be beside tensors on a GPU

    @property
    def index(self) -> int:
        return self._index if self._index >= 0 else visible_gpus.current_device()

    def taken(self, value: Any, written: bool) -> Any:
        """The value as the CPU takes it."""
        if isinstance(value, torch.Tensor):
            self._see(value, written)
            return host(value)
        if isinstance(value, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in value):
            return [self.taken(item, written) for item in value]
        if isinstance(value, torch.device) and value.type == "cuda":
            if self._index < 0:
                self._index = visible_gpus.index_of(value)
            return torch.device("cpu")
        return value

    def _see(self, tensor: torch.Tensor, written: bool) -> None:
        if tensor.is_cuda:
            at = tensor.get_device()
            if self._index >= 0 and at != self._index:
                raise _different(f"cuda:{self._index}", f"cuda:{at}")
            self._index = at
        elif written or not self._may_stay(tensor.dim()):
            self._refuses_cuda = True
        if self._refuses_cuda and self._index >= 0:
            raise _different(f"cuda:{self._index}", "cpu")

    def _may_stay(self, dimensions: int) -> bool:
        name = self._signature.op._schema.name
        if name in _TAKES_HOST_INDICES:
            return True
        return dimensions == 0 and (
            self._signature.pointwise
            or name in _TAKES_HOST_SCALARS
            or name.startswith(("aten::_foreach", "aten::_fused"))
        )


def _is_sparse(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is not torch.strided


def _different(first: str, second: str) -> RuntimeError:
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
    )


def _call(signature: Signature, values: list[Any], named: dict[str, Any]) -> Any:
    """Call PyTorch's CPU code; where it lacks a 16-bit float that CUDA has, in float32 and rounded."""
    named.pop("pin_memory", None)
    call: Callable[..., Any] = signature.op
    if any(position < len(values) and isinstance(values[position], _NUMBER) for position in signature.tensors):
        call = signature.op.overloadpacket  # the dispatcher hands a tensor that wraps a number on as the number
    try:
        return call(*values, **named)
    except RuntimeError as error:
        if _TO_FLOAT in str(error):  # softmax under autocast
            return signature.op(values[0].float(), values[1], False, **named)
        narrow = next((v.dtype for v in values if isinstance(v, torch.Tensor) and v.dtype in _NARROW), None)
        if signature.op._schema.name.endswith("softmax_backward_data") and values[3] in _NARROW:
            narrow, values = values[3], [*values[:3], torch.float32]
        elif narrow is None or signature.writes or not any(words in str(error) for words in _NOT_IMPLEMENTED):
            raise
    wide = [v.float() if isinstance(v, torch.Tensor) and v.dtype in _NARROW else v for v in values]
    named = {name: _empty_like(out, torch.float32) if name in signature.outs else out for name, out in named.items()}
    result = call(*wide, **named)

    def rounded(value: Any) -> Any:
        return value.to(narrow) if isinstance(value, torch.Tensor) and value.dtype is torch.float32 else value

    return tuple(map(rounded, result)) if isinstance(result, tuple) else rounded(result)


def _empty_like(out: Any, narrow_as: torch.dtype | None = None) -> Any:
    """A new host tensor in place of an `out=` tensor, which cannot be resized."""
    if not isinstance(out, torch.Tensor):
        return [_empty_like(each, narrow_as) for each in out]
    return torch.empty(0, dtype=narrow_as if narrow_as and out.dtype in _NARROW else out.dtype, device="cpu")


def _fill(targets: list[Any], result: Any, index: int) -> None:
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(targets) == 1 and not isinstance(targets[0], torch.Tensor):
        targets = list(targets[0])
    for target, values in zip(targets, results, strict=True):
        if target.shape == values.shape:
            host(target).copy_(values)
        else:
            target.data = adopt(values, index)


def _placed(result: Any, args: tuple[Any, ...], values: list[Any], index: int) -> Any:
    """The result on the GPU: what aliases an argument's memory is a view of it, all else is adopted."""
    bases: dict[int, torch.Tensor] = {}
    for given, value in zip(args, values, strict=True):
        pairs: Iterable[tuple[Any, Any]] = ()
        if isinstance(given, torch.Tensor):
            pairs = ((given, value),)
        elif isinstance(value, list):
            pairs = zip(given, value, strict=True)
        for original, alias in pairs:
            if isinstance(original, torch.Tensor) and original.is_cuda and not _is_sparse(alias) and alias.numel():
                bases[alias.untyped_storage().data_ptr()] = original

    def placed(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(placed, value)) if type(value) in (list, tuple) else tuple(map(placed, value))
        if not isinstance(value, torch.Tensor):
            return value
        if _is_sparse(value):
            return adopt(value, index)
        base = bases.get(value.untyped_storage().data_ptr()) if value.numel() else None
        if base is None or base.dtype is not value.dtype:
            return adopt(value, index)
        return _as_strided(base, value.shape, value.stride(), value.storage_offset() + base.storage_offset())

    return placed(result)


def _empty(size: Sequence[int], device: Any = None, layout: Any = None, pin_memory: Any = None, **kind: Any) -> Any:
    if pin_memory:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    return adopt(torch.empty(size, device="cpu", **kind), visible_gpus.index_of(device))


def _empty_strided(size: Sequence[int], stride: Sequence[int], *, dtype: Any = None, device: Any, **others: Any) -> Any:
    return adopt(torch.empty_strided(size, stride, dtype=dtype, device="cpu"), visible_gpus.index_of(device))


def _zeros(size: Sequence[int], *, dtype: Any = None, device: Any = None, **others: Any) -> torch.Tensor:
    return adopt(torch.zeros(size, dtype=dtype, device="cpu"), visible_gpus.index_of(device))


def _to_copy(
    tensor: torch.Tensor, *, dtype: Any = None, device: Any = None, memory_format: Any = None, **others: Any
) -> torch.Tensor:
    copied: torch.Tensor = _ops._to_copy.default(host(tensor), dtype=dtype, memory_format=memory_format)
    if device is None:
        return adopt(copied, tensor.get_device())
    if device.type == "cuda":
        return adopt(copied, visible_gpus.index_of(device))
    return copied if device.type == "cpu" else copied.to(device)


def _copy(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    host(target).copy_(host(source))
    return target


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    return _copy(target, source)


def _as_strided(
    tensor: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> torch.Tensor:
    return _ops.as_strided.default._op_dk(_CPU_KEY, tensor, size, stride, storage_offset)  # type: ignore[no-any-return]


def _by_meta(op: OpOverload) -> Callable[..., Any]:
    """A view: the Meta kernel computes only sizes and strides, and works on any tensor."""
    return functools.partial(op._op_dk, _META_KEY)


def _set(
    tensor: torch.Tensor, source: torch.UntypedStorage, offset: Any, size: Sequence[int], stride: Sequence[int] = ()
) -> torch.Tensor:
    op = _ops.set_.source_Storage_storage_offset
    return op._op_dk(_CPU_KEY, tensor, source, offset, size, stride)  # type: ignore[no-any-return]


def _set_storage(tensor: torch.Tensor, source: torch.UntypedStorage) -> torch.Tensor:
    return _set(tensor, source, 0, (source.nbytes() // tensor.dtype.itemsize,))


def _set_tensor(tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return _set(tensor, source.untyped_storage(), source.storage_offset(), source.shape, source.stride())


def _resize(
    tensor: torch.Tensor, size: Sequence[int], memory_format: torch.memory_format | None = None
) -> torch.Tensor:
    storage = tensor.untyped_storage()
    needed = int(tensor.storage_offset()) + math.prod(size)
    if needed * tensor.dtype.itemsize > storage.nbytes():
        grown = _empty((needed,), dtype=tensor.dtype, device=tensor.device)
        flat = torch.empty(0, dtype=tensor.dtype).set_(host(tensor).untyped_storage())
        host(grown)[: flat.numel()].copy_(flat)
        storage = grown.untyped_storage()
    strides = torch.empty(size, device="meta", memory_format=memory_format).stride()
    return _set(tensor, storage, tensor.storage_offset(), size, strides)


def _item(tensor: torch.Tensor) -> Any:
    return host(tensor).item()


def _fill_value(tensor: torch.Tensor, value: Any) -> torch.Tensor:
    host(tensor).fill_(value if not isinstance(value, torch.Tensor) else host(value))
    return tensor


def _product_in_dtype(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """A product whose result has another dtype than its operands: PyTorch has it for CUDA alone."""
    *operands, dtype = args
    return compute(op, *(each.to(dtype) for each in operands), **kwargs)


_OWN: dict[str, Callable[..., Any]] = {
    **{
        f"{name}.{overload}": functools.partial(_product_in_dtype, getattr(getattr(_ops, name), computes))
        for name in ("mm", "bmm", "addmm", "baddbmm")
        for overload, computes in (("dtype", "default"), ("dtype_out", "out"))
    },
    "empty.memory_format": _empty,
    "empty_strided": _empty_strided,
    "_efficientzerotensor": _zeros,
    "_to_copy": _to_copy,
    "copy_": _copy,
    "_copy_from": _copy_from,
    "as_strided": _as_strided,
    "view": _by_meta(_ops.view.default),
    "_reshape_alias": _by_meta(_ops._reshape_alias.default),
    "unfold": _by_meta(_ops.unfold.default),
    "view_as_real": _by_meta(_ops.view_as_real.default),
    "view_as_complex": _by_meta(_ops.view_as_complex.default),
    "set_.source_Storage_storage_offset": _set,
    "set_.source_Storage": _set_storage,
    "set_.source_Tensor": _set_tensor,
    "resize_": _resize,
    "_local_scalar_dense": _item,
    "fill_.Scalar": _fill_value,
    "fill_.Tensor": _fill_value,
    "zero_": lambda tensor: _fill_value(tensor, 0),
    **{
        f"_use_{of}_ctc_loss{overload}": lambda *args: False
        for of in ("cudnn", "miopen")
        for overload in ("", ".Tensor")
    },
    "record_stream": lambda tensor, stream: None,
}
