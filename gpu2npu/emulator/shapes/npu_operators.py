"""Shapes of torch_npu's own operators, and of PyTorch's for which it has no function on "meta".

Most results are like an argument: `like.txt` has for each result of an operator the argument that it is like,
`argument:dtype` for another dtype, `-` for an empty one. Sources are the kernels in `npu_ops`, whose docstrings give
shapes, and torch_npu's documents that they name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload

from gpu2npu.emulator.npu_ops.arguments import bound
from gpu2npu.emulator.npu_ops.attention_arithmetic import Dropout
from gpu2npu.emulator.shapes.bounds import SHAPES, Infer, Shapes, shapes

_EMPTY = "-"


def _new(shape: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device="meta")


def _like(described: str) -> Any:
    results = [each.partition(":")[::2] for each in described.split()]

    def infer(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
        named = bound(op.name(), args, kwargs)
        found = []
        for name, dtype in results:
            model = None if name == _EMPTY else getattr(named, name)
            wanted = getattr(torch, dtype) if dtype else getattr(model, "dtype", torch.float32)
            found.append(_new((0,) if model is None else model.shape, wanted))
        return found[0] if len(found) == 1 else tuple(found)

    return infer


for _line in Path(__file__).with_name("like.txt").read_text(encoding="utf-8").splitlines():
    _name, _, _described = _line.partition(" ")
    SHAPES[_name] = Shapes(_like(_described))


def _halved(shape: torch.Size, dim: int) -> list[int]:
    halved = list(shape)
    if halved[dim] % 2:
        raise RuntimeError(f"dimension {dim} of {list(shape)} has no two halves")
    halved[dim] //= 2
    return halved


@shapes("npu::npu_swiglu", "npu::npu_geglu")
def gated(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """Half of a dimension."""
    a = bound(op.name(), args, kwargs)
    half = _new(_halved(a.self.shape, a.dim), a.self.dtype)
    return half if op._schema.name == "npu::npu_swiglu" else (half, torch.empty_like(half))


@shapes("npu::npu_rms_norm", "npu::npu_gemma_rms_norm", "npu::npu_add_rms_norm")
def rms_norm(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """The result, and 1 / rms in float32, of length 1 along gamma's dimensions."""
    a = bound(op.name(), args, kwargs)
    is_sum = not hasattr(a, "self")
    x = a.x1 if is_sum else a.self
    left = x.dim() - a.gamma.dim()
    if x.shape[left:] != a.gamma.shape:
        raise RuntimeError(f"gamma of shape {list(a.gamma.shape)} does not end the shape {list(x.shape)}")
    rstd = _new((*x.shape[:left], *[1] * a.gamma.dim()), torch.float32)
    return (torch.empty_like(x), rstd, *([torch.empty_like(x)] if is_sum else ()))


@shapes("npu::npu_add_layer_norm", "npu::npu_deep_norm")
def add_norm(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """The result, the mean and 1 / deviation in float32, and the sum; of deep norm both statistics come first."""
    a = bound(op.name(), args, kwargs)
    is_deep = hasattr(a, "x")
    x = a.x if is_deep else a.x1
    left = x.dim() - a.gamma.dim()
    mean, rstd = (_new((*x.shape[:left], *[1] * a.gamma.dim()), torch.float32) for _ in range(2))
    y = torch.empty_like(x)
    return (mean, rstd, y) if is_deep else (y, mean, rstd, torch.empty_like(x))


@shapes("npu::npu_fusion_attention", "npu::npu_fusion_attention_v2", "npu::npu_fusion_attention_v3")
def attention(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """The result, and maxima and sums of the softmax: (B, N, S, 8), or (T, N, 8) for TND, in float32."""
    a = bound(op.name(), args, kwargs)
    query, layout, heads = a.query, a.input_layout, a.head_num
    Dropout(a.keep_prob)  # raises where that is no probability
    sizes = dict(zip(layout, query.shape, strict=True))
    width = {"N": a.value.shape[layout.index("D")] if "D" in layout else 0}
    shape = [*query.shape[:-1], width["N"]] if "D" in layout else list(query.shape)
    if layout == "TND":
        softmax: tuple[int, ...] = (sizes["T"], heads, 8)
    else:
        softmax = (sizes["B"], heads, sizes["S"], 8)
    y = _new(shape, query.dtype)
    tensors = (y, _new(softmax, torch.float32), _new(softmax, torch.float32), _new((0,), query.dtype))
    if op._schema.name.endswith("v3"):
        return (*tensors, _new((1,), torch.int64), _new((1,), torch.int64))
    lengths = (
        (1, 0, math.prod(softmax[:-1]) * a.key.shape[layout.index("S")])
        if a.keep_prob < 1 and "S" in layout
        else (0, 0, 0)
    )
    return (*tensors, *lengths)


@shapes("npu::npu_linear")
def linear(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """As PyTorch's."""
    return torch.nn.functional.linear(*args, **kwargs)


@shapes("npu::npu_cross_entropy_loss")
def cross_entropy(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """The loss, of shape (1,) unless it is not reduced, log probabilities, and two empty tensors."""
    a = bound(op.name(), args, kwargs)
    loss = a.input.shape[:1] if a.reduction == "none" else (1,)
    dtype = a.input.dtype
    return _new(loss, dtype), torch.empty_like(a.input), _new((0,), dtype), _new((0,), dtype)


@shapes("aten::convolution_overrideable")
def convolution(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """As PyTorch's."""
    return torch.ops.aten.convolution.default(*args, **kwargs)


@shapes("aten::convolution_backward_overrideable")
def convolution_backward(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """Gradients of the input, the weight and the bias, each if it is wanted."""
    a = bound(op.name(), args, kwargs)
    channels = a.weight.shape[1] * a.groups if a.transposed else a.weight.shape[0]
    found = (torch.empty_like(a.input), torch.empty_like(a.weight), _new((channels,), a.grad_output.dtype))
    return tuple(each if wanted else None for each, wanted in zip(found, a.output_mask, strict=True))


@shapes("aten::batch_norm_stats")
def batch_norm_stats(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """Mean and 1 / deviation of the channels in float32."""
    count = args[0].shape[1]
    return _new((count,), torch.float32), _new((count,), torch.float32)


@shapes("aten::_aminmax")
def aminmax(op: Any, args: list[Any], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """As PyTorch's `aminmax`."""
    a = bound(op.name(), args, kwargs)
    return tuple(torch.aminmax(a.self) if a.dim is None else torch.aminmax(a.self, dim=a.dim, keepdim=a.keepdim))


def shapes_of(name: str) -> Shapes | None:
    """Return how an operator's results are inferred, by schema name; None where PyTorch has a function for "meta"."""
    return SHAPES.get(name)


def on_meta(namespace: Any) -> Iterator[tuple[OpOverload, Callable[..., Any]]]:
    """Yield operators, and what infers their results: for `torch.export`, `torch.compile` and sharding of DTensors."""
    for name, found in SHAPES.items():
        space, _, operator = name.partition("::")
        if space == namespace.name and not found.needs_values:
            op = getattr(namespace, operator).default
            yield op, _of_tensors(op, found.infer)


def _of_tensors(op: OpOverload, infer: Infer) -> Callable[..., Any]:
    return lambda *args, **kwargs: infer(op, list(args), kwargs, args)
