"""Operators without a kernel: PyTorch's definitions compose some of others, torch's CPU code computes the rest on the
host memory, counted, refused or warned about.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload

from gpu2npu.emulator.device import chip_family, randomness
from gpu2npu.emulator.device.dispatch.arguments import different_devices, gatherer, resize_out
from gpu2npu.emulator.device.dispatch.checks import checker
from gpu2npu.emulator.device.dispatch.limits import refusing, taken_whole
from gpu2npu.emulator.device.dispatch.signature import Signature, overload
from gpu2npu.emulator.device.dispatch.tally import ComputedBy, tally
from gpu2npu.emulator.device.memory import storage_ops
from gpu2npu.emulator.device.tensor import adopt, host
from gpu2npu.emulator.soc import saturates

Operator = Callable[..., Any]

_MACHINERY = (str(Path(__file__).parents[2]), str(Path(torch.__file__).parent))
_NARROW = (torch.float16, torch.bfloat16)
# Rare operators that PyTorch defines by others: what they compute is rounded as a kernel's results would be, and with
# 10^6 elements takes at most twice as long (with few, a tenth of a millisecond).
DEFINED = frozenset(
    f"aten::{name}"
    for name in (
        *("_prelu_kernel", "_prelu_kernel_backward", "elu_backward", "glu_backward", "hardshrink"),
        *("hardswish_backward", "log_sigmoid_forward", "logit_backward", "mish_backward", "softplus_backward"),
        *("softshrink", "soft_margin_loss", "soft_margin_loss_backward", "channel_shuffle", "renorm", "trace"),
        *("floor_divide", "floor_divide.Scalar", "mish", "nansum", "rsub.Scalar", "rsub.Tensor", "std_mean.correction"),
        *("norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dtype", "vdot"),
        "unfold_backward",
    )
)

# What chooses a factorization by the layout of its matrix, as its gradient does from the matrix itself.
_BY_LAYOUT = frozenset({"aten::_linalg_det", "aten::_linalg_slogdet"})


def is_strict() -> bool:
    """Return whether operators that the NPU has, but not this emulator, are errors (GPU2NPU_STRICT=1)."""
    return os.environ.get("GPU2NPU_STRICT", "") == "1"


def computed_by(signature: Signature) -> ComputedBy:
    """Name who computes an overload that has no kernel."""
    if signature.fallback:
        return ComputedBy.FALLBACK
    return ComputedBy.PARTS if signature.functional in DEFINED else ComputedBy.BORROWED


def operator(signature: Signature) -> Operator:
    """The function that PyTorch calls for an overload that no kernel computes."""
    name = signature.functional
    kind = computed_by(signature)
    if kind is ComputedBy.PARTS:
        return _defined(signature)
    entry = tally(name, kind)
    gather = gatherer(signature, host)
    schema = signature.op._schema
    draws = any(argument.name == "generator" for argument in schema.arguments)
    strict = is_strict() and kind is ComputedBy.BORROWED
    is_view = any(value.alias_info is not None and not value.alias_info.is_write for value in schema.returns)
    by_layout = is_view or name.partition(".")[0] in _BY_LAYOUT
    dense = frozenset[int]() if by_layout else frozenset(signature.tensors) - frozenset(signature.writes)

    def run(*args: Any, **kwargs: Any) -> Any:
        if strict:
            raise RuntimeError(
                f"strict mode: the emulator has no NumPy kernel for the operator '{name}' and would borrow torch's "
                "CPU code"
            )
        if kind is ComputedBy.FALLBACK and not entry[0]:
            warn_of_fallback(signature)
        start = perf_counter()
        outs = {out: kwargs.pop(out) for out in signature.outs}
        if outs and not signature.tensors and not signature.lists:
            first = next(iter(outs.values()))
            index = (first if isinstance(first, torch.Tensor) else first[0]).device.index
        else:
            index = -1
        values = list(args)
        placed = "device" in kwargs
        index = max(index, gather(values, kwargs))
        if placed:
            kwargs["device"] = "cpu"
        if draws:
            kwargs["generator"] = randomness.torch_generator(kwargs.get("generator"), index)
        written = _with_own_memory(signature, values)
        for position in dense:
            if position < len(values) and isinstance(values[position], torch.Tensor):
                values[position] = _without_gaps(values[position])
        result = _run(signature, values, kwargs, outs)
        for position in written:
            if args[position].shape != values[position].shape:
                storage_ops.resize_(args[position], values[position].shape)
            host(args[position]).copy_(values[position])
        if saturates():
            _saturate(result)
        result = _fill(result, outs, index) if outs else _returned(signature, result, args, index)
        entry[0] += 1
        entry[1] += perf_counter() - start
        return result if signature.returns else None

    return refusing(signature, run)


def _defined(signature: Signature) -> Operator:
    define = decomposition_table[overload(signature.functional)]
    entry = tally(signature.functional, ComputedBy.PARTS)
    check = checker(signature)

    def run(*args: Any, **kwargs: Any) -> Any:
        start = perf_counter()
        if check is not None:
            check(args, kwargs)
        targets = [kwargs.pop(name) for name in signature.outs] or [args[position] for position in signature.writes]
        with taken_whole():
            result = define(*args, **kwargs)
        for target, value in zip(targets, result if isinstance(result, tuple) else (result,), strict=False):
            if target.shape != value.shape:
                resize_out(target, value.shape)
            target.copy_(value)
        entry[0] += 1
        entry[1] += perf_counter() - start
        if targets:
            return targets[0] if len(targets) == 1 else tuple(targets)
        return result

    return refusing(signature, run)


def _without_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor laid out as its copy on the CPU would be; some of PyTorch's code there reads no others right."""
    return tensor if torch.ops.aten.is_non_overlapping_and_dense(tensor) else tensor.contiguous()


