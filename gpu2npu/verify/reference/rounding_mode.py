"""The reference on real GPUs rounding otherwise: the operators are the GPU's own, with other last bits in and out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from gpu2npu.emulator.device.dispatch.signature import Signature, read
from gpu2npu.verify.reference import rounding


class Rounding(TorchDispatchMode):
    """Operators with a tensor on a kind of device ("cuda") round otherwise while the mode is on; autograd's too."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = device

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if not any(self._is_there(value) for value in (*args, *named.values())):
            return func(*args, **named)
        return _operator(func)(list(args), named)

    def _is_there(self, value: Any) -> bool:
        if isinstance(value, (list, tuple)):
            return any(map(self._is_there, value))
        return isinstance(value, torch.Tensor) and value.device.type == self._device


@functools.cache
def _operator(op: OpOverload) -> Callable[[list[Any], dict[str, Any]], Any]:
    return functools.partial(rounding.rounding_otherwise(read(op), _call), read(op))


def _call(signature: Signature, values: list[Any], named: dict[str, Any]) -> Any:
    return signature.op(*values, **named)
