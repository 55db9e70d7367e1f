"""Code that torch_npu has a faster operator for."""
