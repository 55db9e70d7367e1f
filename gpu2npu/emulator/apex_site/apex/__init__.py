"""Ascend's apex over the emulated NPU: `apex.amp` and the fused optimizers. On PYTHONPATH where GPU2NPU_APEX is 1."""

from . import amp, optimizers

__all__ = ["amp", "optimizers"]
