"""Batch normalisation that counts its batches in int32."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules import batchnorm

__all__ = ["FastBatchNorm1d", "FastBatchNorm2d", "FastBatchNorm3d", "FastSyncBatchNorm"]


class _NormBase(batchnorm._NormBase):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if getattr(self, "num_batches_tracked", None) is not None:
            self.num_batches_tracked = self.num_batches_tracked.to(torch.int32)  # type: ignore[union-attr]


class _BatchNorm(_NormBase, batchnorm._BatchNorm):
    pass


class FastBatchNorm1d(_BatchNorm, nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d`."""


class FastBatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d`."""


class FastBatchNorm3d(_BatchNorm, nn.BatchNorm3d):
    """`torch.nn.BatchNorm3d`."""


class FastSyncBatchNorm(_BatchNorm, nn.SyncBatchNorm):
    """`torch.nn.SyncBatchNorm`."""
