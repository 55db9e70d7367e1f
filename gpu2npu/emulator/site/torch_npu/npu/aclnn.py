"""torch.npu.aclnn: the older name of the switch that lets convolutions take HF32."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from gpu2npu.emulator.device.settings import conv

__all__ = ["allow_hf32", "flags", "set_flags", "version"]

allow_hf32: bool


def version() -> None:
    """None: there is no aclnn library behind the emulator."""


def set_flags(_allow_hf32: bool | None = None) -> tuple[bool]:
    """Set the switch unless None is given, and say what it was."""
    before = (conv.allow_hf32,)
    if _allow_hf32 is not None:
        conv.allow_hf32 = _allow_hf32
    return before


@contextmanager
def flags(allow_hf32: bool = True) -> Iterator[None]:
    """Set the switch within a block."""
    before = set_flags(allow_hf32)
    try:
        yield
    finally:
        set_flags(*before)


class _Module(ModuleType):
    """`allow_hf32` reads and writes `torch.npu.conv.allow_hf32`: both are ALLOW_CONV_HF32 in torch_npu 2.13."""

    @property
    def allow_hf32(self) -> bool:
        return conv.allow_hf32

    @allow_hf32.setter
    def allow_hf32(self, allowed: bool) -> None:
        conv.allow_hf32 = allowed


sys.modules[__name__].__class__ = _Module
