"""Checkpoints in a shapes-only run: nothing is written to them, and what the program loads again has no values either.

A file that the program would have written holds gigabytes of zeros, and may replace one that somebody trained for. So
`torch.save` and safetensors keep the object without the values of its larger tensors, in the folder of the run, which
is laid over the file system (`overlay`), where all ranks find it; so do `torch.distributed.checkpoint` and DeepSpeed
with their folders. What the program writes by itself (a buffer, an open file) gets the same few bytes, and is taken
out of its folder when the process ends.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gpu2npu.emulator.imported import when_imported
from gpu2npu.emulator.shapes import overlay, records, values
from gpu2npu.emulator.shapes.file_calls import install as lay_over
from gpu2npu.emulator.shapes.file_calls import to_read, to_write

_MAGIC = b"gpu2npu checkpoint without values\n"
_SMALL = 1 << 16  # bytes of a tensor that keeps its values
_LIBRARIES = ("site-packages", "dist-packages", "__pycache__")
_map_location: Any = None  # of the load that runs
_over: overlay.Overlay


def install() -> None:
    """Change torch.save, torch.load and safetensors' functions, unless GPU2NPU_CHECKPOINTS is "write".

    A process without a folder for the run writes as always.
    """
    if os.environ.get("GPU2NPU_CHECKPOINTS") == "write" or not os.environ.get("GPU2NPU_PLAN"):
        return
    global _over
    folder = Path(os.environ["GPU2NPU_PLAN"])
    _over = lay_over(str(folder / "checkpoints"), (folder / "begun").stat().st_ctime_ns)
    records.list_files(_files)
    torch.save = torch.serialization.save = _saving(torch.save)
    torch.load = torch.serialization.load = _loading(torch.load)
    _take_containers()
    when_imported("safetensors.torch", _take_safetensors)
    when_imported("torch.distributed.checkpoint.filesystem", _take_distributed)
    when_imported("deepspeed.runtime.engine", _take_deepspeed)


def _take_containers() -> None:
    """Show the run's folder to torch.jit, torch.export and torch.package, which open files in C++."""
    core: Any = torch._C
    core.ScriptModule.save = _at_real_path(core.ScriptModule.save, to_write)
    core.import_ir_module = _at_real_path(core.import_ir_module, to_read)
    core.PyTorchFileWriter = _opened(core.PyTorchFileWriter, to_write)
    core.PyTorchFileReader = _opened(core.PyTorchFileReader, to_read)


