"""A hash of numbers: the exclusive or of their 64 bits, as float64 or as 64-bit integers."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.promotion import F64, I64, Array
from gpu2npu.emulator.kernels.reduce.reduce import Dims, axes
from gpu2npu.emulator.kernels.registry import kernel


@kernel("aten::hash_tensor")
def hash_tensor(self: Array, dim: Dims = (), *, keepdim: bool = False, mode: int = 0) -> Array:
    """The exclusive or along the dimensions, all unless given, as uint64.

    Raises:
        NotImplementedError: The mode is not 0, the one there is.
    """
    if mode != 0:
        raise NotImplementedError(f"hash_tensor of mode {mode}")
    integers = self.dtype.kind in "biu"
    bits = np.ascontiguousarray(self.astype(I64 if integers else F64)).view(np.uint64)
    retained = np.bitwise_xor.reduce(bits.reshape(self.shape), axis=axes(self, dim), keepdims=True)
    return np.asarray(retained if keepdim else np.squeeze(retained, axis=axes(self, dim)))
