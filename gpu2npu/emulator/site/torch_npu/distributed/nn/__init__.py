"""`torch_npu.distributed.nn`: its one patch, a backward of gathered tensors, comes with torch_npu itself."""
