"""The reference rounding otherwise: what a program's numbers become when every operator's last bits differ.

Two correct implementations of an operator differ by rounding: they add in another order, or take another formula. How
far that carries a program depends on the program, so it is measured, by Monte Carlo arithmetic (Parker, 1997): the
operands of operators that accumulate, and the results of pointwise ones, are multiplied by 1 + u * eps, with u drawn
from [-1, 1] for every element and eps the dtype's. Operands of matrix products and convolutions for which the NPU takes
HF32 are moved by HF32's eps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gpu2npu.emulator.device.dispatch.signature import Signature

Call = Callable[[Signature, list[Any], dict[str, Any]], Any]

HF32_EPS = 2.0**-11
_TABLE = 1 << 20  # numbers
_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "linear"})
# Pointwise operators whose result is exact: it must stay what it is, whole numbers and signs above all.
_EXACT = frozenset({
    "abs", "neg", "sign", "sgn", "signbit", "relu", "relu_", "hardtanh", "threshold", "threshold_backward", "floor",
    "ceil", "round", "trunc", "frac", "fmod", "remainder", "where", "clamp", "clamp_", "clamp_min", "clamp_max",
    "maximum", "minimum", "fmax", "fmin", "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite",
    "logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_not",
    "masked_fill", "fill", "zero", "copysign", "floor_divide", "heaviside", "nan_to_num", "positive",
})  # fmt: skip
# Operators that refuse operands outside of [0, 1], where moving could bring them.
_BOUNDED = ("binary_cross_entropy", "binary_cross_entropy_backward")
# Operators that accumulate: their operands are moved, so that what cancels is moved too.
_ACCUMULATE = (
    "mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "linear", "conv", "norm", "softmax", "logsumexp",
    "sum", "mean", "var", "std", "prod", "cumsum", "avg_pool", "embedding_dense_backward", "embedding_bag", "nll_loss",
    "mse_loss", "smooth_l1", "huber", "kl_div", "l1_loss", "upsample", "grid_sampler",
    "scatter_add", "index_add", "attention", "lstm", "gru", "linalg", "cdist", "glu", "ctc",
)  # fmt: skip

_numbers: np.random.Generator | None = None
_coarse: tuple[str, ...] = ()


def install(seed: int, coarse: tuple[str, ...]) -> None:
    """Round otherwise from now on, unless the seed is 0; `coarse` names the families that take HF32."""
    global _numbers, _coarse
    if seed:
        _numbers, _coarse = np.random.Generator(np.random.SFC64(seed)), coarse


def is_on() -> bool:
    """Return whether operators round otherwise."""
    return _numbers is not None


def operands_move(name: str) -> bool:
    """Return whether the operands of an operator ("aten::mm") are moved."""
    return any(part in name for part in _ACCUMULATE)


def is_coarse(name: str) -> bool:
    """Return whether the NPU takes the operator's float32 operands as HF32."""
    short = name.removeprefix("aten::").removesuffix("_")
    return ("conv" in _coarse and "conv" in short) or ("matmul" in _coarse and short in _PRODUCTS)


def result_moves(name: str, pointwise: bool) -> bool:
    """Return whether an operator's results are moved."""
    short = name.removeprefix("aten::").removeprefix("_foreach_").removesuffix("_")
    return (pointwise and short not in _EXACT) or short in _BOUNDED


def rounding_otherwise(signature: Signature, compute: Call) -> Call:
    """`compute`, which calls an operator with positional and named arguments, with other last bits in and out of it."""
    name = signature.op._schema.name
    operands, coarse = operands_move(name), is_coarse(name)
    results = result_moves(name, signature.pointwise)
    retained = 3 if "batch_norm" in name else 1 << 30  # the running statistics after these are written, unannounced

    def call(signature: Signature, values: list[Any], named: dict[str, Any]) -> Any:
        if operands:
            values = [
                value if position in signature.writes or position >= retained else moved(value, coarse)
                for position, value in enumerate(values)
            ]
        result = compute(signature, values, named)
        if results or (operands and signature.writes):
            move([values[position] for position in signature.writes] if signature.writes else result)
        return result

    return call


def moved(value: Any, coarse: bool = False) -> Any:
    """A floating-point tensor with other last bits, and lists of them; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return type(value)(moved(item, coarse) for item in value) if type(value) in (list, tuple) else value
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.numel():
        return value
    return (value * _factors(value, coarse)).to(value.dtype)


def move(value: Any) -> None:
    """Give tensors other last bits in place."""
    if isinstance(value, (list, tuple)):
        for item in value:
            move(item)
    elif isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel():
        value.copy_(value * _factors(value, False))


def _factors(value: torch.Tensor, coarse: bool) -> torch.Tensor:
    assert _numbers is not None
    kind = value.dtype if value.dtype in (torch.float32, torch.float64) else torch.float32
    eps = HF32_EPS if coarse and value.dtype is torch.float32 else torch.finfo(value.dtype).eps
    table, many = _table(value.device), value.numel()
    begin = int(_numbers.integers(_TABLE))
    drawn = table[begin : begin + many] if begin + many <= _TABLE else _repeated(table, begin, many)
    return drawn.view(value.shape).to(kind).mul(eps).add_(1.0)


@functools.cache
def _table(device: torch.device) -> torch.Tensor:
    """Numbers of [-1, 1], from any place of which a tensor is served: to draw each anew takes too long."""
    drawn = np.random.Generator(np.random.SFC64(2026)).random(_TABLE, dtype=np.float32)
    return torch.from_numpy(drawn).mul_(2).sub_(1).to(device)


def _repeated(table: torch.Tensor, begin: int, many: int) -> torch.Tensor:
    return table.repeat(-(-(begin + many) // _TABLE))[begin : begin + many]
