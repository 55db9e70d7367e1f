"""torch.npu.backends: which attention and linear algebra is used, and how many plans of FFTs are kept. The emulator has
one of each, and no plans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gpu2npu.emulator.device.dispatch import limits
from gpu2npu.support.conditions import CallFacts

__all__ = [
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "fft_plan_cache",
    "flash_sdp_enabled",
    "math_sdp_enabled",
    "mem_efficient_sdp_enabled",
    "preferred_linalg_library",
    "sdp_kernel",
]

# PyTorch keeps these switches for all devices together, as torch_npu does.
flash_sdp_enabled = torch.backends.cuda.flash_sdp_enabled
enable_flash_sdp = torch.backends.cuda.enable_flash_sdp
mem_efficient_sdp_enabled = torch.backends.cuda.mem_efficient_sdp_enabled
enable_mem_efficient_sdp = torch.backends.cuda.enable_mem_efficient_sdp
math_sdp_enabled = torch.backends.cuda.math_sdp_enabled
enable_math_sdp = torch.backends.cuda.enable_math_sdp
preferred_linalg_library = torch.backends.cuda.preferred_linalg_library


class NPUFFTPlanCache:
    """The plans of FFTs that are kept, none here, and the most that are."""

    def __init__(self) -> None:
        self.__dict__.update(size=0, max_size=10)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "size":
            raise RuntimeError(".size is a read-only property showing the number of plans currently in the cache.")
        if name != "max_size":
            raise AttributeError(f"Unknown attribute {name}")
        limits.refuse("torch.npu.backends.fft_plan_cache.max_size", CallFacts({"value": value}))
        self.__dict__[name] = value

    def clear(self) -> None:
        """Forget the plans."""


fft_plan_cache = NPUFFTPlanCache()


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True
) -> Iterator[None]:
    """Switch the kinds of scaled dot product attention within a block."""
    before = flash_sdp_enabled(), math_sdp_enabled(), mem_efficient_sdp_enabled()
    try:
        enable_flash_sdp(enable_flash)
        enable_math_sdp(enable_math)
        enable_mem_efficient_sdp(enable_mem_efficient)
        yield
    finally:
        enable_flash_sdp(before[0])
        enable_math_sdp(before[1])
        enable_mem_efficient_sdp(before[2])
