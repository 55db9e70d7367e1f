"""Equivalents of torch functions that some releases of torch_npu lack, made of operators that they have.

`gpu2npu -sim` puts this folder beside the scripts whose calls it replaces. Every function takes what the one of its
name in torch takes, except `out`; results agree with torch's to rounding. They may be slower than one operator would
be, and faster than going to the CPU and back.
"""

import math

import torch
from torch import nn


def angle(input):
    """torch.angle of real numbers: 0 for those that are not negative, else pi."""
    if input.is_complex():
        return torch.atan2(input.imag, input.real)
    turned = torch.where(input < 0, torch.full_like(input, math.pi), torch.zeros_like(input))
    return torch.where(torch.isnan(input), input, turned)


def bucketize(input, boundaries, *, out_int32=False, right=False):
    """torch.bucketize: how many of the sorted boundaries each value is beyond. Memory: one comparison a pair."""
    values = torch.as_tensor(input, device=boundaries.device).unsqueeze(-1)
    beyond = boundaries <= values if right else boundaries < values
    return beyond.sum(-1).to(torch.int32 if out_int32 else torch.int64)


def copysign(input, other):
    """torch.copysign: the magnitude of one with the sign of the other; -0.0 counts as positive here."""
    magnitude = torch.abs(input)
    if not torch.is_tensor(other):
        return -magnitude if math.copysign(1.0, other) < 0 else magnitude
    return torch.where(other < 0, -magnitude, magnitude)


def entr(input):
    """torch.special.entr: -x ln x, 0 at 0 and -inf below."""
    inside = -input * torch.log(torch.where(input > 0, input, torch.ones_like(input)))
    below = torch.full_like(input, -math.inf)
    return torch.where(torch.isnan(input), input, torch.where(input < 0, below, inside))


def fmax(input, other):
    """torch.fmax: the larger; a number rather than NaN."""
    input, other = torch.broadcast_tensors(input, other)
    larger = torch.maximum(input, other)
    return torch.where(torch.isnan(input), other, torch.where(torch.isnan(other), input, larger))


def fmin(input, other):
    """torch.fmin: the smaller; a number rather than NaN."""
    input, other = torch.broadcast_tensors(input, other)
    smaller = torch.minimum(input, other)
    return torch.where(torch.isnan(input), other, torch.where(torch.isnan(other), input, smaller))


def heaviside(input, values):
    """torch.heaviside: 0 below 0 and for NaN, 1 above, `values` at 0."""
    return torch.where(input == 0, values, (input > 0).to(input.dtype))


def hypot(input, other):
    """torch.hypot: the root of the sum of squares, scaled so that squares do not overflow."""
    one, two = torch.abs(input), torch.abs(other)
    larger, smaller = torch.maximum(one, two), torch.minimum(one, two)
    ratio = smaller / torch.where(larger == 0, torch.ones_like(larger), larger)
    return larger * torch.sqrt(1 + ratio * ratio)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """torch.nn.functional.huber_loss: squared where the error is less than delta, else linear."""
    error = torch.abs(input - target)
    loss = torch.where(error < delta, 0.5 * error * error, delta * (error - 0.5 * delta))
    if weight is not None:
        loss = loss * weight
    if reduction == "none":
        return loss
    if reduction == "mean" and weight is not None:
        return loss.sum() / weight.expand_as(loss).sum()
    return loss.mean() if reduction == "mean" else loss.sum()


class HuberLoss(nn.Module):
    """torch.nn.HuberLoss."""

    def __init__(self, reduction="mean", delta=1.0):
        super().__init__()
        self.reduction = reduction
        self.delta = delta

    def forward(self, input, target):
        return huber_loss(input, target, self.reduction, self.delta)


def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """torch.isin: whether each element is among the others. Memory: one comparison a pair."""
    device = next(part.device for part in (elements, test_elements) if torch.is_tensor(part))
    elements = torch.as_tensor(elements, device=device)
    others = torch.as_tensor(test_elements, device=device).reshape(-1)
    found = (elements.unsqueeze(-1) == others).any(-1)
    return ~found if invert else found


def logcumsumexp(input, dim):
    """torch.logcumsumexp of numbers whose range over `dim` is not far beyond what exp has: the largest is taken out."""
    largest = torch.amax(input, dim, keepdim=True)
    return torch.log(torch.cumsum(torch.exp(input - largest), dim)) + largest


def logit(input, eps=None):
    """torch.logit: ln(x / (1 - x)), x kept eps away from 0 and 1."""
    kept = input if eps is None else torch.clamp(input, eps, 1 - eps)
    return torch.log(kept / (1 - kept))


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """torch.nn.functional.rms_norm: x / sqrt(mean(x^2) + eps) over the last dimensions."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    dims = tuple(range(-len(shape), 0))
    smallest = torch.finfo(input.dtype).eps if eps is None else eps
    normed = input * torch.rsqrt((input * input).mean(dims, keepdim=True) + smallest)
    return normed if weight is None else normed * weight


class RMSNorm(nn.Module):
    """torch.nn.RMSNorm."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        weight = nn.Parameter(torch.ones(shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)

    def forward(self, input):
        return rms_norm(input, self.normalized_shape, self.weight, self.eps)


def unravel_index(indices, shape):
    """torch.unravel_index: the coordinates of flat indices, one tensor for each dimension."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    coordinates = []
    for size in reversed(sizes):
        coordinates.append(torch.remainder(indices, size))
        indices = torch.div(indices, size, rounding_mode="floor")
    return tuple(reversed(coordinates))


def xlog1py(input, other):
    """torch.special.xlog1py: x ln(1 + y), 0 where x is 0 and y is a number."""
    product = input * torch.log1p(other)
    return torch.where((input == 0) & ~torch.isnan(other), torch.zeros_like(product), product)
