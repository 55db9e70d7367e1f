"""torch_npu as scripts import it, over the emulated NPU of gpu2npu."""


def _autoload() -> None:
    """What `import torch` calls at its end (entry point `torch.backends`), perhaps while this module is being imported.

    torch would bury an exception under one of its own, so the one sentence ends the program.
    """
    try:
        _install()
    except ImportError as error:
        raise SystemExit(str(error)) from None


def _install() -> None:
    try:
        from gpu2npu.emulator.device import backend
    except ModuleNotFoundError as error:
        raise ImportError(
            f"the emulated torch_npu has no module {error.name!r}: install gpu2npu[emulator] in the Python that runs "
            "the script, or start the script with `gpu2npu run`"
        ) from None
    from . import npu

    backend.install(npu)


def __getattr__(name: str) -> object:
    """Libraries import torch_npu's own operators at their top, and call them only when asked to."""
    from gpu2npu.emulator.device.support_table import is_custom

    if "npu_" not in name or not is_custom(name):  # the import system asks for submodules here
        raise AttributeError(f"module 'torch_npu' has no attribute {name!r}")

    def refuse(*args: object, **kwargs: object) -> object:
        raise NotImplementedError(
            f"torch_npu.{name}: the emulated NPU has none of torch_npu's own operators; use PyTorch's"
        )

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


# Nothing above needs torch.
import torch  # noqa: E402

__version__ = torch.__version__.partition("+")[0]

if torch._is_device_backend_autoload_enabled():
    _autoload()
else:
    _install()

from . import distributed, npu  # noqa: E402

__all__ = ["distributed", "npu"]
