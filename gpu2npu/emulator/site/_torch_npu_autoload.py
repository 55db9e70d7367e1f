"""The function that `import torch` calls at its end, by the entry point `torch.backends` of torch_npu's dist-info."""

import importlib

_FIRST = (2, 5)  # the first release of PyTorch that loads back ends, and of torch_npu with the entry point


def load() -> None:
    """Import torch_npu, unless the release to imitate leaves that to the script."""
    try:
        from gpu2npu.emulator.device.dispatch.support_table import release
    except ImportError:  # torch_npu says in one sentence what to install
        imitated = None
    else:
        imitated = release()
    if imitated is not None and tuple(map(int, imitated.split(".")[:2])) < _FIRST:
        return
    importlib.import_module("torch_npu")._autoload()
