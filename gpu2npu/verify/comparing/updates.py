"""The updates that an optimizer step makes to its parameters, from the recorded sketches of these.

A parameter hides what an optimizer does to it: Adam and RMSprop move an element whose gradient is rounding by as much
as any other, so rounding explains another parameter, but not that all updates are longer, nor that most differ by more
than rounding moves them. Sketches are linear: the update of a parameter has the difference of two of its sketches.

Nor does rounding draw parameters towards 0: it has no direction, so of a thousand elements that it moves their norm
shows a thirtieth, where a weight decay that one program leaves out is in their norm as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpu2npu.verify.recording.records import RecordedEvent, Recording, Vector

Updates = Mapping[str, "Update"]  # of one step, by the parameter's name


@dataclass(frozen=True)
class Update:
    """The update that an optimizer step added to the parameter of an event; `weight` is the norm of the parameter."""

    event: RecordedEvent
    weight: float
    sketch: Vector = field(repr=False)

    @property
    def norm(self) -> float:
        """The norm, as the sketch has it."""
        return float(np.linalg.norm(self.sketch))

    def apart(self, other: Update) -> float:
        """The distance of the other program's update, as a share of this one's norm; infinite where that is 0."""
        distance = float(np.linalg.norm(self.sketch - other.sketch))
        return distance / self.norm if self.norm else (float("inf") if distance else 0.0)


def updates(recording: Recording) -> dict[int, dict[str, Update]]:
    """The updates of each step, by the parameter's name; none of a parameter that was not recorded before."""
    before: dict[str, Vector] = {}
    found: dict[int, dict[str, Update]] = {}
    for event in recording.events:
        if event.kind not in ("parameter", "initial weight") or event.tensor is None:
            continue
        if event.kind == "parameter" and event.name in before:
            change = event.tensor.sketch - before[event.name]
            found.setdefault(event.step, {})[event.name] = Update(event, event.tensor.norm, change)
        before[event.name] = event.tensor.sketch
    return found


def lengthened(one: Updates, other: Updates) -> float:
    """By how much all updates of a step together are longer in the other program; less than 0 where shorter."""
    names = one.keys() & other.keys()
    there = float(np.linalg.norm([one[name].norm for name in names]))
    return float(np.linalg.norm([other[name].norm for name in names])) / there - 1.0 if there else 0.0


def grown(one: Updates, other: Updates) -> dict[str, float]:
    """By how much each parameter of a step is longer in the other program, as a share of the norm of all of them."""
    names = one.keys() & other.keys()
    squares = sum(one[name].weight ** 2 for name in names)
    return {name: (other[name].weight ** 2 - one[name].weight ** 2) / (2 * squares or 1.0) for name in sorted(names)}
