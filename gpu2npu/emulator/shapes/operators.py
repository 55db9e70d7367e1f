"""An operator in a shapes-only run: checked as always, inferred by PyTorch's function for "meta", never computed.

Where all that it is given is known (see `values`) and small, the operator runs as in any other run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch

from gpu2npu.emulator.device.chip_family import no_bfloat16
from gpu2npu.emulator.device.dispatch.arguments import gatherer, resize_out
from gpu2npu.emulator.device.dispatch.checks import refusal
from gpu2npu.emulator.device.dispatch.limits import refusing
from gpu2npu.emulator.device.dispatch.signature import Signature, overload
from gpu2npu.emulator.device.dispatch.tally import ComputedBy, tally
from gpu2npu.emulator.device.dispatch.without_kernel import callable_with, warn_of_fallback
from gpu2npu.emulator.device.memory import storage_ops
from gpu2npu.emulator.shapes import npu_operators, pages, records, values
from gpu2npu.emulator.shapes.meta import infer, without_values
from gpu2npu.emulator.soc import current_soc

Operator = Callable[..., Any]

_META = torch.device("meta")
_COMPUTED = 1 << 28  # bytes


def operator(signature: Signature, compute: Operator, kind: ComputedBy) -> Operator:
    """The function that PyTorch calls for an overload in a shapes-only run.

    Args:
        signature: The overload.
        compute: What it is in any other run.
        kind: Who computes it there.
    """
    name, op = signature.name, signature.op
    functional = overload(signature.functional)
    entry = tally(signature.functional, kind)
    gather = gatherer(signature, without_values)
    shapes = npu_operators.shapes_of(functional._schema.name)
    has_bfloat16 = current_soc().bfloat16
    inferred_of = functional if signature.outs else op
    takes_device = any(argument.name == "device" for argument in inferred_of._schema.arguments)
    written = [*signature.writes]
    is_random = signature.random

    def run(*args: Any, **kwargs: Any) -> Any:
        start = perf_counter()
        given = list(_tensors(args, kwargs))
        is_known = all(map(values.is_known, given))
        if shapes is not None and shapes.needs_values and is_known:
            return _marked(compute(*args, **kwargs), True)
        try:
            inferred = _inferred(args, kwargs, is_known)
        except NotImplementedError:
            if not _may_compute(given):
                raise
            return _marked(compute(*args, **kwargs), False)
        if is_known and _is_small(inferred, given, is_random):
            return _marked(compute(*args, **kwargs), True)
        if signature.fallback and not entry[0]:
            warn_of_fallback(signature)
        result = _placed(args, kwargs, *inferred)
        if shapes is not None and shapes.guess is not None:
            shapes.guess(result, args)
        entry[0] += 1
        entry[1] += perf_counter() - start
        records.operator(signature, given, result)
        return result

    def _inferred(args: tuple[Any, ...], kwargs: dict[str, Any], is_known: bool) -> tuple[Any, list[Any], int]:
        """The results on "meta", the arguments there, and the number of the NPU."""
        plain, named = list(args), {key: value for key, value in kwargs.items() if key not in signature.outs}
        index = gather(plain, named)
        outs = [kwargs[out] for out in signature.outs]
        if outs and not signature.tensors and not signature.lists:
            first = outs[0] if isinstance(outs[0], torch.Tensor) else outs[0][0]
            index = first.get_device()
            named.setdefault("dtype", first.dtype)
        if not has_bfloat16 and any(each.dtype is torch.bfloat16 for each in _tensors(plain, named)):
            raise no_bfloat16(name)
        named.pop("generator", None)
        if takes_device:
            named["device"] = _META
        try:
            if shapes is not None:
                return shapes.infer(op, plain, named, args), plain, index
            return infer(callable_with(signature, inferred_of, plain), plain, named), plain, index
        except NotImplementedError:
            if written and not signature.outs:
                return None, plain, index
            raise
        except Exception as error:
            raise _in_torchs_words(signature, args, kwargs) or error from None

    def _placed(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, plain: list[Any], index: int) -> Any:
        for position in written:
            for tensor in _tensors((args[position],), {}):
                if tensor.get_device() >= 0:
                    values.mark(tensor, False)
        if signature.outs:
            return _into_outs(signature, kwargs, result)
        if signature.returns_written and len(signature.returns) == 1:
            return args[signature.writes[0]]
        if not signature.returns:
            return None
        aliases = {}
        for own, other in zip(_tensors(args, {}), _tensors(plain, {}), strict=False):
            if other.is_meta:
                aliases[other.untyped_storage()._cdata] = own
        return _on_npu(result, aliases, index, signature.pointwise)

    return refusing(signature, run, has_values=False)


def _on_npu(value: Any, aliases: dict[int, torch.Tensor], index: int, keep_strides: bool) -> Any:
    """Tensors on npu:`index` in the place of those on "meta"; what shares an argument's memory there does so here."""
    if isinstance(value, (list, tuple)):
        found = [_on_npu(each, aliases, index, keep_strides) for each in value]
        return found if isinstance(value, list) else tuple(found)
    if not isinstance(value, torch.Tensor):
        return value
    base = aliases.get(value.untyped_storage()._cdata)
    if base is not None:
        offset = value.storage_offset() + base.storage_offset()
        return storage_ops.as_strided(base, value.shape, value.stride(), offset)
    strides = value.stride() if keep_strides and not value.is_contiguous() else None
    return pages.new(value.shape, value.dtype, index, strides)


