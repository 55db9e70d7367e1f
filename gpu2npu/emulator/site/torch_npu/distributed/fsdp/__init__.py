"""`torch_npu.distributed.fsdp`: PyTorch's FSDP runs unchanged, so nothing is patched."""
