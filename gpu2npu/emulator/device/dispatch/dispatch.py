"""Registration with PyTorch's dispatcher: who runs when an operator reaches the npu device.

In order of precedence: the device's own storage operators, a NumPy kernel, PyTorch's own decomposition into other
operators, and the fallback, which borrows torch's CPU code. Autograd, autocast and views sit above and are PyTorch's.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch._ops import OpOverload

from gpu2npu.emulator import kernels, npu_ops, shapes
from gpu2npu.emulator.device import lifecycle, native, visible_npus
from gpu2npu.emulator.device.dispatch import computed, signature, support_table, without_kernel
from gpu2npu.emulator.device.dispatch.operator_errors import naming, with_operator
from gpu2npu.emulator.device.dispatch.tally import ComputedBy
from gpu2npu.emulator.device.memory import storage_ops
from gpu2npu.emulator.device.sparse import dispatch as sparse
from gpu2npu.emulator.device.tensor import NUMPY_DTYPES
from gpu2npu.emulator.kernels import parallel, promotion
from gpu2npu.emulator.kernels.registry import FUNCTIONS, Kernel
from gpu2npu.emulator.npu_ops import definition
from gpu2npu.emulator.registration import implement, untraced
from gpu2npu.emulator.soc import saturates

_KEY = "PrivateUse1"
_ALLOCATING = ("empty.memory_format", "empty_strided", "_efficientzerotensor", "_to_copy")
# A copy carries lazy conjugation and negation bits over itself; resolving them first would copy, and so on for ever.
_CARRY_BITS = ("_copy_from", "_copy_from_and_resize")

# PyTorch makes these of other operators, and torch_npu has its own of integers, which have no gradient to lose.
_INSTEAD_OF_A_COMPOSITION = ("aten::one_hot",)

# A nested tensor's own sizes, which are on the CPU. PyTorch asks for them where an error ends the process.
_NESTED_KEY = "NestedTensorPrivateUse1"
_OF_NESTED = ("_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets")

_DROPPED = ("aten::cholesky",)  # PyTorch 2.14 has it no longer

_aten = torch.library.Library("aten", "IMPL")
_every = torch.library.Library("_", "IMPL")
_others: dict[str, torch.library.Library] = {}
_lock = threading.Lock()
_loaded = False

_operators: dict[OpOverload, Callable[..., Any]] = {}


def install() -> None:
    """Register everything but the kernels, which wait for the first npu tensor."""
    promotion.follow_default(lambda: NUMPY_DTYPES[torch.get_default_dtype()])
    in_cpp = native.VIEWS if native.library is not None else ()
    if native.account is not None:
        in_cpp = (*in_cpp, *native.FACTORIES)
    for name, function in _storage_operators().items():
        implement(
            _aten,
            name,
            _initializing(name, function) if name in _ALLOCATING else naming(f"aten::{name}", function),
            native.PYTHON_KEY if name in in_cpp else _KEY,
        )
    parallel.native = native.library
    if native.library is not None:
        native.library.views()
    if native.account is not None:
        native.account.factories()
        os.register_at_fork(after_in_child=lambda: native.account.visible(0))
    for name in _CARRY_BITS:
        for bit in ("Conjugate", "Negative"):
            _aten.impl(name, torch.library.fallthrough_kernel, bit)
    _every.fallback(untraced(_fallback), _KEY)
    for key, refuse in sparse.REFUSALS.items():
        _every.fallback(untraced(functools.partial(_sparse_fallback, refuse)), key)
    _every.fallback(untraced(_nested_fallback), _NESTED_KEY)
    for name in _OF_NESTED:
        shared = functools.partial(signature.overload(f"aten::{name}")._op_dk, torch._C.DispatchKey.NestedTensorCPU)
        implement(_aten, name, shared, _NESTED_KEY)


def _storage_operators() -> dict[str, Callable[..., Any]]:
    if not shapes.is_on():
        return storage_ops.OWN
    from gpu2npu.emulator.shapes import storage

    composed = {name: function for name, function in storage_ops.OWN.items() if name != "clone"}
    return {**composed, **storage.OWN}


def _initializing(name: str, allocate: Callable[..., Any]) -> Callable[..., Any]:
    """Every npu tensor's life starts with an allocation, so this is where the kernels are first needed."""
    named = naming(f"aten::{name}", allocate)

    @functools.wraps(allocate)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not (_loaded and lifecycle.is_initialized()):
            lifecycle.init()
            load_kernels()
            if native.account is not None:
                native.account.visible(visible_npus.device_count())
        return named(*args, **kwargs)

    return run


