"""torch_npu's matrix products, and reshapes fused with transposes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu2npu.emulator.kernels.linalg.matmul import linear, linear_backward
from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema


@kernel("npu::npu_linear")
def npu_linear(input: Array, weight: Array, bias: Array | None = None) -> Array:  # noqa: A002
    """input @ weight^T + bias; float16 and bfloat16 accumulate in float32."""
    return linear(input, weight, bias)


@kernel("npu::npu_linear_backward")
def npu_linear_backward(grad: Array, input: Array, weight: Array) -> tuple[Array, Array]:  # noqa: A002
    """Gradients for input and weight."""
    grad_input, grad_weight, _ = linear_backward(input, grad, weight, (True, True, False))
    assert grad_input is not None and grad_weight is not None
    return grad_input, grad_weight


def _product(a: Array, b: Array, shape: Sequence[int]) -> Array:
    """a @ b, summed over the leading dimensions that `shape` (empty: all are kept) has not, or has as 1."""
    y = np.matmul(wide(a), wide(b))
    if shape and tuple(shape) != y.shape:
        y = np.add.reduce(y, axis=tuple(range(y.ndim - len(shape))))
        spread = tuple(i for i, size in enumerate(shape) if size == 1 != y.shape[i])
        y = np.add.reduce(y, axis=spread, keepdims=True)
    return rounded(y, a.dtype)


@kernel("npu::npu_bmmV2")
def npu_bmm_v2(self: Array, mat2: Array, output_sizes: Sequence[int]) -> Array:
    """self @ mat2 with broadcast batches; `output_sizes` sums batches away, as its own gradient does."""
    return _product(self, mat2, output_sizes)


@kernel("npu::npu_bmm_v2_mat1_backward")
def npu_bmm_v2_mat1_backward(grad: Array, mat1: Array, mat2: Array, size: Sequence[int]) -> Array:
    """The gradient for `self` of `npu_bmmV2`, of shape `size`."""
    return rounded(_product(grad, np.swapaxes(mat2, -1, -2), size), mat1.dtype)


@kernel("npu::npu_bmm_v2_mat2_backward")
def npu_bmm_v2_mat2_backward(grad: Array, mat1: Array, mat2: Array, size: Sequence[int]) -> Array:
    """The gradient for `mat2` of `npu_bmmV2`, of shape `size`."""
    return rounded(_product(np.swapaxes(mat1, -1, -2), grad, size), mat2.dtype)


@by_schema(kernel, "npu::npu_transpose_batchmatmul")
def npu_transpose_batchmatmul(a: Arguments) -> Array:
    """Product of two batches after a permutation of each, and a permutation of the result, (1, 0, 2) unless given."""
    if a.scale is not None or (a.batch_split_factor or 1) != 1:
        raise NotImplementedError("scale or batch_split_factor of a transposed batch product")
    y = np.matmul(
        wide(a.input).transpose(a.perm_x1 or (0, 1, 2)), wide(a.weight).transpose(a.perm_x2 or (0, 1, 2))
    ).transpose(a.perm_y or (1, 0, 2))
    return rounded(y if a.bias is None else y + wide(a.bias), a.input.dtype)


@kernel("npu::npu_confusion_transpose")
def npu_confusion_transpose(self: Array, perm: Sequence[int], shape: Sequence[int], transpose_first: bool) -> Array:
    """Permute, then reshape; or the other way round unless `transpose_first`."""
    if transpose_first:
        return self.transpose(perm).reshape(shape)
    return self.reshape(shape).transpose(perm)


@kernel("npu::npu_confusion_transpose_backward")
def npu_confusion_transpose_backward(
    grad: Array, perm: Sequence[int], shape: Sequence[int], transpose_first: bool
) -> Array:
    """The inverse, to the original `shape`; `transpose_first` is the negation of the forward's."""
    inverse = np.argsort(perm)
    if transpose_first:
        return grad.transpose(inverse).reshape(shape)
    return grad.reshape([shape[axis] for axis in perm]).transpose(inverse)
