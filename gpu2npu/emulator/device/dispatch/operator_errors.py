"""Errors name the operator that raised them, and what it was given."""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gpu2npu.emulator.device import visible_npus
from gpu2npu.emulator.device.dispatch.misfits import misfit
from gpu2npu.emulator.device.dispatch.signature import overload
from gpu2npu.emulator.device.memory import memory

_RAISED, _WITHIN = "raised by the operator ", "within the operator "
# What NumPy and Python raise in the middle of a kernel.
_ACCIDENTS = (ValueError, TypeError, LookupError, ArithmeticError, AssertionError, AttributeError)
_RAISES = dis.opmap["RAISE_VARARGS"]
_OURS = str(Path(__file__).parents[2])
_KERNELS = tuple(f"{_OURS}/{folder}/" for folder in ("kernels", "npu_ops"))


class OperatorError(RuntimeError):
    """The arguments of an operator, as the cause of its error in tracebacks of Python 3.10, which has no notes."""


def naming(operator: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose errors name the operator and what it was given."""

    @functools.wraps(run)
    def named(*args: Any, **kwargs: Any) -> Any:
        try:
            return run(*args, **kwargs)
        except Exception as error:
            raise with_operator(error, operator, args, kwargs)  # noqa: B904

    return named


def with_operator(error: Exception, operator: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Exception:
    """The error, with a note below its message that names the operator and the dtypes, shapes and devices it got.

    The message itself stays that of torch or of the kernel. Where the words are NumPy's or Python's own, which name no
    argument, it is a sentence; where host memory ran out, it is that of the NPU, which lives there. An error that
    passes through several operators has a note of each, from Python 3.11 on.
    """
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith((_RAISED, _WITHIN))]
    if any(f" {operator}(" in note for note in notes):
        return error
    if memory.is_exhaustion(error):
        error = memory.exhausted(error, visible_npus.current_device())
    elif _is_accident(error):
        is_index = "out of bounds" in str(error)
        sentence = "an index is beyond its dimension" if is_index else "the arguments do not fit together"
        named = misfit(operator, {**dict(_named(operator, args)), **kwargs})
        accident, error = error, RuntimeError(named or f"{operator}: {sentence}")
        error.__cause__ = accident
    given = [f"{name}={_described(value)}" for name, value in (*_named(operator, args), *kwargs.items())]
    note = f"{_WITHIN if notes else _RAISED}{operator}({', '.join(given)})"
    error.__suppress_context__ = True  # NumPy's error, where torch's words took its place
    if hasattr(error, "add_note"):
        error.add_note(note)
    elif not isinstance(error.__cause__, OperatorError):
        error.__cause__ = OperatorError(note)
    return error


def _is_accident(error: Exception) -> bool:
    """Return whether NumPy or Python raised the error in the middle of a kernel, and not a `raise` of ours."""
    if not isinstance(error, _ACCIDENTS):
        return False
    trace, is_within = error.__traceback__, False
    while trace is not None:
        code, at = trace.tb_frame.f_code, trace.tb_lasti
        is_within = is_within or code.co_filename.startswith(_KERNELS)
        trace = trace.tb_next
    return is_within and not (code.co_filename.startswith(_OURS) and code.co_code[at] == _RAISES)


def _named(operator: str, args: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    return zip((argument.name for argument in overload(operator)._schema.arguments), args, strict=False)


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
