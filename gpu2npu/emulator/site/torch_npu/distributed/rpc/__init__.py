"""`torch_npu.distributed.rpc`: not emulated."""

raise NotImplementedError("torch_npu.distributed.rpc: the emulated NPU has no RPC backend; send tensors by hccl")
