"""Fused operators of the NPU for what PyTorch code spells out, with that code for all that they do not take.

`gpu2npu --affinity` puts this file beside the code whose expressions it replaces. On tensors of another device, and for
shapes and dtypes that an operator does not take, every function computes what the replaced code did.
"""

import torch
import torch_npu

# The dtypes that the operators take.
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# What npu_rotary_mul takes: sizes of the last dimension, and of the first two together where cos and sin have
# gradients or not. https://www.hiascend.com/document/detail/zh/Pytorch/700/apiref/apilist/ptaoplist_000141.html
_ROTARY_SIZE = 896
_ROTARY_ROWS = 1000


def _fits(*tensors):
    """Return whether all are tensors on one NPU in a dtype that the operators take."""
    return all(isinstance(each, torch.Tensor) and each.device.type == "npu" for each in tensors) and all(
        each.dtype in _DTYPES for each in tensors
    )


def _in_one_dtype(*tensors):
    """The tensors in the dtype that multiplying them gives."""
    dtype = tensors[0].dtype
    for each in tensors[1:]:
        dtype = torch.promote_types(dtype, each.dtype)
    return [each.to(dtype) for each in tensors]


def rms_norm(x, weight, eps):
    """x / sqrt(mean(x ** 2) + eps) * weight over the last dimension, in the dtype of x * weight."""
    if _fits(x, weight) and weight.shape == x.shape[-1:] and x.numel() and isinstance(eps, (int, float)):
        x, weight = _in_one_dtype(x, weight)
        return torch_npu.npu_rms_norm(x, weight, float(eps))[0]
    wide = x.float() if x.dtype in _DTYPES else x
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight
