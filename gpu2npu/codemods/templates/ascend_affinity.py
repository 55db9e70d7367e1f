"""Fused operators of the NPU for what PyTorch code spells out, with that code for all that they do not take.

`gpu2npu --affinity` puts this file beside the code whose expressions it replaces. On tensors of another device, and for
shapes and dtypes that an operator does not take, every function computes what the replaced code did.
"""

import torch
import torch.nn.functional as F
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
    wide = x.float() if not isinstance(x, torch.Tensor) or x.dtype in _DTYPES else x
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def _takes_mode():
    """Return whether the operator of this release turns pairs, too."""
    return "rotary_mode" in str(torch.ops.npu.npu_rotary_mul.default._schema)


def _rotates(x, cos, sin, mode):
    """Return whether npu_rotary_mul takes these, all of four dimensions."""
    size = x.shape[-1]
    if x.dim() != 4 or cos.shape != sin.shape or cos.shape[-1] != size or size % 2 or size >= _ROTARY_SIZE:
        return False
    if any(cos.shape[each] not in (1, x.shape[each]) for each in range(3)) or not x.numel():
        return False
    return x.shape[0] * x.shape[1] < _ROTARY_ROWS and (mode == "half" or _takes_mode())


def rotary_mul(x, cos, sin, mode="half"):
    """x * cos + rotate(x) * sin; rotate turns the two halves of the last dimension, or "interleave" its pairs."""
    if _fits(x, cos, sin) and cos.dim() <= 4 and sin.dim() <= 4:
        wide, wide_cos, wide_sin = _in_one_dtype(x, cos, sin)
        wide_cos, wide_sin = (each[(None,) * (4 - each.dim())] for each in (wide_cos, wide_sin))
        if _rotates(wide, wide_cos, wide_sin, mode):
            if mode == "half":
                return torch_npu.npu_rotary_mul(wide, wide_cos, wide_sin)
            return torch_npu.npu_rotary_mul(wide, wide_cos, wide_sin, rotary_mode=mode)
    if mode == "half":
        first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        turned = torch.cat((-second, first), dim=-1)
    else:
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
    return x * cos + turned * sin


def swiglu(x):
    """silu(a) * b of the halves a and b of the last dimension."""
    if _fits(x) and x.numel() and x.shape[-1] % 2 == 0:
        return torch_npu.npu_swiglu(x, -1)
    first, second = x.chunk(2, dim=-1)
    return F.silu(first) * second


def geglu(x, approximate="none", first=False):
    """a * gelu(b) of the halves a and b of the last dimension, or gelu(a) * b where `first`."""
    if _fits(x) and x.numel() and x.shape[-1] % 2 == 0:
        return torch_npu.npu_geglu(x, dim=-1, approximate=int(approximate == "tanh"), activate_left=first)[0]
    a, b = x.chunk(2, dim=-1)
    gate, value = (a, b) if first else (b, a)
    return F.gelu(gate, approximate=approximate) * value
