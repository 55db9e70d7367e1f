"""torch.npu.backends: which attention and linear algebra is used. The emulator has one of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = [
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
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
