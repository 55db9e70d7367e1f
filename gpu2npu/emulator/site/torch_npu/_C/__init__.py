"""`torch_npu._C`: of torch_npu's C++ extension, what scripts import by name."""
