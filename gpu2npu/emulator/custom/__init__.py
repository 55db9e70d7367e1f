"""torch_npu's own operators, `torch.ops.npu.*`: their schemas, their gradients, and those that only move data."""
