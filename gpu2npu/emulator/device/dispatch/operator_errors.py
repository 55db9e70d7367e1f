"""Errors name the operator that raised them, and what it was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gpu2npu.emulator.device import visible_npus
from gpu2npu.emulator.device.memory import memory

_OPENING = "raised by the operator "


class OperatorError(RuntimeError):
    """The arguments of an operator, as the cause of its error in tracebacks of Python 3.10, which has no notes."""


def with_operator(error: Exception, operator: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Exception:
    """The error, with a note below its message that names the operator and the dtypes, shapes and devices it got.

    The message itself stays torch's; where host memory ran out, it is that of the NPU, which lives there. An error that
    passes through several operators keeps the innermost one's name.
    """
    if memory.is_exhaustion(error):
        error = memory.exhausted(error, visible_npus.current_device())
    if any(note.startswith(_OPENING) for note in getattr(error, "__notes__", ())):
        return error
    given = [_described(value) for value in args]
    given += [f"{name}={_described(value)}" for name, value in kwargs.items()]
    note = f"{_OPENING}{operator}({', '.join(given)})"
    error.__suppress_context__ = True  # NumPy's error, where torch's words took its place
    if hasattr(error, "add_note"):
        error.add_note(note)
    elif not isinstance(error.__cause__, OperatorError):
        error.__cause__ = OperatorError(note)
    return error


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)} on {value.device}"
    if isinstance(value, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in value):
        shown = [_described(item) for item in value[:4]]
        return f"[{', '.join(shown)}{', ...' if len(value) > 4 else ''}]"
    if isinstance(value, torch.UntypedStorage):  # whose repr is all its bytes
        return f"storage of {value.nbytes()} bytes on {value.device}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
