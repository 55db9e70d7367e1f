"""A recording, as it is read back: what one process of a program did, in order."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpu2npu.verify.recording.format import EVENTS, FIRST, ROW, TENSORS, VERSION

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
Rows = np.ndarray[tuple[int], np.dtype[np.void]]
Key = tuple[int, str, str, int, int]
Stack = tuple[tuple[str, int], ...]


class RecordingError(ValueError):
    """A recording cannot be read: one sentence for the user."""


@dataclass(frozen=True)
class Tensor:
    """A tensor as it is recorded; see `sketch.Summary`."""

    shape: tuple[int, ...]
    dtype: str
    norm: float
    mean: float
    largest: float
    unfinite: int
    first: tuple[float, ...]
    sketch: Vector = field(repr=False)


@dataclass(frozen=True)
class RecordedEvent:
    """One thing that happened: a tensor or a number at a place of the program, or, with neither, a draw.

    `kind` is which: "input" and "output" of a module, the "gradient" that reaches its output, "loss", "loss scale",
    "kept gradients" of an optimizer before a backward pass (1 if there are any), "rate", "option" (another of an
    optimizer's numbers), "parameter gradient", "parameter", "state" (what an optimizer keeps of a parameter's
    gradients) and "buffer" at an optimizer step, "initial weight", "weight" of a module that no optimizer trains where
    it changed, "collective", "draw", "mode" of an outermost module (1 in training), and "checkpoint", what is saved
    after a step. `call` counts within the step.
    `stack` are the places of user code, innermost first: a path in the project, a line.
    `within` is the module that is drawing, for a draw.
    """

    step: int
    kind: str
    name: str
    call: int = 0
    part: int = 0
    tensor: Tensor | None = None
    value: float | None = None
    stack: Stack = ()
    within: str | None = None

    @property
    def key(self) -> Key:
        """The key that the same event of another recording has too."""
        return self.step, self.kind, self.name, self.call, self.part


@dataclass(frozen=True)
class Recording:
    """The recording of one process.

    `seconds` are those of each step, `cpu` those of the process's CPUs, and `memory` the most bytes on the device until
    its end; `reduced` the families of operators ("conv", "matmul") for which the device rounds
    float32 operands, as HF32 and TF32 do; `operators` those that a module runs on the emulated NPU, each with who
    computes it there: "numpy", "borrowed" or "fallback". `device` is the name of a real GPU, empty otherwise; `folder`
    holds the recording, unless it comes from a file. `chip` is the name of the NPU, emulated or not, or empty.
    `compiles` means that the program calls torch.compile, which is switched off. `behaviour` are the rows of the table
    of behaviour that the emulated NPU met without an error, and how often.
    """

    torch: str
    events: tuple[RecordedEvent, ...]
    seconds: tuple[float, ...]
    reduced: tuple[str, ...] = ()
    rank: int = 0
    world: int = 1
    operators: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    device: str = ""
    folder: Path | None = None
    cpu: tuple[float, ...] = ()
    memory: tuple[int, ...] = ()
    chip: str = ""
    compiles: bool = False
    behaviour: Mapping[str, int] = field(default_factory=dict)

    @property
    def losses(self) -> dict[int, float]:
        """The sum of the losses of each step."""
        found: dict[int, float] = {}
        for event in self.events:
            if event.kind == "loss" and event.tensor is not None:
                found[event.step] = found.get(event.step, 0.0) + event.tensor.mean
        return found


def read_recordings(folder: Path) -> tuple[Recording, ...]:
    """The recordings of all processes that made a step, by rank.

    Raises:
        RecordingError: The folder holds no recording, or one of another version.
    """
    found = (_read(events.parent) for events in sorted(folder.glob(f"process-*/{EVENTS}")))
    return tuple(sorted((each for each in found if each.seconds), key=lambda each: each.rank))


def _read(folder: Path) -> Recording:
    rows = rows_of((folder / TENSORS).read_bytes())
    with (folder / EVENTS).open(encoding="utf-8") as lines:
        return replace(recording_of(lines, rows, str(folder)), folder=folder)


def rows_of(content: bytes) -> Rows:
    """The whole rows in a file of tensors."""
    return np.frombuffer(content, ROW, len(content) // ROW.itemsize)


def recording_of(lines: Iterable[str], rows: Rows, where: str) -> Recording:
    """The recording in lines of JSON; `where` is what an error calls it.

    Raises:
        RecordingError: It is of another version.
    """
    stacks: dict[int, Stack] = {0: ()}
    places: dict[int, _Place] = {}
    tensors = _Tensors(rows)
    events: list[RecordedEvent] = []
    costs: list[tuple[float, float, int]] = []
    rank, world, torch, device, chip, reduced = 0, 1, "", "", "", ()
    operators: dict[str, tuple[tuple[str, str], ...]] = {}
    compiles, behaviour = False, dict[str, int]()
    for line in lines:
        if not line.endswith("\n"):
            break  # the process was killed as it wrote
        fields = json.loads(line)
        if isinstance(fields, list):
            place, step, site, row = fields
            if row >= len(tensors):
                break
            events.append(tensors.event(places[place], step, stacks[site], row))
        elif "place" in fields:
            places[fields["place"]] = _place(fields)
        elif "version" in fields:
            if fields["version"] != VERSION:
                raise RecordingError(f"{where}: a recording of version {fields['version']}, not {VERSION}")
            torch = fields["torch"]
        elif "site" in fields and "stack" in fields:
            stacks[fields["site"]] = tuple((path, number) for path, number in fields["stack"])
        elif "stepped" in fields:
            costs.append((fields["seconds"], fields.get("cpu", 0.0), fields.get("memory", 0)))
            rank, world = fields.get("rank", 0), fields.get("world", 1)
        elif "finished" in fields:
            reduced, device, chip = tuple(fields["reduced"]), fields["device"], fields.get("chip", "")
            compiles, behaviour = fields.get("compiles", False), fields.get("behaviour", {})
        elif "operators" in fields:
            operators[fields["module"]] = tuple((name, kind) for name, kind in fields["operators"])
        elif "draw" in fields:
            events.append(_draw(fields, stacks))
        else:
            events.append(_number(fields, stacks))
    seconds, cpu, memory = zip(*costs, strict=True) if costs else ((), (), ())
    made = Recording(torch, tuple(events), seconds, reduced, rank, world, operators, device)
    return replace(made, cpu=cpu, memory=memory, chip=chip, compiles=compiles, behaviour=behaviour)


def _draw(fields: dict[str, Any], stacks: dict[int, Stack]) -> RecordedEvent:
    name = f"{fields['draw']}{tuple(fields['shape'])} from seed {fields['seed']}"
    place = RecordedEvent(fields["step"], "draw", name, fields["number"], stack=stacks[fields["site"]])
    return replace(place, within=fields.get("within") or None)


def _number(fields: dict[str, Any], stacks: dict[int, Stack]) -> RecordedEvent:
    stack = stacks[fields.get("site", 0)]
    return RecordedEvent(
        fields["step"], fields["event"], fields["name"], fields["call"], value=fields["value"], stack=stack
    )


@dataclass(frozen=True)
class _Place:
    """A place of the program, and the shape and dtype of the tensors there."""

    kind: str
    name: str
    call: int
    part: int
    shape: tuple[int, ...]
    dtype: str


def _place(fields: dict[str, Any]) -> _Place:
    shape = tuple(fields["shape"])
    return _Place(fields["event"], fields["name"], fields["call"], fields["part"], shape, fields["dtype"])


class _Tensors:
    """The rows of a file of tensors, as Python's numbers."""

    def __init__(self, rows: Rows) -> None:
        self._sketches = rows["sketch"].astype(np.float64)
        self._statistics = rows[["norm", "mean", "largest", "unfinite"]].tolist()
        self._first = rows["first"].tolist()

    def __len__(self) -> int:
        return len(self._statistics)

    def event(self, place: _Place, step: int, stack: Stack, row: int) -> RecordedEvent:
        """The event whose tensor is in a row."""
        norm, mean, largest, unfinite = self._statistics[row]
        elements = math.prod(place.shape) * (2 if place.dtype.startswith("complex") else 1)
        first = tuple(self._first[row][: min(elements, FIRST)])
        tensor = Tensor(place.shape, place.dtype, norm, mean, largest, unfinite, first, self._sketches[row])
        return RecordedEvent(step, place.kind, place.name, place.call, place.part, tensor, stack=stack)
