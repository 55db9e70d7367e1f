"""torch.npu.npu_config: compile options and limits. Kernels are NumPy functions, so most are only remembered."""

from __future__ import annotations

import functools
from enum import IntEnum

from gpu2npu.emulator.device.settings import set_compile_mode as _set_compile_mode
from gpu2npu.emulator.device.settings import set_option
from gpu2npu.emulator.device.streams import Stream
from gpu2npu.emulator.device.visible_npus import index_of
from gpu2npu.emulator.soc import current_soc

from .._absent import of_npu

__all__ = [
    "CubeMathType",
    "get_device_limit",
    "get_mm_bmm_format_nd",
    "get_stream_limit",
    "is_jit_compile_false",
    "reset_stream_limit",
    "set_compile_mode",
    "set_device_limit",
    "set_mm_bmm_format_nd",
    "set_option",
    "set_stream_limit",
]


class CubeMathType(IntEnum):
    """The dtypes in which the cube unit may compute float32 (aclnn's cubeMathType)."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3


_jit_compile = False
_format_nd = True
_device_limits: dict[int, tuple[int, int]] = {}
_stream_limits: dict[int, tuple[int, int]] = {}


def set_compile_mode(jit_compile: bool = False) -> None:
    """Remember whether operators would be compiled when they run."""
    global _jit_compile
    _set_compile_mode(jit_compile)
    _jit_compile = bool(jit_compile)


def is_jit_compile_false() -> bool:
    """Return whether operators come compiled."""
    return not _jit_compile


def set_mm_bmm_format_nd(is_nd: bool = True) -> None:
    """Remember the storage format of matrix products.

    Raises:
        TypeError: `is_nd` is not a bool.
    """
    global _format_nd
    if not isinstance(is_nd, bool):
        raise TypeError(f"is_nd should be a bool, but got {type(is_nd).__name__}")
    _format_nd = is_nd


def get_mm_bmm_format_nd() -> bool:
    """The storage format of matrix products: True at first."""
    return _format_nd


def _limits(cube_num: int, vector_num: int, before: tuple[int, int]) -> tuple[int, int]:
    return (before[0] if cube_num == -1 else cube_num, before[1] if vector_num == -1 else vector_num)


def _all_cores() -> tuple[int, int]:
    return current_soc().cube_cores, current_soc().vector_cores


def _named(limits: tuple[int, int]) -> dict[str, int]:
    return {"cube_core_num": limits[0], "vector_core_num": limits[1]}


def _number(device: int) -> int:
    if isinstance(device, bool) or not isinstance(device, int):
        raise TypeError(f"device must be an int, but got {type(device).__name__}")
    return index_of(device)


def set_device_limit(device: int, cube_num: int = -1, vector_num: int = -1) -> None:
    """Remember how many cores a device, which is given by its number, may use; -1 leaves a number as it is."""
    index = _number(device)
    _device_limits[index] = _limits(cube_num, vector_num, _device_limits.get(index, _all_cores()))


def get_device_limit(device: int) -> dict[str, int]:
    """The numbers of cube and vector cores of a device, which is given by its number."""
    return _named(_device_limits.get(_number(device), _all_cores()))


def set_stream_limit(stream: Stream, cube_num: int = -1, vector_num: int = -1) -> None:
    """Remember how many cores a stream may use; -1 leaves a number as it is."""
    before = _stream_limits.get(hash(stream), _all_cores())
    _stream_limits[hash(stream)] = _limits(cube_num, vector_num, before)


def reset_stream_limit(stream: Stream) -> None:
    """Let a stream use all cores again."""
    _stream_limits.pop(hash(stream), None)


def get_stream_limit(stream: Stream) -> dict[str, int]:
    """The numbers of cube and vector cores that a stream may use."""
    return _named(_stream_limits.get(hash(stream), _all_cores()))


__getattr__ = functools.partial(of_npu, __name__)
