"""Errors name the operator that raised them, and what it was given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gpu2npu.emulator.device import visible_npus
from gpu2npu.emulator.device.memory import memory

_OPENING = "raised by the operator "
# NumPy's own words for shapes that do not fit, which name no argument.
_UNFIT = re.compile(
    "could not be broadcast|could not broadcast|core dimension|cannot reshape array|all the input array dimensions"
    "|axes don't match array|not aligned|einstein sum|must match in size"
)


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
    if type(error) is ValueError and _UNFIT.search(str(error)):
        error = RuntimeError(_unfit(operator, args, kwargs))
    given = [_described(value) for value in args]
    given += [f"{name}={_described(value)}" for name, value in kwargs.items()]
    note = f"{_OPENING}{operator}({', '.join(given)})"
    error.__suppress_context__ = True  # NumPy's error, where torch's words took its place
    if hasattr(error, "add_note"):
        error.add_note(note)
    elif not isinstance(error.__cause__, OperatorError):
        error.__cause__ = OperatorError(note)
    return error


def _unfit(operator: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A sentence that names the operator, and its arguments that are tensors, with their shapes."""
    schemas = torch._C._jit_get_schemas_for_operator(operator.partition(".")[0])
    names = [each.name for each in schemas[0].arguments] if schemas else []
    named = dict(zip(names or map(str, range(len(args))), args, strict=False)) | dict(kwargs)
    shapes = [f"{name} {list(value.shape)}" for name, value in named.items() if isinstance(value, torch.Tensor)]
    for name, value in named.items():
        if isinstance(value, (list, tuple)):
            shapes += [f"{name}[{n}] {list(each.shape)}" for n, each in enumerate(value) if torch.is_tensor(each)]
    return f"{operator}: the shapes of {', '.join(shapes)} do not fit together"


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
