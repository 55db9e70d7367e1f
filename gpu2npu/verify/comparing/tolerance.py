"""The distance that two correct runs of a program may have at each place, and the reason for it.

Two things add up to a tolerance. What one operator may do: a few units of the dtype's last place. And what the program
makes of it: the original is run again with every operator rounding otherwise (`reference/rounding.py`), several times,
and how far the farthest of these runs lies from the first at a place, times FACTOR, is what rounding explains there. It
grows with accumulation, with HF32 and with steps as much as the program lets it grow, and no more.

The norm of a gradient has a tolerance of its own. Where rounding makes another choice, of a maximum or of
the sign before a ReLU, a few elements of a small tensor lie far off, but hardly in its own direction: the norm stays,
and a gradient that is scaled is found where its distance alone would pass for such choices. So have the updates of an
optimizer step (`updates.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from gpu2npu.verify.comparing.updates import Update, Updates, grown, lengthened, updates
from gpu2npu.verify.recording.format import STATE_OF
from gpu2npu.verify.recording.records import Key, RecordedEvent, Recording, Tensor

Pair = tuple[RecordedEvent, RecordedEvent]  # of one place, in two runs

FACTOR = 8.0
_LAST_PLACES = 8.0  # units in the last place that one operator may be off
# Sources: IEEE 754 for float32, float64 and float16; bfloat16 has 8 bits of mantissa, float8 3 and 2.
EPS = {
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}
_USUAL = 0.9  # of the places of one kind
_GRADIENTS = "gradient", "parameter gradient"
_WEIGHTS = "parameter", "weight"
_ANY_PARAMETER = "any parameter"
_HUNDREDTH = 0.01  # smaller changes of a norm are left to the distance
_NEXT = 2  # gradients after a place, on their way back through the program


@dataclass(frozen=True)
class Tolerance:
    """The error that rounding explains, by place, relative to the norm of the tensor there; with HF32 in `coarse`.

    `norms` is that of the norm itself. `updates` is how far apart rounding brings what a step adds to a parameter, and
    `lengths` by how much it lengthens all updates of a step. `radii` is by how much it lengthens all parameters.
    """

    relative: dict[Key, float]
    coarse: tuple[str, ...] = ()
    norms: dict[Key, float] = field(default_factory=dict)
    updates: dict[Key, float] = field(default_factory=dict)
    lengths: dict[int, float] = field(default_factory=dict)
    radii: dict[int, float] = field(default_factory=dict)

    def of(self, event: RecordedEvent) -> float:
        """The largest distance, as a share of the tensor's norm, that is not a divergence."""
        eps = EPS.get(event.tensor.dtype, 0.0) if event.tensor is not None else EPS["float32"]
        return max(FACTOR * self.relative.get(event.key, 0.0), _LAST_PLACES * eps)

    def of_norm(self, event: RecordedEvent) -> float:
        """The largest change of the tensor's norm, as a share of it, that is not a divergence.

        It is never less than what the tolerated distance does to the norm where it is at a right angle to the tensor.
        """
        if event.key not in self.norms:
            return float("inf")
        allowed = self.of(event)
        return max(FACTOR * self.norms[event.key], math.hypot(1.0, allowed) - 1.0, min(allowed, _HUNDREDTH))

    def of_update(self, update: Update) -> float:
        """The largest distance of an update that rounding explains, as a share of its norm."""
        assert update.event.tensor is not None
        places = _LAST_PLACES * EPS.get(update.event.tensor.dtype, 0.0)
        least = places * update.weight / update.norm if update.norm else math.inf
        return max(FACTOR * self.updates.get(update.event.key, math.inf), least)

    def of_length(self, step: int) -> float:
        """The most by which all updates of a step may be longer or shorter, as a share of their norm."""
        return max(FACTOR * self.lengths.get(step, math.inf), _HUNDREDTH)

    def of_radius(self, step: int, of: Updates) -> float:
        """The most by which all parameters of a step may be longer or shorter, as a share of their norm."""
        dtypes = {update.event.tensor.dtype for update in of.values() if update.event.tensor is not None}
        least = max((EPS.get(dtype, math.inf) for dtype in dtypes), default=0.0)
        return max(FACTOR * self.radii.get(step, math.inf), least)


def distance(one: Tensor, other: Tensor) -> float:
    """The distance of two tensors of one shape, estimated from their sketches."""
    return float(np.linalg.norm(one.sketch - other.sketch))


def relative_distance(one: RecordedEvent, other: RecordedEvent) -> float:
    """The distance of two events, as a share of the first one's norm; infinite where only one is not finite.

    What is not finite counts on the way forward, where masks are: which elements of a gradient overflow is a matter of
    rounding.
    """
    if one.tensor is None or other.tensor is None:
        if one.value is None or other.value is None:
            return 0.0
        return abs(one.value - other.value) / (abs(one.value) or 1.0)
    if (one.tensor.unfinite > 0) != (other.tensor.unfinite > 0):
        return float("inf")
    apart = distance(one.tensor, other.tensor)
    share = apart / one.tensor.norm if one.tensor.norm else apart
    return max(share, _unfinite_share(one.tensor, other.tensor)) if one.kind in ("input", "output") else share


