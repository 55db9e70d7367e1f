"""Operators that PyTorch composes for every device, with arguments that the NPU does not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gpu2npu.emulator.device.dispatch.limits import refuse, refusing
from gpu2npu.emulator.device.dispatch.signature import read
from gpu2npu.support.conditions import CallFacts


def kl_div(self: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """`torch.kl_div`, of a target that is not a logarithm. Raises LimitError for one that is."""
    refuse("torch.nn.functional.kl_div", CallFacts({"log_target": log_target}))
    composed = torch.ops.aten.kl_div.default._op_dk
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    found: Tensor = composed(key, self, target, reduction, log_target=log_target)
    return found


def attention(*args: Any, **kwargs: Any) -> Tensor:
    """`torch.nn.functional.scaled_dot_product_attention`, as PyTorch composes it."""
    composed = torch.ops.aten.scaled_dot_product_attention.default._op_dk
    found: Tensor = composed(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
    return found


INSTEAD: dict[str, Callable[..., Any]] = {
    "kl_div": kl_div,
    "scaled_dot_product_attention": refusing(read(torch.ops.aten.scaled_dot_product_attention.default), attention),
}