def _at_real_path(call: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def at_real_path(first: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        return call(first, real(_over, path), *args, **kwargs)

    return at_real_path


def _opened(kind: Any, real: Callable[..., Any]) -> Any:
    def init(self: Any, source: Any, *args: Any, **kwargs: Any) -> None:
        kind.__init__(self, real(_over, source), *args, **kwargs)

    return type(kind.__name__, (kind,), {"__init__": init})


def _take_safetensors(safetensors: Any) -> None:
    safetensors.save_file = _saving(safetensors.save_file)
    safetensors.load_file = _loading(safetensors.load_file)


def _take_distributed(filesystem: Any) -> None:
    """Have all that torch.distributed.checkpoint writes to a folder in the run's folder."""
    writer = filesystem.FileSystemWriter
    prepare, write = writer.prepare_local_plan, writer.write_data

    def prepare_local_plan(self: Any, plan: Any) -> Any:
        if type(self.fs) is filesystem.FileSystem:
            _over.take(self.path)
        return prepare(self, plan)

    def write_data(self: Any, plan: Any, planner: Any) -> Any:
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
        size = sum(item.tensor_storage_size() or 0 for item in plan.items)
        records.checkpoint(f"{self.path}/__{rank}_0.distcp", size)
        return write(self, plan, planner)

    writer.prepare_local_plan, writer.write_data = prepare_local_plan, write_data


def _take_deepspeed(engine: Any) -> None:
    """Have what DeepSpeed writes in the run's folder, such as `latest` too."""
    kind = engine.DeepSpeedEngine
    for name in ("save_checkpoint", "save_16bit_model"):
        setattr(kind, name, _taking(getattr(kind, name)))


def _taking(save: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(save)
    def call(self: Any, save_dir: Any, *args: Any, **kwargs: Any) -> Any:
        _over.take(save_dir)
        return save(self, save_dir, *args, **kwargs)

    return call


def _saving(save: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(save)
    def call(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(obj, (torch.UntypedStorage, torch.TypedStorage)):  # by which PyTorch pickles a tensor
            save(obj, f, *args, **kwargs)
            return
        size, text = _without_values(obj)
        if isinstance(f, (str, os.PathLike)):
            records.checkpoint(os.fspath(f), size)
            _over.write(f, text)
        else:
            f.write(text)

    return call


def _loading(load: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load)
    def call(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        text = _text_of(f)
        if text is None:
            return load(f, map_location, *args, **kwargs)
        global _map_location
        _map_location = map_location if map_location is not None else kwargs.get("device")
        try:
            return pickle.loads(text[len(_MAGIC) + 8 :])
        finally:
            _map_location = None

    return call


def _text_of(f: Any) -> bytes | None:
    """Return what `_saving` kept or wrote, from where the program reads; None for another file."""
    if isinstance(f, (str, os.PathLike)):
        if not Path(f).is_file():
            return None
        with Path(f).open("rb") as file:
            begin = file.read(len(_MAGIC))
            return begin + file.read() if begin == _MAGIC else None
    start = f.tell()
    found = f.read(len(_MAGIC))
    text: bytes = found + f.read() if found == _MAGIC else b""
    if not text:
        f.seek(start)
    return text or None


def _files() -> list[dict[str, Any]]:
    """Return the files that this process wrote, or left as they were before; withdraw checkpoints among them."""
    found = []
    with overlay.outside():
        for path, target in sorted(_over.written.items()):
            begin = b""
            with contextlib.suppress(OSError), Path(target).open("rb") as file:
                begin = file.read(len(_MAGIC) + 8)
            if begin.startswith(_MAGIC):
                records.checkpoint(os.path.relpath(path), int.from_bytes(begin[len(_MAGIC) :], "little"))
                _over.withdraw(path)
            elif Path(target).exists() and (target == path or _over.is_old(path)) and _is_shown(path):
                found.append({"path": os.path.relpath(path), "written": target == path})
    return found


def _is_shown(path: str) -> bool:
    own = os.path.relpath(path)
    hidden = any(part.startswith(".") or part in _LIBRARIES for part in Path(own.replace("../", "")).parts)
    return not hidden and not (own.startswith("..") and path.startswith((tempfile.gettempdir(), "/dev/", "/proc/")))


def _without_values(obj: Any) -> tuple[int, bytes]:
    """Return the bytes that a checkpoint of `obj` would take, and it without the values of its larger tensors."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(obj)
    size = sum(pickler.sizes.values())
    return size, _MAGIC + size.to_bytes(8, "little") + file.getvalue()


class _Pickler(pickle.Pickler):
    """Writes a larger tensor as its shape, strides, dtype and device."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.sizes: dict[int, int] = {}  # of memory, by its address: views share one

    def reducer_override(self, obj: Any) -> Any:
        """Reduce a tensor; other objects are reduced as pickle does."""
        if not isinstance(obj, torch.Tensor) or obj.layout is not torch.strided or obj.is_quantized:
            return NotImplemented
        memory = getattr(obj, "_local_tensor", obj).untyped_storage()
        self.sizes[memory.data_ptr()] = memory.nbytes()
        if type(obj) not in (torch.Tensor, torch.nn.Parameter):
            return NotImplemented
        is_small = obj.nbytes <= _SMALL or values.is_knowable(obj.shape, obj.dtype)
        has_values = obj.nbytes and is_small and values.is_known(obj)
        filled = bytes(obj.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()) if has_values else b""
        is_parameter = isinstance(obj, torch.nn.Parameter)
        kind = (tuple(obj.shape), obj.stride(), obj.dtype, str(obj.device))
        return _tensor, (*kind, filled, obj.requires_grad, is_parameter)


def _tensor(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: torch.dtype,
    device: str,
    filled: bytes,
    requires_grad: bool,
    is_parameter: bool,
) -> torch.Tensor:
    """A tensor on the device that the program loads to, with its values if there are any."""
    where = _map_location
    if isinstance(where, dict):
        where = where.get(device, device)
    elif callable(where):
        storage = where(torch.UntypedStorage(0), device)
        where = device if storage is None else storage.device
    tensor = torch.empty_strided(shape, strides, dtype=dtype, device=device if where is None else where)
    if filled:
        tensor.copy_(torch.frombuffer(bytearray(filled), dtype=dtype).reshape(shape))
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)
