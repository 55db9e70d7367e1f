"""A recording, as it is read back: what one process of a program did, in order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpu2npu.verify.recording.format import BUCKETS, EVENTS, SKETCHES, VERSION

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
Key = tuple[int, str, str, int, int]
Stack = tuple[tuple[str, int], ...]


class RecordingError(ValueError):
    """A recording cannot be read: one sentence for the user."""


@dataclass(frozen=True)
class Tensor:
    """What is known of a tensor; see `sketch.Summary`."""

    shape: tuple[int, ...]
    dtype: str
    norm: float
    mean: float
    largest: float
    unfinite: int
    first: tuple[float, ...]
    sketch: Vector = field(repr=False)


@dataclass(frozen=True)
class Event:
    """One thing that happened: a tensor or a number at a place of the program, or, with neither, a draw.

    `kind` says which: "input" and "output" of a module, the "gradient" that reaches its output, "loss", "loss scale",
    "rate", "parameter gradient", "parameter" and "buffer" at an optimizer step, "initial weight", "collective", "draw",
    and "mode" of an outermost module (1 in training). `call` counts within the step. `stack` are the places of user
    code, innermost first: a path in the project, a line.
    """

    step: int
    kind: str
    name: str
    call: int = 0
    part: int = 0
    tensor: Tensor | None = None
    value: float | None = None
    stack: Stack = ()

    @property
    def key(self) -> Key:
        """What the same event of another recording has too."""
        return self.step, self.kind, self.name, self.call, self.part


@dataclass(frozen=True)
class Recording:
    """What one process did.

    `seconds` are those of each step; `hf32` the families of operators that take HF32; `operators` those that a module
    runs on the emulated NPU, each with who computes it there: "numpy", "borrowed" or "fallback".
    """

    torch: str
    events: tuple[Event, ...]
    seconds: tuple[float, ...]
    hf32: tuple[str, ...] = ()
    rank: int = 0
    world: int = 1
    operators: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)

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
    recordings = [_read(process) for process in sorted(folder.glob("process-*"))]
    return tuple(sorted((each for each in recordings if each.seconds), key=lambda each: each.rank))


def _read(folder: Path) -> Recording:
    sketches = np.fromfile(folder / SKETCHES, np.float32).reshape(-1, BUCKETS).astype(np.float64)
    stacks: dict[int, Stack] = {0: ()}
    events: list[Event] = []
    seconds: list[float] = []
    rank, world, torch, hf32 = 0, 1, "", ()
    operators: dict[str, tuple[tuple[str, str], ...]] = {}
    with (folder / EVENTS).open(encoding="utf-8") as lines:
        for line in lines:
            if not line.endswith("\n"):
                break  # the process was killed as it wrote
            fields = json.loads(line)
            if "version" in fields:
                if fields["version"] != VERSION:
                    raise RecordingError(f"{folder}: a recording of version {fields['version']}, not {VERSION}")
                torch = fields["torch"]
            elif "site" in fields and "stack" in fields:
                stacks[fields["site"]] = tuple((path, number) for path, number in fields["stack"])
            elif "stepped" in fields:
                seconds.append(fields["seconds"])
                rank, world = fields.get("rank", 0), fields.get("world", 1)
            elif "finished" in fields:
                hf32 = tuple(fields["hf32"])
            elif "operators" in fields:
                operators[fields["module"]] = tuple((name, kind) for name, kind in fields["operators"])
            elif "draw" in fields:
                events.append(_draw(fields, stacks))
            else:
                events.append(_event(fields, stacks, sketches))
    return Recording(torch, tuple(events), tuple(seconds), hf32, rank, world, operators)


def _draw(fields: dict[str, Any], stacks: dict[int, Stack]) -> Event:
    name = f"{fields['draw']}{tuple(fields['shape'])} from seed {fields['seed']}"
    return Event(fields["step"], "draw", name, fields["number"], stack=stacks[fields["site"]])


def _event(fields: dict[str, Any], stacks: dict[int, Stack], sketches: np.ndarray) -> Event:
    place = Event(fields["step"], fields["event"], fields["name"], fields["call"])
    if "row" not in fields:
        return replace(place, value=fields["value"])
    tensor = Tensor(
        shape=tuple(fields["shape"]),
        dtype=fields["dtype"],
        norm=fields["norm"],
        mean=fields["mean"],
        largest=fields["largest"],
        unfinite=fields["unfinite"],
        first=tuple(fields["first"]),
        sketch=sketches[fields["row"]],
    )
    return replace(place, part=fields["part"], tensor=tensor, stack=stacks[fields["site"]])
