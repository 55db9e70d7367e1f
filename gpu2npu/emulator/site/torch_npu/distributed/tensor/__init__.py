"""`torch_npu.distributed.tensor`: DTensor takes PyTorch's operators here, and has no rules for npu_* operators."""