def _with_own_memory(signature: Signature, values: list[Any]) -> list[int]:
    """Put copies in the place of tensors that the operator writes besides its result: it may resize them, as those of
    quantization are by the first batch. The positions."""
    if signature.returns_written:
        return []
    written = [each for each in signature.writes if isinstance(values[each], torch.Tensor)]
    for position in written:
        values[position] = values[position].clone()
    return written


def warn_of_fallback(signature: Signature) -> None:
    """torch_npu's warning about an operator that the NPU lacks (`npu_cpu_fallback` in VariableFallbackKernel.cpp).

    Raises:
        RuntimeError: TORCH_NPU_FALLBACK_CPU_DISABLE is 1, which forbids the CPU.
    """
    if os.environ.get("TORCH_NPU_FALLBACK_CPU_DISABLE") == "1":
        raise RuntimeError(
            f"The operator '{signature.fallback}' would execute its main computation on CPU through dispatcher backend "
            "fallback, but CPU fallback is disabled by TORCH_NPU_FALLBACK_CPU_DISABLE=1."
        )
    warnings.warn(
        f"CAUTION: The operator '{signature.fallback}' is not currently supported on the NPU backend and will fall "
        "back to run on the CPU. This may have performance implications.",
        UserWarning,
        stacklevel=_level_of_user(),
    )


def _level_of_user() -> int:
    """Count the frames from the caller of this function's caller up to the script, past our frames and torch's."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_MACHINERY):
        level, frame = level + 1, frame.f_back
    return level + 1


def callable_with(signature: Signature, op: OpOverload, values: Sequence[Any]) -> Operator:
    """An overload, or, where a number is in a tensor's place, all of its name, of which PyTorch finds the right one."""
    given = (values[position] for position in signature.tensors if position < len(values))
    return op.overloadpacket if any(isinstance(value, int | float | complex) for value in given) else op