def load_kernels() -> None:
    """Import the kernel families and register each kernel for its overloads; once."""
    global _loaded
    with _lock:
        if _loaded:
            return
        # What operators ask when they are made is decided here, for all of them.
        support_table.release()
        saturates()
        npu_ops.load()
        for name, kernel in kernels.load().items():
            if name not in _DROPPED or hasattr(torch.ops.aten, name.removeprefix("aten::")):
                register(name, kernel)
        for op in map(signature.overload, without_kernel.DEFINED):
            for each in (op, *signature.mutable_overloads(op)):
                implement(_aten, each, functools.partial(_fallback, each), _KEY)
        sparse.load(_aten)
        _loaded = True


def register(name: str, kernel: Kernel) -> None:
    """Register one kernel for the overload of its name, and for the in-place and `out=` overloads of the same.

    Raises:
        ValueError: PyTorch has no such overload.
    """
    op = signature.overload(name)
    if _is_composite(op) and name not in _INSTEAD_OF_A_COMPOSITION:
        return
    in_cpp = native.account is not None and name in FUNCTIONS
    _implement(op, kernel, direct=True, in_cpp=in_cpp)
    if op._schema.is_mutable:
        return
    for other in signature.mutable_overloads(op):
        if other.name() not in kernels.KERNELS and not _is_composite(other):
            _implement(other, kernel, direct=False, in_cpp=in_cpp and other._schema.name.endswith("_"))


def _is_composite(op: OpOverload) -> bool:
    """Return whether PyTorch decomposes an operator above the device to differentiate it: a kernel has no gradient."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return has(op.name(), "CompositeImplicitAutograd") and not has(op.name(), "Autograd")


def _implement(op: OpOverload, kernel: Kernel, direct: bool, in_cpp: bool) -> None:
    if op.name().removeprefix("aten::") in storage_ops.OWN:
        return
    run = _at_first_call(op, functools.partial(_computed, op, kernel, direct))
    _operators[op] = run
    library = _aten
    if op.namespace != "aten":
        library = _others.setdefault(op.namespace, torch.library.Library(op.namespace, "IMPL"))
    implement(library, op, run, native.PYTHON_KEY if in_cpp else _KEY)
    if in_cpp:
        native.account.accept(op.name().removeprefix("aten::"))


def _computed(op: OpOverload, kernel: Kernel, direct: bool) -> Callable[..., Any]:
    read = signature.read(op)
    if read.fallback:
        return _without_kernel(read)
    run = computed.operator(read, kernel, direct, _at_first_call(op, functools.partial(_without_kernel, read)))
    return _without_arithmetic(read, run, ComputedBy.NUMPY)


def _without_kernel(read: signature.Signature) -> Callable[..., Any]:
    """Return the function for an operator without a kernel: PyTorch's code, or an error for torch_npu's own."""
    if read.op.namespace == definition.NAMESPACE:
        return definition.uncomputed(read.op)
    return _without_arithmetic(read, without_kernel.operator(read), without_kernel.computed_by(read))


def _without_arithmetic(read: signature.Signature, compute: Callable[..., Any], kind: ComputedBy) -> Callable[..., Any]:
    if not shapes.is_on() or (kind is ComputedBy.BORROWED and without_kernel.is_strict()):
        return compute
    from gpu2npu.emulator.shapes import operators

    return operators.operator(read, compute, kind)


def _at_first_call(op: OpOverload, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """An operator that is made when it is first called: a program uses few, and to make all takes a second.

    Its errors name it and what it was given.
    """
    made: Callable[..., Any] | None = None

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal made
        try:
            if made is None:
                made = make()
            return made(*args, **kwargs)
        except Exception as error:
            raise with_operator(error, op.name(), args, kwargs)  # noqa: B904

    return run


def _fallback(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    run = _operators.get(op)
    if run is None:
        load_kernels()
        make = functools.partial(_without_kernel, signature.read(op))
        run = _operators.get(op) or _operators.setdefault(op, _at_first_call(op, make))
    return run(*args, **kwargs)


def _sparse_fallback(refuse: Callable[[OpOverload], NoReturn], op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    if _loaded:
        refuse(op)
    load_kernels()
    return op(*args, **kwargs)


def _nested_fallback(op: OpOverload, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse what torch_npu's pages of native APIs (torch.nested) do, from 2.7.1 to 2.13: all but making one."""
    raise NotImplementedError(
        f"{op.name()}: the NPU makes nested tensors of layout torch.strided, and has no operators for them; pad the "
        "tensors to one shape"
    )
