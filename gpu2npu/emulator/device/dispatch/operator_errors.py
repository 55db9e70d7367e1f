"""Errors name the operator that raised them, and what it was given."""

from __future__ import annotations

import dis
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gpu2npu.emulator.device import visible_npus
from gpu2npu.emulator.device.memory import memory

_OPENING = "raised by the operator "
_RAISES = dis.opmap["RAISE_VARARGS"]
_KERNELS = str(Path(__file__).parents[2])


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


def unfit(error: Exception, operator: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Exception:
    """The error of a kernel, in a sentence with the tensors' shapes where it is NumPy's or Python's own.

    These name no argument of the operator: they say what went wrong in the middle of it. A kernel's own is as it was.
    """
    if (isinstance(error, TypeError) and operator.startswith("aten::")) or _is_raised_by_kernel(error):
        return error
    schemas = torch._C._jit_get_schemas_for_operator(operator.partition(".")[0])
    names = [each.name for each in schemas[0].arguments] if schemas else []
    named = dict(zip(names or map(str, range(len(args))), args, strict=False)) | dict(kwargs)
    shapes = [f"{name} {list(value.shape)}" for name, value in named.items() if isinstance(value, torch.Tensor)]
    for name, value in named.items():
        if isinstance(value, (list, tuple)):
            shapes += [f"{name}[{n}] {list(each.shape)}" for n, each in enumerate(value) if torch.is_tensor(each)]
    if "out of bounds" in str(error):
        sentence = f"an index is beyond its dimension: {', '.join(shapes)}"
    elif len(shapes) == 1:
        sentence = f"the shape of {shapes[0]} does not fit its other arguments"
    else:
        sentence = f"the shapes of {', '.join(shapes)} do not fit together"
    found = RuntimeError(f"{operator}: {sentence}")
    found.__cause__ = error
    return found


def _is_raised_by_kernel(error: Exception) -> bool:
    """Return whether a `raise` of ours made the error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    code = trace.tb_frame.f_code
    return code.co_filename.startswith(_KERNELS) and code.co_code[trace.tb_lasti] == _RAISES


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
