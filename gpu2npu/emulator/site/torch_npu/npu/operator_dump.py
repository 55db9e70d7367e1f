"""`torch.npu.init_dump`, `set_dump` and `finalize_dump`: what operators took and made, in files.

A real NPU writes CANN's binary format, which `msaccucmp` turns into NumPy files; these files are NumPy's at once, under
the names that it gives them: `TYPE.NAME.TASK.STREAM.TIME.input.0.npy`. bfloat16 is written as float32.
"""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..profiler.kernels import kernel_name, kernel_type

_MODES = {"all": ("input", "output"), "input": ("input",), "output": ("output",)}
_STREAM = 2


class _Dump(TorchDispatchMode):
    """Writes the NPU tensors that go into each operator and come out of it.

    Args:
        folder: Where the files go, in a folder for each NPU.
        sides: "input", "output" or both.
    """

    def __init__(self, folder: Path, sides: tuple[str, ...]) -> None:
        super().__init__()
        self._folder, self._sides = folder, sides
        self._tasks = itertools.count()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(value.alias_info is not None for value in func._schema.returns) and not func._schema.is_mutable:
            return func(*args, **kwargs)
        task = next(self._tasks)
        stem = f"{kernel_type(func.name())}.{kernel_name(func.name())}.{task}.{_STREAM}.{time.time_ns() // 1000}"
        if "input" in self._sides:
            self._write(stem, "input", (*args, *kwargs.values()))
        result = func(*args, **kwargs)
        if "output" in self._sides:
            self._write(stem, "output", (result,))
        return result

    def _write(self, stem: str, side: str, values: tuple[Any, ...]) -> None:
        lists = (value if isinstance(value, (list, tuple)) else [value] for value in values)
        tensors = [each for found in lists for each in found if isinstance(each, torch.Tensor)]
        for number, tensor in enumerate(tensors):
            if tensor.device.type != "npu":
                continue
            folder = self._folder / str(tensor.device.index)
            folder.mkdir(parents=True, exist_ok=True)
            host = tensor.detach().cpu()
            host = host.float() if host.dtype is torch.bfloat16 else host
            np.save(folder / f"{stem}.{side}.{number}.npy", host.resolve_conj().resolve_neg().numpy())


_enabled = False
_dump: _Dump | None = None


def init_dump() -> None:
    """Allow dumps; `set_dump` begins one."""
    global _enabled
    _enabled = True


def set_dump(cfg_file: str) -> None:
    """Begin to dump as a configuration of CANN's `aclmdlSetDump` says.

    Its `dump_op_switch` must be "on", for a script's operators belong to no model.

    Args:
        cfg_file: JSON: {"dump": {"dump_path": ..., "dump_mode": "input", "output" or "all", "dump_op_switch": "on"}}.

    Raises:
        AssertionError: There is no such file, in torch_npu's words.
        ValueError: It is not a configuration of a dump.
    """
    global _dump
    if not Path(cfg_file).exists():
        raise AssertionError(f"cfg_file {cfg_file} path does not exists.")
    try:
        settings = json.loads(Path(cfg_file).read_text(encoding="utf-8"))["dump"]
        folder, sides = Path(settings["dump_path"]), _MODES[settings.get("dump_mode", "output")]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"set_dump: {cfg_file} is not a configuration of a dump: {error!r}") from None
    _end()
    if _enabled and settings.get("dump_op_switch", "off") == "on":
        _dump = _Dump(folder / time.strftime("%Y%m%d%H%M%S"), sides)
        _dump.__enter__()


def finalize_dump() -> None:
    """End the dump, and allow none any more."""
    global _enabled
    _end()
    _enabled = False


def _end() -> None:
    global _dump
    if _dump is not None:
        _dump.__exit__(None, None, None)
        _dump = None


def set_aoe(dump_path: str) -> None:
    """Make the folder for the graphs that the Ascend Optimization Engine would tune; there is nothing to tune here.

    Raises:
        TypeError: `dump_path` is not a path.
        OSError: The folder cannot be made.
    """
    try:
        Path(dump_path).mkdir(parents=True, exist_ok=True)
    except TypeError:
        raise TypeError("Type of dump_path is invalid.") from None
    except OSError:
        raise OSError("Value of dump_path is invalid.") from None
