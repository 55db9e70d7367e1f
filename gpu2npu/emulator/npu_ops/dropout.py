"""torch_npu's dropout and softmax operators.

Masks are uint8: one bit an element, in whole blocks of 128 bits, or one byte an element in the operators of byte masks.
"""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.nn.softmax import softmax
from gpu2npu.emulator.kernels.promotion import Array, Number, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema

Generator = np.random.Generator

_ALIGNMENT = 128  # bits


def _retained(generator: Generator, count: int, p: float) -> Array:
    return generator.random(count, np.float32) >= np.float32(p)


def packed(retained: Array) -> Array:
    """A bit mask of booleans: the first element is the lowest bit of the first byte; padded with 0."""
    bits = np.packbits(retained.reshape(-1), bitorder="little")
    mask = np.zeros(-(-retained.size // _ALIGNMENT) * _ALIGNMENT // 8, np.uint8)
    mask[: bits.size] = bits
    return mask


def unpacked(mask: Array, shape: tuple[int, ...]) -> Array:
    """Booleans of a bit mask.

    Raises:
        ValueError: The mask has too few bits.
    """
    count = int(np.prod(shape, dtype=int))
    if mask.size * 8 < count:
        raise ValueError(f"a dropout mask of {mask.size} bytes is too short for {count} elements")
    return np.unpackbits(mask.reshape(-1), count=count, bitorder="little").astype(bool).reshape(shape)


def _masked(x: Array, retained: Array, p: float) -> Array:
    scale = np.float32(0 if p >= 1 else 1 / (1 - p))
    return rounded(wide(x) * (retained.reshape(x.shape) * scale), x.dtype)


@kernel("npu::_npu_dropout")
def npu_dropout(self: Array, p: float, *, generator: Generator) -> tuple[Array, Array]:
    """self with each element dropped with probability p and the others over 1 - p; and the bit mask."""
    retained = _retained(generator, self.size, p)
    return _masked(self, retained, p), packed(retained)


@kernel("npu::npu_dropout_backward")
def npu_dropout_backward(grad_output: Array, mask: Array, p: float) -> Array:
    """The gradient that passes a bit mask."""
    return _masked(grad_output, unpacked(mask, grad_output.shape), p)


@kernel("npu::npu_dropout_do_mask")
def npu_dropout_do_mask(self: Array, mask: Array, p: float) -> tuple[Array, Array]:
    """self through a bit mask, over 1 - p; and the mask."""
    return _masked(self, unpacked(mask, self.shape), p), mask.copy()


@by_schema(kernel, "npu::_npu_dropout_gen_mask.Tensor")
def npu_dropout_gen_mask_seeded(a: Arguments) -> Array:
    """The bit mask that a seed and an offset stand for."""
    source = np.random.Philox(a.seed)
    source.advance(a.offset)
    return packed(_retained(np.random.Generator(source), int(np.prod(a.size, dtype=int)), a.p))


@kernel("npu::_dropout_with_byte_mask")
def dropout_with_byte_mask(self: Array, p: float, *, generator: Generator) -> tuple[Array, Array]:
    """As `_npu_dropout`, with a byte for each element of the mask."""
    retained = _retained(generator, self.size, p)
    return _masked(self, retained, p), retained.astype(np.uint8)


@kernel("npu::_dropout_with_byte_mask_backward")
def dropout_with_byte_mask_backward(grad_output: Array, mask: Array, p: float) -> Array:
    """The gradient that passes a byte mask."""
    return _masked(grad_output, mask.reshape(-1)[: grad_output.size] != 0, p)


@kernel("npu::npu_dropout_with_add_softmax")
def npu_dropout_with_add_softmax(
    self: Array, x1: Array, alpha: Number, prob: float, dim: int, *, generator: Generator
) -> tuple[Array, Array, Array]:
    """Dropout with probability `prob` of softmax(self * alpha + x1).

    Returns:
        The byte mask, the softmax, and the result.
    """
    y = softmax(rounded(wide(self) * wide(self).dtype.type(alpha) + wide(x1), self.dtype), dim)
    retained = _retained(generator, y.size, prob)
    return retained.astype(np.uint8), y, _masked(y, retained, prob)


@kernel("npu::npu_dropout_with_add_softmax_backward")
def npu_dropout_with_add_softmax_backward(
    grad: Array, mask: Array, softmax_out: Array, alpha: Number, prob: float, dim: int
) -> tuple[Array, Array]:
    """Gradients for self and x1."""
    dp = wide(_masked(grad, mask.reshape(-1)[: grad.size] != 0, prob))
    y = wide(softmax_out)
    ds = y * (dp - np.add.reduce(dp * y, axis=dim, keepdims=True))
    return rounded(ds * ds.dtype.type(alpha), grad.dtype), rounded(ds, grad.dtype)


@kernel("npu::npu_scaled_masked_softmax")
def npu_scaled_masked_softmax(x: Array, mask: Array, scale: Number = 1, fixed_triu_mask: bool = False) -> Array:
    """softmax(x * scale) along the last dimension, where the mask (true hides) counts as -10000.

    `fixed_triu_mask` hides what is above the diagonal instead of the mask. -10000 is the value CANN's kernel
    ScaledMaskedSoftmax puts in; a row that is hidden whole is therefore uniform.
    """
    scores = wide(x) * wide(x).dtype.type(scale)
    hidden = np.triu(np.ones(x.shape[-2:], bool), 1) if fixed_triu_mask else mask.astype(bool)
    return rounded(softmax(np.where(hidden, scores.dtype.type(-10000), scores), -1), x.dtype)


@kernel("npu::npu_scaled_masked_softmax_backward")
def npu_scaled_masked_softmax_backward(
    y_grad: Array, y: Array, mask: Array, scale: Number, fixed_triu_mask: bool
) -> Array:
    """The gradient for x: 0 where the mask hides."""
    g, p = wide(y_grad), wide(y)
    hidden = np.triu(np.ones(y.shape[-2:], bool), 1) if fixed_triu_mask else mask.astype(bool)
    ds = p * (g - np.add.reduce(g * p, axis=-1, keepdims=True)) * g.dtype.type(scale)
    return rounded(np.where(hidden, ds.dtype.type(0), ds), y_grad.dtype)


@by_schema(kernel, "npu::npu_masked_softmax_with_rel_pos_bias")
def npu_masked_softmax_with_rel_pos_bias(a: Arguments) -> Array:
    """softmax(x * scale_value + atten_mask + relative_pos_bias) along the last dimension."""
    scores = wide(a.x) * wide(a.x).dtype.type(a.scale_value) + wide(a.relative_pos_bias)
    if a.atten_mask is not None:
        scores = scores + wide(a.atten_mask)
    return rounded(softmax(scores, -1), a.x.dtype)
