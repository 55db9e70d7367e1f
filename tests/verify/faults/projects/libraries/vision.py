"""Lets torchvision be imported where its operators do not load: its wheel on PyPI is for CUDA builds of PyTorch."""
import sys

import torch

try:
    import torchvision  # noqa: F401
except ImportError:
    pass
except RuntimeError:  # operator torchvision::nms does not exist; no model here needs it
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
