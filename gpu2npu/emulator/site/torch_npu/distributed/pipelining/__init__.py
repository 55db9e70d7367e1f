"""`torch_npu.distributed.pipelining`: PyTorch's pipelines run unchanged, so nothing is patched."""
