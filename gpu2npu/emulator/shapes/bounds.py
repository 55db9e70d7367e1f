"""Shapes that PyTorch's functions for "meta" do not say: those that depend on values, and those that it has not.

A shape that depends on unknown values takes its upper bound, and is listed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gpu2npu.emulator.shapes import records, values
from gpu2npu.emulator.shapes.meta import infer as infer_on_meta

# Called with the overload, its arguments on "meta" (positional, then named) and the true positional ones.
Infer = Callable[[Any, list[Any], dict[str, Any], tuple[Any, ...]], Any]


@dataclass(frozen=True)
class Shapes:
    """The way to infer the results of an operator, whether it depends on values, and what writes a guess of them."""

    infer: Infer
    needs_values: bool = False
    guess: Callable[[Any, tuple[Any, ...]], None] | None = None


SHAPES: dict[str, Shapes] = {}


def shapes(
    *names: str, needs_values: bool = False, guess: Callable[[Any, tuple[Any, ...]], None] | None = None
) -> Callable[[Infer], Infer]:
    """Register the function for operators by schema name."""

    def register(function: Infer) -> Infer:
        for name in names:
            SHAPES[name] = Shapes(function, needs_values, guess)
        return function

    return register


def _new(shape: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device="meta")


def _bound(op: Any, shape: Any, dtype: torch.dtype) -> torch.Tensor:
    records.wait("shape")
    values.guess("shape", f"{op._schema.name.partition('::')[2]} {list(shape)}")
    return _new(shape, dtype)


@shapes("aten::nonzero", needs_values=True)
def nonzero(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """All elements."""
    return _bound(op, (args[0].numel(), args[0].dim()), torch.int64)


@shapes("aten::masked_select", needs_values=True)
def masked_select(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """All elements."""
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    return _bound(op, (shape.numel(),), args[0].dtype)


@shapes("aten::_unique", "aten::_unique2", needs_values=True)
def unique(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """All elements differ."""
    count = args[0].numel()
    flags = [*args[1:], *[False] * 3]
    inverse = _new(args[0].shape if flags[1] else (0,), torch.int64)
    found = (_bound(op, (count,), args[0].dtype), inverse, _new((count if flags[2] else 0,), torch.int64))
    return found[: len(op._schema.returns)]


@shapes("aten::unique_consecutive", needs_values=True)
def unique_consecutive(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """All elements, or rows of a dimension, differ."""
    named = {"return_inverse": False, "return_counts": False, "dim": None, **kwargs}
    named |= dict(zip(named, args[1:], strict=False))
    inverse, counts, dim = named["return_inverse"], named["return_counts"], named["dim"]
    shape = (args[0].numel(),) if dim is None else tuple(args[0].shape)
    length = shape[0 if dim is None else dim]
    whole = args[0].shape if dim is None else (length,)
    return (
        _bound(op, shape, args[0].dtype),
        _new(whole if inverse else (0,), torch.int64),
        _new((length if counts else 0,), torch.int64),
    )


@shapes("aten::unique_dim", needs_values=True)
def unique_dim(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """All rows differ."""
    length = args[0].shape[args[1]]
    return _bound(op, args[0].shape, args[0].dtype), _new((length,), torch.int64), _new((length,), torch.int64)


@shapes("torchvision::nms", needs_values=True)
def nms(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """All boxes remain."""
    return _bound(op, args[0].shape[:1], torch.int64)


def _even_counts(counts: torch.Tensor, given: tuple[Any, ...]) -> None:
    """Write counts that sum to the elements, as a program that splits by them asks: what a balanced router chooses."""
    count, bins = given[0].numel(), counts.numel()
    if counts.dtype is torch.int64 and bins < count:
        even = torch.full((bins,), count // bins, device="cpu")
        even[: count % bins] += 1
        counts.copy_(even)


@shapes("aten::bincount", needs_values=True, guess=_even_counts)
def bincount(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """As many bins as `minlength` names, or as there are elements: no bound is known."""
    weights = args[1] if len(args) > 1 else kwargs.get("weights")
    length = max(args[2] if len(args) > 2 else kwargs.get("minlength", 0), 1)
    length = length if length > 1 else max(args[0].numel(), 1)
    dtype = torch.int64 if weights is None else torch.float32 if weights.dtype is torch.float32 else torch.float64
    return _bound(op, (length,), dtype)


@shapes("aten::repeat_interleave", needs_values=True)
def repeat_interleave(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """The size that is given, or one of each: no bound is known."""
    size = kwargs.get("output_size")
    return _new((size,), torch.int64) if size is not None else _bound(op, args[0].shape, torch.int64)


@shapes("aten::one_hot", needs_values=True)
def one_hot(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """As many classes as it names, or as there are elements: no bound is known."""
    count = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    if count >= 0:
        return _new((*args[0].shape, count), args[0].dtype)
    return _bound(op, (*args[0].shape, max(args[0].numel(), 1)), args[0].dtype)


@shapes("aten::native_batch_norm", "aten::_native_batch_norm_legit")
def batch_norm(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """As PyTorch's, without statistics where none are made."""
    found = infer_on_meta(op, args, kwargs)
    is_training = next((each for each in args[3:] if isinstance(each, bool)), True)
    return found if is_training else (found[0], _new((0,), torch.float32), _new((0,), torch.float32))


@shapes("aten::equal", needs_values=True)
def equal(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> bool:
    """A guess of the host."""
    records.wait("value")
    found = values.guess("value", "equal")
    return bool(values.value_for(found.line))


@shapes("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index")
def index(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """Masks choose the elements that they are known to choose, or all."""
    indices: list[Any] = []
    for own, there in zip(given[1], args[1], strict=True):
        if there is None or there.dtype not in (torch.bool, torch.uint8):
            indices.append(there)
            continue
        records.wait("shape")
        if values.is_known(own):
            count = int(torch.count_nonzero(own.cpu()))
        else:
            values.guess("shape", f"{op._schema.name.partition('::')[2]} by a mask of {list(own.shape)}")
            count = own.numel()
        indices += [_new((count,), torch.int64)] * max(own.dim(), 1)
    if op._schema.name not in ("aten::index", "aten::_unsafe_index"):
        return args[0] if op._schema.is_mutable else _new(args[0].shape, args[0].dtype)
    return infer_on_meta(op, [args[0], indices], {})


@shapes("aten::linear_backward")
def linear_backward(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """Gradients of the value, the weight and the bias, each if it is wanted."""
    value, gradient, weight, wanted = args
    found = (value.shape, weight.shape, weight.shape[:1])
    return tuple(_new(shape, gradient.dtype) if needed else None for shape, needed in zip(found, wanted, strict=True))
