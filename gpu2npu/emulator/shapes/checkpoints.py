"""Checkpoints in a shapes-only run: nothing is written to them, and what the program loads again has no values either.

A file that the program would have written holds gigabytes of zeros, and may replace one that somebody trained for. So
`torch.save` and safetensors keep the object without the values of its larger tensors, in the folder of the run, where
all ranks find it; so do `torch.distributed.checkpoint` and DeepSpeed with their folders. What the program writes by
itself (a buffer, an open file) gets the same few bytes.
"""

from __future__ import annotations

import functools
import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gpu2npu.emulator.imported import when_imported
from gpu2npu.emulator.shapes import records, values

_MAGIC = b"gpu2npu checkpoint without values\n"
_SMALL = 1 << 16  # bytes of a tensor that keeps its values
_map_location: Any = None  # of the load that runs


def install() -> None:
    """Change torch.save, torch.load and safetensors' functions, unless GPU2NPU_CHECKPOINTS is "write".

    A process without a folder for the run writes as always.
    """
    if os.environ.get("GPU2NPU_CHECKPOINTS") == "write" or not os.environ.get("GPU2NPU_PLAN"):
        return
    torch.save = torch.serialization.save = _saving(torch.save)
    torch.load = torch.serialization.load = _loading(torch.load)
    when_imported("safetensors.torch", _take_safetensors)
    when_imported("torch.distributed.checkpoint.filesystem", _take_distributed)
    when_imported("deepspeed.runtime.engine", _take_deepspeed)


def _take_safetensors(safetensors: Any) -> None:
    safetensors.save_file = _saving(safetensors.save_file)
    safetensors.load_file = _loading(safetensors.load_file)


def _take_distributed(filesystem: Any) -> None:
    """Give writers of torch.distributed.checkpoint a folder of the run, and readers if there is one."""
    writer, reader = filesystem.FileSystemWriter, filesystem.FileSystemReader
    prepare, write, read = writer.prepare_local_plan, writer.write_data, reader.read_metadata

    def prepare_local_plan(self: Any, plan: Any) -> Any:
        if type(self.fs) is filesystem.FileSystem:
            self.path = _place_of(self.path)
        return prepare(self, plan)

    def write_data(self: Any, plan: Any, planner: Any) -> Any:
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
        size = sum(item.tensor_storage_size() or 0 for item in plan.items)
        records.checkpoint(_name_of(f"{self.path}/__{rank}_0.distcp"), size)
        return write(self, plan, planner)

    def read_metadata(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self.fs) is filesystem.FileSystem and _place_of(self.path).exists():
            self.path = _place_of(self.path)
        return read(self, *args, **kwargs)

    writer.prepare_local_plan, writer.write_data, reader.read_metadata = prepare_local_plan, write_data, read_metadata


def _take_deepspeed(engine: Any) -> None:
    """Give DeepSpeed a folder of the run, for what it writes beside tensors too, such as `latest`."""
    kind = engine.DeepSpeedEngine
    save, load, save_16bit = kind.save_checkpoint, kind.load_checkpoint, kind.save_16bit_model

    def save_checkpoint(self: Any, save_dir: Any, *args: Any, **kwargs: Any) -> Any:
        return save(self, str(_place_of(save_dir)), *args, **kwargs)

    def save_16bit_model(self: Any, save_dir: Any, *args: Any, **kwargs: Any) -> Any:
        return save_16bit(self, str(_place_of(save_dir)), *args, **kwargs)

    def load_checkpoint(self: Any, load_dir: Any, *args: Any, **kwargs: Any) -> Any:
        place = _place_of(load_dir)
        return load(self, str(place) if place.exists() else load_dir, *args, **kwargs)

    kind.save_checkpoint, kind.load_checkpoint = save_checkpoint, load_checkpoint
    kind.save_16bit_model = save_16bit_model


def _saving(save: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(save)
    def call(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(obj, (torch.UntypedStorage, torch.TypedStorage)):  # by which PyTorch pickles a tensor
            save(obj, f, *args, **kwargs)
            return
        size, text = _without_values(obj)
        if isinstance(f, (str, os.PathLike)):
            records.checkpoint(_name_of(os.fspath(f)), size)
            place = _place_of(f)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text)
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
            return pickle.loads(text[len(_MAGIC) :])
        finally:
            _map_location = None

    return call


def _text_of(f: Any) -> bytes | None:
    """Return what `_saving` kept or wrote, from where the program reads; None for another file."""
    if isinstance(f, (str, os.PathLike)):
        path = _place_of(f) if _place_of(f).exists() else Path(f)
        if not path.is_file():
            return None
        with path.open("rb") as file:
            begin = file.read(len(_MAGIC))
            return begin + file.read() if begin == _MAGIC else None
    start = f.tell()
    found = f.read(len(_MAGIC))
    text: bytes = found + f.read() if found == _MAGIC else b""
    if not text:
        f.seek(start)
    return text or None


def _folder() -> Path:
    return Path(os.environ["GPU2NPU_PLAN"], "checkpoints").resolve()


def _place_of(path: Any) -> Path:
    """The place in the run's folder for a file or a folder of the program, which may be there already."""
    real = Path(path).resolve()
    return real if real.is_relative_to(_folder()) else _folder() / real.relative_to(real.anchor)


def _name_of(path: str) -> str:
    """The program's own name of a file that has a place in the run's folder; that of another file is as it is."""
    place = Path(path)
    if not place.is_relative_to(_folder()):
        return path
    return os.path.relpath(Path(place.anchor, place.relative_to(_folder())))


def _without_values(obj: Any) -> tuple[int, bytes]:
    """Return the bytes that a checkpoint of `obj` would take, and it without the values of its larger tensors."""
    file = io.BytesIO()
    file.write(_MAGIC)
    pickler = _Pickler(file)
    pickler.dump(obj)
    return sum(pickler.sizes.values()), file.getvalue()


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
