"""More operators of torch_npu that are PyTorch's in a row, a module a family."""
