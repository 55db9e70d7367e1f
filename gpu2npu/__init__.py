"""Migrate PyTorch projects from NVIDIA GPUs to Huawei Ascend NPUs."""

__version__ = "0.1.0"
