"""torch_npu.contrib.module."""

from ._unsupported import FusedColorJitter, MultiheadAttention, QuantConv2d
from .activations import Mish, SiLU, Swish
from .batchnorm_with_int32_count import FastBatchNorm1d, FastBatchNorm2d, FastBatchNorm3d, FastSyncBatchNorm
from .deform_conv import DCNv2, ModulatedDeformConv
from .drop_path import DropoutWithByteMask, NpuCachedDropout, NpuDropPath, NpuFairseqDropout, NpuPreGenDropout
from .layers import BiLSTM, ChannelShuffle, Focus, LabelSmoothingCrossEntropy, PSROIPool, ROIAlign
from .prefetcher import Prefetcher
from .quantized import LinearA8W8Quant, LinearQuant, LinearWeightQuant

__all__ = [
    "BiLSTM",
    "ChannelShuffle",
    "DCNv2",
    "DropoutWithByteMask",
    "FastBatchNorm1d",
    "FastBatchNorm2d",
    "FastBatchNorm3d",
    "FastSyncBatchNorm",
    "Focus",
    "FusedColorJitter",
    "LabelSmoothingCrossEntropy",
    "LinearA8W8Quant",
    "LinearQuant",
    "LinearWeightQuant",
    "Mish",
    "ModulatedDeformConv",
    "MultiheadAttention",
    "NpuCachedDropout",
    "NpuDropPath",
    "NpuFairseqDropout",
    "NpuPreGenDropout",
    "PSROIPool",
    "Prefetcher",
    "QuantConv2d",
    "ROIAlign",
    "SiLU",
    "Swish",
]
