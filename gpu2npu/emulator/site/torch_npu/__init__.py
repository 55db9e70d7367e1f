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


# Nothing above needs torch.
import torch  # noqa: E402

__version__ = torch.__version__.partition("+")[0]

if torch._is_device_backend_autoload_enabled():
    _autoload()
else:
    _install()

from . import distributed, npu  # noqa: E402

__all__ = ["distributed", "npu"]
