"""The machine around the NPU: `npu-smi`, the files below /usr/local/Ascend, and the processes that use the NPUs."""
