"""`torch_npu._C`: of torch_npu's C++ extension, what scripts import by name."""

from torch_npu.npu.memory_pools import host_empty_cache as _npu_hostEmptyCache


def _npu_get_soc_version() -> int:
    """The chip's number in torch_npu's list, as `torch.npu.get_soc_version`."""
    from gpu2npu.emulator.soc import current_soc

    return current_soc().number
