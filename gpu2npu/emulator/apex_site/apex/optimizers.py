"""The fused optimizers of Ascend's apex, which torch_npu has too."""

# ruff: noqa: F401
from torch_npu.optim import (  # type: ignore[import-not-found]
    NpuFusedAdadelta,
    NpuFusedAdam,
    NpuFusedAdamP,
    NpuFusedBertAdam,
    NpuFusedLamb,
    NpuFusedRMSprop,
    NpuFusedRMSpropTF,
    NpuFusedSGD,
)
