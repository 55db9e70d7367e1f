"""Modules of torch_npu.contrib that exist here only to say that they do nothing."""

from __future__ import annotations

from typing import Any

from torch import nn

__all__ = ["FusedColorJitter", "QuantConv2d"]


class _Unsupported(nn.Module):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"torch_npu.contrib.module.{type(self).__name__}: the emulated NPU does not do this")


class FusedColorJitter(_Unsupported):
    """Not done: colours of images, changed by one matrix."""


class QuantConv2d(_Unsupported):
    """Not done: a quantized convolution."""
