"""Sparse tensors (COO) on the NPU: PyTorch's own sparse tensors, over npu tensors of indices and values."""
