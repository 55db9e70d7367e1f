"""Writes a recording as it is made: one folder a process, lines of JSON and the sketches as raw float32.

A process that records nothing, such as a launcher, leaves no folder.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from dataclasses import asdict
from typing import Any, TextIO

import torch

from gpu2npu.verify.recording.clock import Cost
from gpu2npu.verify.recording.environment import Settings
from gpu2npu.verify.recording.format import EVENTS, SKETCHES, VERSION
from gpu2npu.verify.recording.sites import Sites
from gpu2npu.verify.recording.sketch import Summary


class Writer:
    """One process's recording on disk. `compiles` says that the program has called torch.compile."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.folder / f"process-{os.getpid()}"
        self._process = os.getpid()
        self._lines: TextIO | None = None
        self._sketches: Any = None
        self._rows = 0
        self._row_of: dict[int, tuple[Summary, int]] = {}  # of what this step has summarised
        self._sites = 1
        self.compiles = False
        atexit.register(self.finish)

    def tensor(
        self, step: int, kind: str, name: str, call: int, part: int, summary: Summary, site: int, sites: Sites
    ) -> None:
        """One tensor at one place of the program."""
        self._opened()
        self._places(sites)
        place = {"event": kind, "step": step, "name": name, "call": call, "part": part, "site": site}
        statistics = {name: value for name, value in vars(summary).items() if name != "sketch"}
        self._line(place | {"row": self._row(summary)} | statistics)

    def _row(self, summary: Summary) -> int:
        """The row of a summary's sketch: what a module returns and the next one is given has one."""
        found = self._row_of.get(id(summary))
        if found is not None:
            return found[1]
        row, self._rows = self._rows, self._rows + 1
        self._row_of[id(summary)] = (summary, row)
        self._sketches.write(summary.sketch.tobytes())
        return row

    def number(
        self, step: int, kind: str, name: str, call: int, value: float, site: int = 0, sites: Sites | None = None
    ) -> None:
        """One number, such as a learning rate."""
        self._opened()
        if sites is not None:
            self._places(sites)
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
        self._places(sites)
        fields = {"draw": kind, "step": step, "shape": shape, "seed": seed, "number": number, "site": site}
        self._line(fields | {"within": within} if within else fields)

    def operators(self, module: str, operators: list[tuple[str, str]]) -> None:
        """The operators that a module runs, each with who computes it."""
        self._opened()
        self._line({"module": module, "operators": operators})

    def step(self, step: int, optimizer: str, cost: Cost) -> None:
        """The end of one optimizer step."""
        self._opened()
        self._row_of.clear()
        self._line({"stepped": step, "optimizer": optimizer} | asdict(cost))
        if self._lines is not None:
            self._lines.flush()
            self._sketches.flush()

    def finish(self) -> None:
        """Write what is left and close; harmless twice, and in a process forked from the recorded one."""
        if self._lines is None or os.getpid() != self._process:
            return
        device = {"reduced": _reduced(), "device": _device(), "chip": _chip()}
        self._line({"finished": True, "compiles": self.compiles} | device)
        self._lines.close()
        self._sketches.close()
        self._lines = None

    def _places(self, sites: Sites) -> None:
        """Write the places of user code that are new since the last call."""
        while self._sites < len(sites.places):
            self._line({"site": self._sites, "stack": sites.places[self._sites]})
            self._sites += 1

    def _opened(self) -> None:
        if self._lines is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lines = (self._folder / EVENTS).open("a", encoding="utf-8")
            self._sketches = (self._folder / SKETCHES).open("ab")
            self._line({"version": VERSION, "torch": torch.__version__, "argv": sys.argv})

    def _line(self, fields: dict[str, Any]) -> None:
        assert self._lines is not None
        distributed = torch.distributed
        if "stepped" in fields and distributed.is_available() and distributed.is_initialized():
            fields = {**fields, "rank": distributed.get_rank(), "world": distributed.get_world_size()}
        self._lines.write(json.dumps(fields) + "\n")


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
