"""Batch normalisation that counts its batches in int32."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

__all__ = ["FastBatchNorm1d", "FastBatchNorm2d", "FastBatchNorm3d", "FastSyncBatchNorm"]


class _CountingInInt32(nn.Module):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        batches = getattr(self, "num_batches_tracked", None)
        if batches is not None:
            self.register_buffer("num_batches_tracked", batches.to(torch.int32))


class FastBatchNorm1d(_CountingInInt32, nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d`."""


class FastBatchNorm2d(_CountingInInt32, nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d`."""


class FastBatchNorm3d(_CountingInInt32, nn.BatchNorm3d):
    """`torch.nn.BatchNorm3d`."""


class FastSyncBatchNorm(_CountingInInt32, nn.SyncBatchNorm):
    """`torch.nn.SyncBatchNorm`."""
