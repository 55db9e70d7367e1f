"""Matrix products. float16 and bfloat16 are multiplied and accumulated in float32, then rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from gpu2npu.emulator.kernels import parallel
from gpu2npu.emulator.kernels.promotion import BOOL, Array, Number, promote_types, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel

_FEW = 1 << 22  # multiplications: below, a thread's start is not worth it
# A thread has a multiple of so many rows or columns: BLAS copies the other matrix into its own order again for each,
# and computes a number in the same way wherever the matrix is cut at whole blocks of its registers.
_ROWS, _COLUMNS = 256, 128


def _product(a: Array, b: Array) -> Array:
    """np.matmul in the dtype to accumulate in. NumPy's BLAS takes transposed operands as they are."""
    if a.dtype != b.dtype:
        names = [each.dtype.name for each in (a, b)]
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {names[0]} != {names[1]}")
    return product(wide(a), wide(b))


def product(a: Array, b: Array) -> Array:
    """np.matmul of arrays of one dtype; of large ones each thread has some rows, columns or matrices of the batch."""
    if a.ndim < 2 or b.ndim != a.ndim or a.dtype.kind != "f" or a.shape[:-2] != b.shape[:-2]:
        return np.matmul(a, b)
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    work = prod(a.shape[:-2]) * rows * inner * columns
    if work < 2 * _FEW:
        return np.matmul(a, b)
    out = np.empty((*a.shape[:-1], columns), a.dtype)
    if a.ndim > 2 and len(a) > 1:
        parts = parallel.blocks(len(a), work, _FEW)
        parallel.run(lambda part: np.matmul(a[part], b[part], out=out[part]), parts)
    elif rows // _ROWS > columns // _COLUMNS:
        parts = _bands(rows, _ROWS, inner * columns)
        parallel.run(lambda part: np.matmul(a[..., part, :], b, out=out[..., part, :]), parts)
    else:
        parts = _bands(columns, _COLUMNS, rows * inner)
        parallel.run(lambda part: np.matmul(a, b[..., part], out=out[..., part]), parts)
    return out


