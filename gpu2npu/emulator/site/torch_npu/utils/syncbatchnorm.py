"""Batch normalisation over all ranks, which is PyTorch's: the NPU has its operators."""

from torch.nn import SyncBatchNorm

__all__ = ["SyncBatchNorm"]