def _into_outs(signature: Signature, kwargs: dict[str, Any], result: Any) -> Any:
    targets = [kwargs[name] for name in signature.outs]
    results = result if isinstance(result, (list, tuple)) and len(targets) > 1 else [result]
    for target, value in zip(targets, results, strict=True):
        pairs = [(target, value)] if isinstance(target, torch.Tensor) else zip(target, value, strict=True)
        for each, found in pairs:
            if each.shape != found.shape and each.numel() != found.numel():
                resize_out(each, found.shape)
            elif each.shape != found.shape:
                storage_ops.resize_(each, found.shape)
            values.mark(each, False)
    if not signature.returns:
        return None
    return targets[0] if len(targets) == 1 else tuple(targets)


def _in_torchs_words(signature: Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> Exception | None:
    """Return the error of torch's CPU code for arguments that "meta" refuses, given zeros that take no memory."""

    def zeros(value: Any, written: bool = False) -> Any:
        if isinstance(value, torch.Tensor):
            if written or not value.dim():
                return torch.empty(value.shape, dtype=value.dtype, device="cpu")
            return torch.zeros((), dtype=value.dtype, device="cpu").expand(value.shape)
        return [zeros(each, written) for each in value] if isinstance(value, (list, tuple)) else value

    plain = [zeros(value, position in signature.writes) for position, value in enumerate(args)]
    return refusal(signature, plain, {name: zeros(value, name in signature.outs) for name, value in kwargs.items()})


def _tensors(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            for each in value:
                if isinstance(each, torch.Tensor):
                    yield each


def _is_small(inferred: tuple[Any, list[Any], int], given: list[torch.Tensor], is_random: bool) -> bool:
    """Return whether the results of known arguments are known too."""
    result = inferred[0]
    found = list(_tensors(result if isinstance(result, (list, tuple)) else (result,), {}))
    if is_random and any(each.dtype.is_floating_point for each in found):
        return False
    return all(values.is_knowable(each.shape, each.dtype) for each in (*found, *given))


def _may_compute(given: list[torch.Tensor]) -> bool:
    """Return whether an operator whose shapes nobody knows can run on zeros, in memory that it then takes."""
    return sum(tensor.nbytes for tensor in given) <= _COMPUTED


def _marked(result: Any, known: bool) -> Any:
    """The result of an operator that ran, known if all that it was given is."""
    for tensor in _tensors(result if isinstance(result, (list, tuple)) else (result,), {}):
        if tensor.get_device() >= 0:
            values.mark(tensor, known)
    return result