def _bands(count: int, least: int, work_of_one: int) -> list[slice]:
    """One for each thread, none of less than a multiple of `least` that is worth a thread's start."""
    least *= -(-_FEW // (least * work_of_one))
    *bands, last = parallel.shares(count, least)
    if bands and count - last.start < least:
        last = slice(bands.pop().start, count)
    return [*bands, last]


def _check(a: Array, b: Array, ndim: int, what: str) -> None:
    if a.ndim != ndim or b.ndim != ndim:
        raise RuntimeError(f"{what}: both operands must be {ndim}-D tensors, got {a.ndim}-D and {b.ndim}-D")
    if a.shape[-1] != b.shape[-2]:
        shapes = ["x".join(map(str, each.shape)) for each in (a, b)]
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({shapes[0]} and {shapes[1]})")


def _combined(self: Array, product: Array, beta: Number, alpha: Number, dtype: np.dtype) -> Array:
    """beta * self + alpha * product; with beta 0, self counts for nothing, not even its NaNs.

    Raises:
        RuntimeError: self has not `dtype`, that of the product's operands.
    """
    if self.dtype != dtype:
        raise RuntimeError(f"self and mat2 must have the same dtype, but got {self.dtype} and {dtype}")
    kind = product.dtype.type
    if alpha != 1:
        product = product * kind(alpha)
    if beta != 0:
        product = np.asarray(product)
        term = wide(self)
        product = np.add(product, term if beta == 1 else term * kind(beta), out=product)
    return rounded(np.asarray(product), dtype)


@kernel("aten::mm")
def mm(self: Array, mat2: Array) -> Array:
    """(n, k) @ (k, m) -> (n, m).

    Raises:
        RuntimeError: The shapes or dtypes do not fit.
    """
    _check(self, mat2, 2, "mm")
    return rounded(_product(self, mat2), self.dtype)


@kernel("aten::bmm")
def bmm(self: Array, mat2: Array) -> Array:
    """(b, n, k) @ (b, k, m) -> (b, n, m).

    Raises:
        RuntimeError: The shapes or dtypes do not fit.
    """
    _check(self, mat2, 3, "bmm")
    if self.shape[0] != mat2.shape[0]:
        raise RuntimeError(f"bmm: batch sizes {self.shape[0]} and {mat2.shape[0]} differ")
    return rounded(_product(self, mat2), self.dtype)


@kernel("aten::addmm")
def addmm(self: Array, mat1: Array, mat2: Array, *, beta: Number = 1, alpha: Number = 1) -> Array:
    """beta * self + alpha * mat1 @ mat2; self broadcasts to (n, m).

    Raises:
        RuntimeError: The shapes or dtypes do not fit.
    """
    _check(mat1, mat2, 2, "addmm")
    return _combined(self, _product(mat1, mat2), beta, alpha, mat1.dtype)


@kernel("aten::_addmm_activation")
def addmm_activation(
    self: Array, mat1: Array, mat2: Array, *, beta: Number = 1, alpha: Number = 1, use_gelu: bool = False
) -> Array:
    """addmm followed by relu, or by tanh-approximated gelu."""
    from gpu2npu.emulator.kernels.pointwise.activation import gelu, relu

    y = addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    return gelu(y, approximate="tanh") if use_gelu else relu(y)


@kernel("aten::baddbmm")
def baddbmm(self: Array, batch1: Array, batch2: Array, *, beta: Number = 1, alpha: Number = 1) -> Array:
    """beta * self + alpha * batch1 @ batch2; self broadcasts to (b, n, m)."""
    _check(batch1, batch2, 3, "baddbmm")
    return _combined(self, _product(batch1, batch2), beta, alpha, batch1.dtype)


@kernel("aten::addbmm")
def addbmm(self: Array, batch1: Array, batch2: Array, *, beta: Number = 1, alpha: Number = 1) -> Array:
    """beta * self + alpha * the sum of batch1 @ batch2 over the batch."""
    _check(batch1, batch2, 3, "addbmm")
    return _combined(self, np.sum(_product(batch1, batch2), axis=0), beta, alpha, batch1.dtype)


@kernel("aten::mv")
def mv(self: Array, vec: Array) -> Array:
    """(n, m) @ (m,) -> (n,)."""
    return rounded(_product(self, vec), self.dtype)


@kernel("aten::addmv")
def addmv(self: Array, mat: Array, vec: Array, *, beta: Number = 1, alpha: Number = 1) -> Array:
    """beta * self + alpha * mat @ vec; self broadcasts to (n,)."""
    return _combined(self, _product(mat, vec), beta, alpha, mat.dtype)


@kernel("aten::dot")
def dot(self: Array, tensor: Array) -> Array:
    """The inner product of two vectors, without conjugation."""
    return rounded(_product(self, tensor), self.dtype)


@kernel("aten::addr")
def addr(self: Array, vec1: Array, vec2: Array, *, beta: Number = 1, alpha: Number = 1) -> Array:
    """beta * self + alpha * the outer product of the vectors."""
    product = np.multiply.outer(wide(vec1), wide(vec2))
    if product.dtype == BOOL:
        return product & bool(alpha) | (self & bool(beta))
    dtype = promote_types(self.dtype, promote_types(vec1.dtype, vec2.dtype))
    return rounded(np.asarray(_combined(self.astype(product.dtype), product, beta, alpha, product.dtype)), dtype)


@kernel("aten::linear")
def linear(input: Array, weight: Array, bias: Array | None = None) -> Array:  # noqa: A002
    """(..., in) with weight (out, in) -> (..., out), with weight (in,) -> (...).

    Raises:
        ValueError: A vector as weight has a bias of one dimension, or any with a matrix as input.
    """
    if bias is not None and weight.ndim < 2 and (bias.ndim == 1 or input.ndim == 2):
        raise ValueError("a weight of one dimension with a bias")
    # One product of two matrices: NumPy would multiply a batch matrix by matrix.
    y = _product(input.reshape(prod(input.shape[:-1]), input.shape[-1]), weight.T)
    if bias is not None:
        y += wide(bias)
    return rounded(y, input.dtype).reshape((*input.shape[:-1], *weight.shape[:-1]))


@kernel("aten::linear_backward")
def linear_backward(
    self: Array, grad_output: Array, weight: Array, output_mask: Sequence[bool]
) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients for input, weight and bias, each where its mask is set."""
    count, matrix = prod(self.shape[:-1]), np.atleast_2d(weight)
    flat, rows = wide(grad_output).reshape(count, len(matrix)), wide(self).reshape(count, self.shape[-1])
    grad_self = rounded(product(flat, wide(matrix)), self.dtype).reshape(self.shape) if output_mask[0] else None
    grad_weight = rounded(product(flat.T, rows), weight.dtype).reshape(weight.shape) if output_mask[1] else None
    grad_bias = rounded(flat.sum(axis=0), weight.dtype) if output_mask[2] else None
    return grad_self, grad_weight, grad_bias


@kernel("aten::linalg_cross")
def cross(self: Array, other: Array, *, dim: int = -1) -> Array:
    """The cross product along a dimension of size 3; the operands broadcast."""
    a, b = np.broadcast_arrays(wide(self), wide(other))
    a0, a1, a2 = np.moveaxis(a, dim, 0)
    b0, b1, b2 = np.moveaxis(b, dim, 0)
    product = np.stack((a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0), axis=dim)
    return rounded(product, self.dtype)
