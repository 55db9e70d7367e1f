"""Writes a recording as it is made: one folder a process, lines of JSON and, of each tensor, a row of bytes.

A tensor's line is a list of four numbers: its place in the program, the step, the place in the user's code and its row.
An earlier line, an object with "place", says what is there: the kind of event, name, call, part, shape and dtype.

A process that records nothing, such as a launcher, leaves no folder.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from dataclasses import asdict
from typing import Any, BinaryIO, TextIO

import numpy as np
import torch

from gpu2npu.verify.recording.clock import Cost
from gpu2npu.verify.recording.environment import RecordingSettings
from gpu2npu.verify.recording.format import EVENTS, ROW, TENSORS, VERSION
from gpu2npu.verify.recording.host import values_of
from gpu2npu.verify.recording.sites import Sites
from gpu2npu.verify.recording.sketch import FEW, Summary, fill_rows, padded, summary, summary_of

_TOGETHER = 1 << 15  # elements that are summarised at once: they stay in a core's cache
_BUFFER = 1 << 18  # bytes that are kept until they are written, at the latest at the end of a step


class Writer:
    """One process's recording on disk. `compiles` means that the program has called torch.compile."""

    def __init__(self, settings: RecordingSettings) -> None:
        self._folder = settings.folder / f"process-{os.getpid()}"
        self._process = os.getpid()
        self._lines: TextIO | None = None
        self._tensors: Any = None
        self._rows: Any = None
        self._places: dict[tuple[Any, ...], int] = {}
        self._sites = 1
        self._loss: float | None = None  # of the step
        self.compiles = False
        atexit.register(self.finish)

    def row(self, tensor: torch.Tensor) -> int:
        """The number of a new row with the values that a tensor has now."""
        self._opened()
        return self._rows.add(tensor)

    def tensor(
        self,
        step: int,
        kind: str,
        name: str,
        call: int,
        part: int,
        tensor: torch.Tensor,
        row: int,
        site: int,
        sites: Sites,
    ) -> None:
        """One tensor at one place of the program, whose values are in a row."""
        lines = self._lines or self._opened()
        if self._sites < len(sites.places):
            self._write_sites(sites)
        described = kind, name, call, part, tensor.shape, tensor.dtype
        place = self._places.get(described)
        if place is None:
            place = self._places[described] = len(self._places)
            shape, dtype = list(tensor.shape), str(tensor.dtype).removeprefix("torch.")
            fields = {"event": kind, "name": name, "call": call, "part": part, "shape": shape, "dtype": dtype}
            self._line({"place": place} | fields)
        if kind == "loss":
            self._loss = (self._loss or 0.0) + summary(tensor).mean
        lines.write(f"[{place}, {step}, {site}, {row}]\n")

    def number(
        self, step: int, kind: str, name: str, call: int, value: float, site: int = 0, sites: Sites | None = None
    ) -> None:
        """One number, such as a learning rate."""
        self._opened()
        if sites is not None:
            self._write_sites(sites)
        self._line({"event": kind, "step": step, "name": name, "call": call, "value": value, "site": site})

    def draw(
        self,
        step: int,
        kind: str,
        shape: tuple[int, ...],
        seed: int,
        number: int,
        within: str,
        site: int,
        sites: Sites,
    ) -> None:
        """One draw of random numbers; `within` is the module that draws, or empty."""
        self._opened()
        self._write_sites(sites)
        fields = {"draw": kind, "step": step, "shape": shape, "seed": seed, "number": number, "site": site}
        self._line(fields | {"within": within} if within else fields)

    def operators(self, module: str, operators: list[tuple[str, str]]) -> None:
        """The operators that a module runs, each with who computes it."""
        self._opened()
        self._line({"module": module, "operators": operators})

    def step(self, step: int, optimizer: str, cost: Cost) -> None:
        """The end of one optimizer step."""
        lines = self._opened()
        self._line({"stepped": step, "optimizer": optimizer, "loss": self._loss} | asdict(cost))
        self._loss = None
        self._rows.write()
        lines.flush()
        self._tensors.flush()

    def finish(self) -> None:
        """Write what is left and close; harmless twice, and in a process forked from the recorded one."""
        if self._lines is None or os.getpid() != self._process:
            return
        device = {"reduced": _reduced(), "device": _device(), "chip": _chip(), "behaviour": _behaviour()}
        self._line({"finished": True, "compiles": self.compiles} | device)
        self._rows.write()
        self._lines.close()
        self._tensors.close()
        self._lines = None

    def _write_sites(self, sites: Sites) -> None:
        """Write the places of user code that are new since the last call."""
        while self._sites < len(sites.places):
            self._line({"site": self._sites, "stack": sites.places[self._sites]})
            self._sites += 1

    def _opened(self) -> TextIO:
        if self._lines is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lines = (self._folder / EVENTS).open("a", _BUFFER, encoding="utf-8")
            self._tensors = (self._folder / TENSORS).open("ab", _BUFFER)
            self._rows = RowWriter(self._tensors)
            self._line({"version": VERSION, "torch": torch.__version__, "argv": sys.argv})
        return self._lines

    def _line(self, fields: dict[str, Any]) -> None:
        assert self._lines is not None
        distributed = torch.distributed
        if "stepped" in fields and distributed.is_available() and distributed.is_initialized():
            fields = {**fields, "rank": distributed.get_rank(), "world": distributed.get_world_size()}
        self._lines.write(json.dumps(fields) + "\n")


