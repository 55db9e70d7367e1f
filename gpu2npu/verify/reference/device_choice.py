"""The device of the original's run: a GPU, rounding otherwise on request, or one that is played on the CPU."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import torch

from gpu2npu.language import shown, use
from gpu2npu.verify import reference
from gpu2npu.verify.reference import rounding
from gpu2npu.verify.reference.accelerator import CannotPlayError

if TYPE_CHECKING:
    from gpu2npu.verify.recording.environment import RecordingSettings
import functools
from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from gpu2npu.emulator.device.dispatch.signature import Signature, read


def choose_device(found: RecordingSettings) -> None:
    """Let the original have GPUs: the real ones of a PyTorch that is built for them, else played ones.

    Ends the program where it can have neither.
    """
    rounding.install(found.rounding, found.coarse)
    if torch.cuda.is_available():
        if rounding.is_on():
            from gpu2npu.verify.reference.device_choice import Rounding

            Rounding("cuda").__enter__()
        return
    try:
        reference.install(found.gpus)
    except CannotPlayError as error:
        use(found.lang)
        sys.exit(shown(f"Error: {error}."))


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
