"""torch_npu.contrib.module."""

from ._batchnorm_with_int32_count import FastBatchNorm1d, FastBatchNorm2d, FastBatchNorm3d, FastSyncBatchNorm
from ._ensemble_dropout import DropoutWithByteMask, NpuCachedDropout, NpuDropPath, NpuFairseqDropout, NpuPreGenDropout
from ._unsupported import FusedColorJitter, QuantConv2d
from .activations import Mish, SiLU, Swish
from .deform_conv import DCNv2, ModulatedDeformConv
from .layers import BiLSTM, ChannelShuffle, Focus, LabelSmoothingCrossEntropy, PSROIPool, ROIAlign
from .multihead_attention import MultiheadAttention
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