class RowWriter:
    """Writes a row for each tensor, numbered from 0 as added. Small tensors are copied, and summarised together."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._written = 0
        self._count = 0  # of rows that are not written yet
        self._large: list[tuple[int, Summary]] = []
        self._small: list[int] = []
        self._sizes: list[int] = []
        self._values = np.zeros(_TOGETHER)
        self._end = 0

    def add(self, tensor: torch.Tensor) -> int:
        """Note the values that a tensor has now; the number of its row."""
        values = values_of(tensor)
        size = values.size
        if size > FEW:
            self._large.append((self._count, summary_of(tensor, values)))
        elif size:
            start, room = self._end, padded(size)
            if start + room > _TOGETHER:
                self.write()
                start = 0
            self._end = start + room
            self._values[start : start + size] = values
            self._values[start + size : self._end] = 0.0
            self._small.append(self._count)
            self._sizes.append(size)
        self._count += 1
        return self._written + self._count - 1

    def write(self) -> None:
        """Write the rows of the tensors that were added since the last time."""
        if not self._count:
            return
        rows = np.zeros(self._count, ROW)
        if self._small:
            together = np.zeros(len(self._small), ROW)
            fill_rows(together, self._values[: self._end], tuple(self._sizes))
            rows[self._small] = together
        for number, made in self._large:
            rows[number] = (made.sketch, made.norm, made.mean, made.largest, made.unfinite, made.first)
        self._file.write(rows.tobytes())
        self._written, self._count, self._end = self._written + self._count, 0, 0
        self._large, self._small, self._sizes = [], [], []


def _reduced() -> list[str]:
    """The families of operators whose float32 operands this process's device rounds: HF32 on an NPU, TF32 on a GPU."""
    npu: Any = getattr(torch, "npu", None)
    if npu is not None:
        return [family for family in ("conv", "matmul") if getattr(getattr(npu, family, None), "allow_hf32", False)]
    if not _device():
        return []
    switches = {"conv": torch.backends.cudnn.allow_tf32, "matmul": torch.backends.cuda.matmul.allow_tf32}
    return [family for family, on in switches.items() if on and torch.cuda.get_device_capability() >= (8, 0)]


def _device() -> str:
    """The name of the real GPU of this process."""
    played = "gpu2npu.verify.reference.tensors" in sys.modules
    return "" if played or not torch.cuda.is_initialized() else torch.cuda.get_device_name()


def _chip() -> str:
    """The name of the NPU, which may be emulated; empty in a program that has none."""
    npu: Any = getattr(torch, "npu", None)
    return str(npu.get_device_name(0)) if npu is not None else ""


def _behaviour() -> dict[str, int]:
    """The rows of the table of behaviour that the emulated NPU met without an error, and how often."""
    limits: Any = sys.modules.get("gpu2npu.emulator.device.dispatch.limits")
    return dict(limits.met) if limits is not None else {}