def change_of_norm(one: RecordedEvent, other: RecordedEvent) -> float:
    """The difference of two events' norms, as a share of the first one's."""
    if one.tensor is None or other.tensor is None or not one.tensor.norm:
        return 0.0
    return abs(other.tensor.norm / one.tensor.norm - 1.0)


def _unfinite_share(one: Tensor, other: Tensor) -> float:
    """The share in which the number of elements that are not finite differs, or which of the first ones are what.

    Of the others, a recording knows no places and no signs.
    """
    most = max(one.unfinite, other.unfinite)
    if not most:
        return 0.0
    first = sum(str(a) != str(b) for a, b in zip(one.first, other.first, strict=False) if not np.isfinite(a + b))
    return max(abs(one.unfinite - other.unfinite) / most, first / (len(one.first) or 1))


def measured(reference: Recording, rounded: Iterable[Recording], coarse: tuple[str, ...] = ()) -> Tolerance:
    """The tolerance that runs of the same program that round otherwise show, with HF32 in the families `coarse`.

    A few runs may all be right by chance where another is not, so a place is also allowed what is usual around it: what
    nine of ten places of its kind do not exceed in that step, and, for parameters, the most that rounding moved any of
    them: Adam moves an element whose gradient is rounding by the whole learning rate, one way or the other. Of the
    gradients of modules' outputs, only those before a place and the next two count: rounding adds up on their way back.
    And a place never tolerates less than at an earlier step: an error that one step makes stays in the weights.

    A gradient that is nothing but rounding, as that of a bias before a batch norm, whose true value is 0, says nothing
    of the others: neither it nor its parameter counts in what is usual for those, and what an optimizer keeps of it is
    not compared. A number, such as a rate that follows losses, has its own distance.
    """
    rounded = list(rounded)
    runs = [list(_pairs(reference, recording)) for recording in rounded]
    noise = _noise(runs)
    relative: dict[Key, float] = {}
    for pairs in runs:
        for key, share in _shown_by(pairs, noise).items():
            relative[key] = max(share, relative.get(key, 0.0))
    relative |= _numbers(reference, rounded)
    return Tolerance(relative, coarse, _norms(runs, noise), *_updates(reference, rounded))


def _numbers(reference: Recording, rounded: Iterable[Recording]) -> dict[Key, float]:
    """Return how far apart the runs bring each number that they bring apart: the most."""
    there = {event.key: event for event in reference.events if event.value is not None}
    found: dict[Key, float] = {}
    for event in itertools.chain.from_iterable(recording.events for recording in rounded):
        share = relative_distance(there[event.key], event) if event.key in there else 0.0
        if share:
            found[event.key] = max(share, found.get(event.key, 0.0))
    return found


def _updates(
    reference: Recording, rounded: Iterable[Recording]
) -> tuple[dict[Key, float], dict[int, float], dict[int, float]]:
    """Return how far apart the runs bring each update, and by how much longer those of a step and the parameters.

    Each is the most until then. A sum of few that are off by chance may be 0 by chance: their squares are added, too.
    """
    there, others = updates(reference), [updates(recording) for recording in rounded]
    found: dict[Key, float] = {}
    lengths: dict[int, float] = {}
    radii: dict[int, float] = {}
    earlier: dict[str, float] = {}
    longest = farthest = 0.0
    for step in sorted(there):
        for other in (each[step] for each in others if step in each):
            longest = lengths[step] = max(longest, abs(lengthened(there[step], other)))
            shares = grown(there[step], other).values()
            farthest = radii[step] = max(farthest, abs(sum(shares)), math.hypot(*shares))
            for name in there[step].keys() & other.keys():
                update = there[step][name]
                share = update.apart(other[name])
                if math.isfinite(share):
                    earlier[name] = max(share, earlier.get(name, 0.0))
                found[update.event.key] = earlier.get(name, math.inf)
    return found, lengths, radii


def _norms(runs: list[list[Pair]], noise: Mapping[str, int]) -> dict[Key, float]:
    """Return the change of each gradient's norm that the runs show: of its own, and what is usual in its step."""
    found: dict[Key, float] = {}
    earlier: dict[tuple[str, str, int, int], float] = {}
    changes: dict[tuple[int, str], list[float]] = {}
    for event, other in itertools.chain.from_iterable(runs):
        if event.kind in _GRADIENTS:
            change = change_of_norm(event, other)
            if event.kind == "gradient" or not _is_noise(event, noise):
                changes.setdefault((event.step, event.kind), []).append(change)
            found[event.key] = max(change, found.get(event.key, 0.0))
    usual = {place: _usual_of(shares) for place, shares in changes.items()}
    for key in sorted(found):
        place = key[1:]
        earlier[place] = found[key] = max(found[key], usual.get(key[:2], 0.0), earlier.get(place, 0.0))
    return found


