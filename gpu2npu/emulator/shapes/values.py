"""Values in a shapes-only run: which are known, and what the host is given where it reads others.

Integers, truth values and a few floating-point numbers that the program brings (labels, masks, lengths, positions,
scales) have their values, as has what is computed of nothing else: their kernels run. All other values are unknown.
The host reads zeros of them, or what `--value` says; each such place is listed.
"""

from __future__ import annotations

import functools
import linecache
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gpu2npu.emulator.device.memory.memory import blocks

_MOST_BYTES = 1 << 24  # of integers that are computed
_MOST_FLOATS = 64  # elements: counters and scales, not parameters
_MACHINERY = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent), "<frozen")
_LIBRARIES = ("site-packages", "dist-packages", "/lib/python")


def is_knowable(shape: Iterable[int], dtype: torch.dtype) -> bool:
    """Return whether tensors of this shape and dtype have values, if they are computed from known ones."""
    count = 1
    for length in shape:
        count *= length
    if dtype.is_floating_point or dtype.is_complex:
        return count <= _MOST_FLOATS
    return count * dtype.itemsize <= _MOST_BYTES


def is_known(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's memory holds its values."""
    if tensor.get_device() < 0 or not tensor.numel():
        return True
    block = blocks.get(tensor.untyped_storage().data_ptr())
    return block is not None and getattr(block, "known", False)


def mark(tensor: torch.Tensor, known: bool) -> torch.Tensor:
    """State whether the memory of an NPU tensor holds values from now on; its other views share the answer."""
    block = blocks.get(tensor.untyped_storage().data_ptr())
    if block is not None:
        block.known = known
    return tensor


def covers(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is all of its memory, so that writing it leaves nothing unknown."""
    return tensor.numel() * tensor.dtype.itemsize == tensor.untyped_storage().nbytes()


@dataclass(frozen=True)
class Line:
    """A line of the program: the innermost one outside PyTorch, and that of the user's own code that led there."""

    file: str
    number: int
    caller: tuple[str, int] | None = None

    @property
    def name(self) -> str:
        """The file's own name and the line, for where there is little room."""
        return f"{Path(self.file).name}:{self.number}"

    def __str__(self) -> str:
        inner = f"{_short(self.file)}:{self.number}"
        return inner if self.caller is None else f"{inner}, from {_short(self.caller[0])}:{self.caller[1]}"


def _short(file: str) -> str:
    for folder in ("site-packages/", "dist-packages/"):
        if folder in file:
            return file.rpartition(folder)[2]
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative


def running_line() -> Line:
    """The line that runs."""
    frame: Any = sys._getframe(1)
    inner: tuple[str, int] | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_MACHINERY) and not file.startswith("<"):
            here = (file, frame.f_lineno)
            if not any(folder in file for folder in _LIBRARIES):
                file, line = inner or here
                return Line(file, line, here if inner is not None else None)
            inner = inner or here
        frame = frame.f_back
    file, line = inner or ("?", 0)
    return Line(file, line)


@dataclass
class Guess:
    """Something that the program was given for lack of values: what, where, and how often."""

    kind: str  # "value", "copy" or "shape"
    what: str
    line: Line
    count: int = 0


guesses: dict[tuple[str, str, Line], Guess] = {}


def guess(kind: str, what: str) -> Guess:
    """List one more guess at the line that runs."""
    here = running_line()
    key = (kind, what, here)
    found = guesses.get(key)
    if found is None:
        found = guesses.setdefault(key, Guess(kind, what, here))
    found.count += 1
    return found


@functools.cache
def _overrides() -> tuple[tuple[str, float], ...]:
    pairs = (each.rpartition("=") for each in os.environ.get("GPU2NPU_VALUES", "").split(";") if each)
    return tuple((where, float(value)) for where, _, value in pairs)


def value_for(at: Line) -> float:
    """Return what the host reads at a line: 0, or the number given for a word of the line or for FILE:LINE."""
    for where, value in _overrides():
        for file, line in ((at.file, at.number), *([at.caller] if at.caller else [])):
            name, colon, number = where.rpartition(":")
            if colon and number.isdecimal():
                if int(number) == line and (file.endswith(f"/{name}") or file == name):
                    return value
            elif re.search(rf"\b{re.escape(where)}\b", linecache.getline(file, line)):
                return value
    return 0
