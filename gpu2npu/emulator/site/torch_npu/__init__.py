"""torch_npu as scripts import it, over the emulated NPU of gpu2npu."""


def _autoload() -> None:
    """Install the NPU when `import torch` ends (entry point `torch.backends`), perhaps while this is imported itself.

    torch would bury an exception under one of its own, so the one sentence ends the program.
    """
    try:
        _install()
    except ImportError as error:
        raise SystemExit(str(error)) from None


def _install() -> None:
    try:
        from gpu2npu.emulator.device import backend
        from gpu2npu.emulator.npu_ops import definition
    except ModuleNotFoundError as error:
        raise ImportError(
            f"the emulated torch_npu has no module {error.name!r}: install gpu2npu[emulator] in the Python that runs "
            "the script, or start the script with `gpu2npu run`"
        ) from None
    from . import npu

    backend.install(npu)
    definition.install()


from ._absent import NAMES as _ABSENT  # noqa: E402
from ._absent import attribute as _absent_attribute  # noqa: E402
from ._absent import install as _install_absent  # noqa: E402

# Submodules that are imported when somebody asks for them.
_LAZY = ("contrib", "dynamo", "optim", "utils")


def __getattr__(name: str) -> object:
    """torch_npu's own operators, as far as the release has them."""
    import importlib

    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")

    import torch

    from gpu2npu.emulator.device.dispatch.support_table import has_custom
    from gpu2npu.emulator.npu_ops import definition
    from gpu2npu.emulator.npu_ops.inference import atb

    if name in _ABSENT["torch_npu"]:
        return _absent_attribute("torch_npu", name)
    if name in atb.names():
        return getattr(torch.ops.atb, name)
    if name not in definition.names() or not has_custom(name):  # the import system asks for submodules here
        raise AttributeError(f"module 'torch_npu' has no attribute {name!r}")
    operator = globals()[name] = getattr(torch.ops.npu, name)
    return operator


def erase_stream(tensor: object, stream: object) -> None:
    """Forget that a stream uses a tensor: memory waits for no stream here."""


# Nothing above needs torch.
import os as _os  # noqa: E402

import torch  # noqa: E402

if torch._is_device_backend_autoload_enabled():
    _autoload()
else:
    _install()

from . import _C, distributed, npu, profiler  # noqa: E402
from .npu._format import Format, get_npu_format  # noqa: E402
from .version import __version__  # noqa: E402

_install_absent()

__all__ = ["Format", "distributed", "erase_stream", "get_npu_format", "npu", "profiler"]

if _os.environ.get("TORCH_TRANSFER_TO_NPU") == "1":
    from .contrib import transfer_to_npu as _