def _noise(runs: list[list[Pair]]) -> dict[str, int]:
    """Return the parameters whose gradients are nothing but rounding, each with the first step where they are.

    Every run moves such a gradient by so much that its tolerance is its norm or more.
    """
    moved: dict[Key, float] = {}
    for event, other in itertools.chain.from_iterable(runs):
        if event.kind == "parameter gradient":
            moved[event.key] = min(relative_distance(event, other), moved.get(event.key, float("inf")))
    found: dict[str, int] = {}
    for (step, _, name, _, _), share in moved.items():
        if 1 <= share * FACTOR < math.inf:
            found[name] = min(step, found.get(name, step))
    return found


def _shown_by(pairs: list[Pair], noise: Mapping[str, int]) -> dict[Key, float]:
    """Return the distance at each place that one run shows; `noise` is as `_noise` returns it."""
    usual, on_the_way = _usual(pairs, noise), _on_the_way(pairs)
    relative: dict[Key, float] = {}
    earlier: dict[tuple[str, str, int, int], float] = {}
    for event, other in pairs:
        assert event.tensor is not None and other.tensor is not None
        place = event.key[1:]
        share = max(relative_distance(event, other), earlier.get(place, 0.0))
        usual_distance = usual.get((event.step, _group(event, noise)), 0.0)
        if event.kind == "gradient":
            usual_distance = on_the_way[event.key]
        if event.kind in (*_WEIGHTS, "checkpoint"):
            usual_distance /= event.tensor.norm or 1.0
        if math.isfinite(share):
            earlier[place] = share
        if event.kind == "state" and _is_noise(event, noise):
            share = math.inf
        relative[event.key] = max(share, usual_distance)
    return relative


def _pairs(reference: Recording, rounded: Recording) -> Iterator[Pair]:
    others = {event.key: event for event in rounded.events}
    for event in reference.events:
        other = others.get(event.key)
        if other is None or event.tensor is None or other.tensor is None or event.tensor.dtype not in EPS:
            continue
        if other.tensor.shape == event.tensor.shape:
            yield event, other


def _group(event: RecordedEvent, noise: Mapping[str, int]) -> str:
    """Return the kind of events whose errors are like this event's: a loss's are like those of what modules return.

    A parameter that any noise has entered is like any, and so are checkpoints, which hold all of them.
    """
    if event.kind == "checkpoint" or (event.kind == "parameter" and _is_noise(event, noise)):
        return _ANY_PARAMETER
    if event.kind == "state":
        return event.name.partition(STATE_OF)[0]
    return "output" if event.kind in ("input", "loss", "buffer") else event.kind


def _is_noise(event: RecordedEvent, noise: Mapping[str, int]) -> bool:
    """Return whether the gradient of an event's parameter is nothing but rounding, at its step or before."""
    name = event.name.rpartition(STATE_OF)[2]
    return name in noise and noise[name] <= event.step


def _on_the_way(pairs: list[Pair]) -> dict[Key, float]:
    """Return the usual distance of gradients of modules' outputs, at each place: of those until shortly after it."""
    steps: dict[int, list[tuple[Key, float]]] = {}
    for event, other in pairs:
        if event.kind == "gradient":
            steps.setdefault(event.step, []).append((event.key, relative_distance(event, other)))
    found: dict[Key, float] = {}
    for places in steps.values():
        for number, (key, _) in enumerate(places):
            found[key] = _usual_of(share for _, share in places[: number + 1 + _NEXT])
    return found


def _usual(pairs: list[Pair], noise: Mapping[str, int]) -> dict[tuple[int, str], float]:
    """Return the usual distance in each step, by kind: a share of the norm; for weights, a distance."""
    found: dict[tuple[int, str], list[float]] = {}
    for event, other in pairs:
        share = relative_distance(event, other)
        if event.kind in _WEIGHTS and event.tensor is not None:
            share *= event.tensor.norm or 1.0
        if event.kind == "parameter":
            found.setdefault((event.step, _ANY_PARAMETER), []).append(share)
        counts = event.kind == "output" or not _is_noise(event, noise)
        if counts and event.kind in ("output", "parameter gradient", "state", *_WEIGHTS):
            found.setdefault((event.step, _group(event, noise)), []).append(share)
    return {
        place: _usual_of(shares, 1.0 if place[1] in (*_WEIGHTS, _ANY_PARAMETER) else _USUAL)
        for place, shares in found.items()
    }


def _usual_of(shares: Iterable[float], part: float = _USUAL) -> float:
    """Return the share that a part of some do not exceed; of what overflows in one run only, nothing is usual."""
    finite = [share for share in shares if math.isfinite(share)]
    return float(np.quantile(finite, part)) if finite else 0.0
