"""Makes the npu device of this process: renames PyTorch's PrivateUse1 backend and registers all that is behind it."""

from __future__ import annotations

from types import ModuleType

import torch

from gpu2npu.emulator import shapes

_installed = False


class UnsupportedTorchError(ImportError):
    """The installed torch cannot host a backend written in Python."""


def install(module: ModuleType) -> None:
    """Make the npu device, with `module` as `torch.npu`; once a process, later calls do nothing.

    Raises:
        UnsupportedTorchError: torch is too old.
        RuntimeError: Another package holds the PrivateUse1 backend already.
    """
    global _installed
    if _installed:
        return
    taken = torch._C._get_privateuse1_backend_name()
    if taken != "privateuseone":
        raise RuntimeError(f"the emulated NPU cannot be installed: this process has the device {taken!r} already")
    try:
        from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
    except ImportError:
        raise UnsupportedTorchError(
            f"the emulated NPU needs torch 2.9 or newer, and torch {torch.__version__} is installed"
        ) from None
    from gpu2npu.emulator.device import backward

    _setup_privateuseone_for_python_backend("npu", backend_module=module, device_guard=backward.DeviceGuard())

    from gpu2npu.emulator.device import autocast, compiling, frontend
    from gpu2npu.emulator.device.dispatch import dispatch, tally
    from gpu2npu.emulator.device.memory import storages

    dispatch.install()
    autocast.install()
    backward.install()
    frontend.install()
    if shapes.is_on():
        from gpu2npu.emulator.shapes import checkpoints, host, records

        host.install()
        records.begin()
        checkpoints.install()
    compiling.install()
    storages.install()
    tally.report_at_exit()
    if torch.distributed.is_available():
        from gpu2npu.emulator.distributed import hccl

        hccl.register()
    _installed = True
