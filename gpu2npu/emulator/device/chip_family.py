"""The differences of first-generation chips (Ascend910A, Ascend310P): no bfloat16, and float16 that saturates."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from gpu2npu.emulator.device.dispatch import limits
from gpu2npu.emulator.device.tensor import BFLOAT16, Array
from gpu2npu.emulator.kernels.registry import Kernel
from gpu2npu.emulator.soc import current_soc, saturates
from gpu2npu.support.conditions import CallFacts, TensorFacts

_FLOAT16 = np.dtype(np.float16)
_LARGEST = float(np.finfo(np.float16).max)
_UNSCALE = "aten::_amp_foreach_non_finite_check_and_unscale_"

_overflowed = False


def restrained(name: str, kernel: Kernel, writes: Sequence[int]) -> Kernel:
    """The kernel as the chip in use computes it: itself, where the chip can do all.

    Args:
        name: The operator's, as errors name it.
        kernel: A function of arrays.
        writes: Positions of the arguments that it may write.
    """
    if current_soc().bfloat16 and not saturates():
        return kernel
    has_bfloat16, is_saturating = current_soc().bfloat16, saturates()

    @functools.wraps(kernel)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not has_bfloat16 and any(value.dtype == BFLOAT16 for value in _arrays(args)):
            raise no_bfloat16(name)
        if not is_saturating:
            return kernel(*args, **kwargs)
        finite = _all_finite(args)
        result = _saturated(kernel(*args, **kwargs), finite)
        for written in _arrays(args[position] for position in writes if position < len(args)):
            saturate(written, finite)
        if name == _UNSCALE:
            _set_found_inf(args[1])
        return result

    return run


def no_bfloat16(name: str) -> RuntimeError:
    """The error of any operator that is given bfloat16 on a chip without: the row of those of the cube unit says it."""
    given = CallFacts(others=(TensorFacts("bfloat16"),))
    met = limits.refused("aten::mm", given)
    assert met is not None
    return limits.LimitError(limits.message(name.partition(".")[0], met, given))


def saturate(values: Array, counts: bool = True) -> None:
    """Make the largest numbers of infinities and 0 of NaN in a float16 array, in place.

    Source: the document of INF_NAN_MODE_ENABLE in CANN's reference of environment variables ("Inf becomes max, NaN
    becomes 0"). `counts`: whether it is an overflow that `has_overflowed` reports.
    """
    saturated = _saturated(values, counts)
    if saturated is not values:
        np.copyto(values, saturated)


def _saturated(result: Any, counts: bool) -> Any:
    """A kernel's result, saturated; the arrays themselves, which may be views of arguments, are not written."""
    global _overflowed
    if isinstance(result, (list, tuple)):
        return type(result)(_saturated(value, counts) for value in result)
    if not isinstance(result, np.ndarray) or result.dtype != _FLOAT16 or np.isfinite(result).all():
        return result
    _overflowed = _overflowed or counts
    return np.nan_to_num(result, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)


def has_overflowed() -> bool:
    """Return whether finite numbers overflowed since the last `clear_overflow`: the float status of the process."""
    return _overflowed


def clear_overflow() -> None:
    """Clear the float status."""
    global _overflowed
    _overflowed = False


def _set_found_inf(found_inf: Array) -> None:
    """Set `found_inf` of the gradient scaler from the float status, and clear that, where nothing is ever infinite."""
    if _overflowed:
        found_inf[...] = 1
    clear_overflow()


def _arrays(values: Iterable[Any]) -> Iterable[Array]:
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _arrays(value)


def _all_finite(args: Sequence[Any]) -> bool:
    """Return whether the operator was given neither infinities nor NaN, which do not count as its own overflow."""
    if any(isinstance(value, float) and not np.isfinite(value) for value in args):
        return False
    return all(np.isfinite(value).all() for value in _arrays(args) if value.dtype.kind == "f")


def check_cast(source: torch.dtype, dtype: torch.dtype | None) -> None:
    """Raise when a tensor is converted to bfloat16, or to or from float8, on a chip that has none."""
    if dtype in (None, source):
        return
    if dtype is torch.bfloat16 or any(each.itemsize == 1 and each.is_floating_point for each in (source, dtype)):
        given = {"self": TensorFacts(limits.facts(source)), "dtype": limits.facts(dtype)}
        limits.refuse("aten::_to_copy", CallFacts(given))