def _run(signature: Signature, values: list[Any], kwargs: dict[str, Any], outs: dict[str, Any]) -> Any:
    """Call torch's CPU code; where it lacks a 16-bit float that the NPU has, in float32 and rounded."""
    scratch = _scratch(outs)
    op = callable_with(signature, signature.op, values)
    try:
        result = op(*values, **kwargs, **scratch)
        return result if signature.returns else tuple(scratch.values())
    except RuntimeError as error:
        lacks_dtype = "not implemented for 'Half'" in str(error) or "not implemented for 'BFloat16'" in str(error)
        narrow = next((v.dtype for v in values if isinstance(v, torch.Tensor) and v.dtype in _NARROW), None)
        if not lacks_dtype or narrow is None or signature.writes:
            raise
    wide = [v.float() if isinstance(v, torch.Tensor) and v.dtype in _NARROW else v for v in values]
    result = op(*wide, **kwargs, **_scratch(outs, torch.float32))

    def rounded(value: Any) -> Any:
        return value.to(narrow) if isinstance(value, torch.Tensor) and value.dtype is torch.float32 else value

    return tuple(map(rounded, result)) if isinstance(result, tuple) else rounded(result)


def _saturate(result: Any) -> None:
    if isinstance(result, (list, tuple)):
        for value in result:
            _saturate(value)
    elif isinstance(result, torch.Tensor) and result.dtype is torch.float16:
        chip_family.saturate(result.numpy())


def _scratch(outs: dict[str, Any], narrow_as: torch.dtype | None = None) -> dict[str, Any]:
    """New host tensors in place of `out=` tensors, since torch cannot resize ours."""

    def empty(out: torch.Tensor) -> torch.Tensor:
        return torch.empty(0, dtype=narrow_as if narrow_as and out.dtype in _NARROW else out.dtype)

    return {name: empty(out) if isinstance(out, torch.Tensor) else list(map(empty, out)) for name, out in outs.items()}


def _fill(result: Any, outs: dict[str, Any], index: int) -> Any:
    """Store what was computed into new host tensors in the `out=` tensors."""
    targets = list(outs.values())
    results = list(result) if isinstance(result, tuple) else [result]
    for target, source in zip(targets, results, strict=True):
        pairs = ((target, source),) if isinstance(target, torch.Tensor) else zip(target, source, strict=True)
        for each, values in pairs:
            if each.get_device() != index:
                raise different_devices(f"npu:{index}", str(each.device))
            if each.shape != values.shape:
                resize_out(each, values.shape)
            host(each).copy_(values)
    return targets[0] if len(targets) == 1 else tuple(targets)


def _returned(signature: Signature, result: Any, args: tuple[Any, ...], index: int) -> Any:
    """The result on the NPU: what aliases an argument's memory stays its alias, all else is adopted."""
    if signature.returns_written and isinstance(result, torch.Tensor):
        return args[signature.writes[0]]
    given = [value for each in args for value in (each if isinstance(each, (list, tuple)) else (each,))]
    bases = {each.data_ptr(): each for each in given if isinstance(each, torch.Tensor) and each.get_device() >= 0}

    def placed(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(placed, value)) if type(value) in (list, tuple) else tuple(map(placed, value))
        if not isinstance(value, torch.Tensor):
            return value
        if value.is_nested:
            raise NotImplementedError(
                f"{signature.name}: the NPU has no operators for nested tensors; an nn.TransformerEncoder makes none "
                "with enable_nested_tensor=False"
            )
        if value.layout is not torch.strided:
            raise NotImplementedError(f"{signature.name}: the NPU returns no tensor of layout {value.layout}")
        if value.is_quantized:
            raise NotImplementedError(f"{signature.name}: the NPU has no tensors of {value.dtype}")
        base = bases.get(value.untyped_storage().data_ptr()) if value.numel() else None
        if base is None or base.dtype is not value.dtype:
            return adopt(value, index)
        return storage_ops.as_strided(base, value.shape, value.stride(), value.storage_offset() + base.storage_offset())

    return placed(result)
