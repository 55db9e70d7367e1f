"""Errors name the operator that raised them, and what it was given."""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gpu2npu.emulator.device import visible_npus
from gpu2npu.emulator.device.memory import memory

_OPENING = "raised by the operator "
_OWN = "npu::"  # torch_npu's operators
_NAMED = "_npu_operator"  # an attribute of errors whose message names the operator
# What NumPy and Python raise in the middle of a kernel.
_ACCIDENTS = (ValueError, TypeError, LookupError, ArithmeticError, AssertionError, AttributeError)
_RAISES = dis.opmap["RAISE_VARARGS"]
_KERNELS = str(Path(__file__).parents[2])


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

    The message itself stays torch's; that of torch_npu's own operators has the names itself. Where host memory ran out,
    it is that of the NPU, which lives there. An error that passes through several operators has the innermost's name.
    """
    if memory.is_exhaustion(error):
        error = memory.exhausted(error, visible_npus.current_device())
    elif operator.startswith(_OWN):
        return _naming_call(unfit(error, operator, args, kwargs), operator, args, kwargs)
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
    """The error of a kernel, in a sentence with what the operator got where it is NumPy's or Python's own.

    These name no argument of the operator: they say what went wrong in the middle of it. A kernel's own is as it was.
    """
    if not isinstance(error, _ACCIDENTS) or hasattr(error, _NAMED) or _is_raised_by_kernel(error):
        return error
    if isinstance(error, TypeError) and not operator.startswith(_OWN):
        return error
    is_index = "out of bounds" in str(error)
    sentence = "an index is beyond its dimension" if is_index else "the arguments do not fit together"
    found = _naming_call(RuntimeError(f"{operator}: {sentence}"), operator, args, kwargs)
    found.__cause__ = error
    return found


def _naming_call(error: Exception, operator: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Exception:
    """The error, whose message has the operator and each argument; once for all of torch_npu's that it passes."""
    if hasattr(error, _NAMED):
        return error
    name, _, overload = operator.partition(".")
    schemas = torch._C._jit_get_schemas_for_operator(name)
    names = next(([each.name for each in found.arguments] for found in schemas if found.overload_name == overload), ())
    named = dict(zip(names or map(str, range(len(args))), args, strict=False)) | dict(kwargs)
    given = ", ".join(f"{label} {_described(value)}" for label, value in named.items())
    text = str(error)
    error.args = (f"{text} ({given})" if name.partition("::")[2] in text else f"{text} ({name}: {given})",)
    if operator.startswith(_OWN):
        setattr(error, _NAMED, True)
    return error


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
