"""Compares the recording of the migrated program with that of the original, event by event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gpu2npu import language
from gpu2npu.verify.comparing.tolerance import Tolerance, change_of_norm, relative_distance
from gpu2npu.verify.comparing.updates import grown, lengthened, updates
from gpu2npu.verify.recording.records import Key, RecordedEvent, Recording

_WITHIN = ("option", "state")  # of an optimizer, which one that does the same may lack


@dataclass(frozen=True)
class Difference:
    """One place where the two programs differ by more than rounding explains, or one does what the other does not.

    `error` and `tolerance` are shares of the original tensor's norm. `original` or `migrated` is None where only the
    other has the event.
    """

    original: RecordedEvent | None
    migrated: RecordedEvent | None
    message: str
    error: float = float("inf")
    tolerance: float = 0.0

    @property
    def event(self) -> RecordedEvent:
        """The original's event, or the migrated program's where it alone has one."""
        found = self.original or self.migrated
        assert found is not None
        return found


@dataclass(frozen=True)
class Measured:
    """The distance of one event in both programs."""

    original: RecordedEvent
    migrated: RecordedEvent
    error: float
    tolerance: float

    @property
    def units(self) -> float:
        """The error in units of the tolerance."""
        return self.error / self.tolerance if self.tolerance else (float("inf") if self.error else 0.0)


@dataclass(frozen=True)
class Element:
    """The element in which a tensor of both programs differs most, at `place`.

    `similar` of the tensor's `size` elements differ by a tenth as much or more.
    """

    event: RecordedEvent
    place: tuple[int, ...]
    original: float
    migrated: float
    similar: int
    size: int

    @property
    def sentence(self) -> str:
        """The element in words."""
        place = ", ".join(map(str, self.place))
        return (
            f"{self.original:.6g} became {self.migrated:.6g} at [{place}], "
            f"{self.similar} of {self.size} elements differ by a tenth of that or more"
        )


def became(before: object, after: object) -> str:
    """A change of a value, in words."""
    return language.message(f"{before} became {after}")


@dataclass(frozen=True)
class Comparison:
    """All that two recordings have in common and all in which they differ, in program order.

    `coarse` are the families of operators for which the tolerance includes HF32, `ranks` what was compared of every
    rank where there are several, `elements` those that differ most in the tensors near the first divergence,
    `optimizers` the names of those that have another class in the migrated program, by the original's.
    """

    original: Recording
    migrated: Recording
    measured: tuple[Measured, ...]
    differences: tuple[Difference, ...]
    coarse: tuple[str, ...] = ()
    ranks: tuple[tuple[Recording, Recording], ...] = ()
    elements: tuple[Element, ...] = ()
    optimizers: Mapping[str, str] = field(default_factory=dict)

    @property
    def first(self) -> Difference | None:
        """The first divergence in program order."""
        return self.differences[0] if self.differences else None

    @property
    def steps(self) -> int:
        """The number of steps that were compared."""
        return min(len(self.original.seconds), len(self.migrated.seconds))

    @property
    def compile_switched_off(self) -> bool:
        """Return whether a program calls torch.compile, without which both were run."""
        return self.original.compiles or self.migrated.compiles

    @property
    def loss_tolerances(self) -> dict[int, float]:
        """The share of the loss that rounding explains, by step."""
        found: dict[int, float] = {}
        for each in self.measured:
            if each.original.kind == "loss":
                found[each.original.step] = max(each.tolerance, found.get(each.original.step, 0.0))
        return found


def compare(original: Recording, migrated: Recording, tolerance: Tolerance) -> Comparison:
    """Compare every event of the steps that both recordings have."""
    measured: list[Measured] = []
    differences: list[Difference] = []
    optimizers = _optimizers(original, migrated)
    events = (event for event in migrated.events if not (event.kind in _WITHIN and _optimizer(event) in optimizers))
    migrated = replace(migrated, events=tuple(_renamed(event, optimizers) for event in events))
    updated = _updated_otherwise(original, migrated, tolerance)
    for one, other in _aligned(original, migrated):
        if one is None or other is None:
            unmatched = one or other
            if not (_is_zero_gradient(unmatched) or (unmatched is not None and unmatched.kind in _WITHIN)):
                differences.append(_unmatched(one, other))
            continue
        difference, found = _judged(one, other, tolerance)
        if difference is not None:
            differences.append(difference)
        if found is not None:
            measured.append(found)
        if one.key in updated and not any(_is_parameter(each.event, one.step) for each in differences):
            differences.append(updated[one.key])
    if len(original.seconds) != len(migrated.seconds):
        differences.append(_other_length(original, migrated))
    classes = {there: here for here, there in optimizers.items()}
    return Comparison(original, migrated, tuple(measured), tuple(differences), tolerance.coarse, optimizers=classes)


def _optimizers(original: Recording, migrated: Recording) -> dict[str, str]:
    """The original's names of the optimizers that have another class in the migrated program, in the order of their
    first steps: `FusedAdam#0` for `NpuFusedAdamW#0`."""
    there, here = (
        dict.fromkeys(_optimizer(event) for event in each.events if event.kind == "rate")
        for each in (original, migrated)
    )
    return {name: one for one, name in zip(there, here, strict=False) if one != name}


def _optimizer(event: RecordedEvent) -> str:
    return event.name.partition(".")[0]


def _renamed(event: RecordedEvent, optimizers: Mapping[str, str]) -> RecordedEvent:
    name, dot, rest = event.name.partition(".")
    return replace(event, name=f"{optimizers[name]}{dot}{rest}") if name in optimizers else event


def _is_parameter(event: RecordedEvent, step: int) -> bool:
    return event.kind == "parameter" and event.step == step


def _updated_otherwise(original: Recording, migrated: Recording, tolerance: Tolerance) -> dict[Key, Difference]:
    """The steps whose updates are others: by the key of the step's last parameter.

    The difference is of the parameter whose update differs most.
    """
    there, here = updates(original), updates(migrated)
    found: dict[Key, Difference] = {}
    for step in sorted(there.keys() & here.keys()):
        pairs = [(one, here[step][name]) for name, one in there[step].items() if name in here[step]]
        other = [one for one, update in pairs if one.apart(update) > tolerance.of_update(one)]
        longer, allowed = lengthened(there[step], here[step]), tolerance.of_length(step)
        radii, radius = grown(there[step], here[step]), tolerance.of_radius(step, there[step])
        if abs(longer) > allowed:
            message = f"the step's updates are {1 + longer:.3g} times as long, where rounding explains {allowed:.1e}"
        elif len(other) > len(pairs) / 2:
            message = f"{len(other)} of the step's {len(pairs)} updates differ by more than rounding explains"
        elif abs(farther := sum(radii.values())) > radius:
            message = f"the norm of all parameters is {farther:+.2g} of it longer, where rounding explains {radius:.1e}"
        else:
            continue
        one, update = max(pairs, key=lambda pair: float(np.linalg.norm(pair[0].sketch - pair[1].sketch)))
        last = pairs[-1][0].event
        found[last.key] = Difference(one.event, update.event, message, one.apart(update), tolerance.of_update(one))
    return found


def _other_length(original: Recording, migrated: Recording) -> Difference:
    longer = original if len(original.seconds) > len(migrated.seconds) else migrated
    steps = min(len(original.seconds), len(migrated.seconds))
    beyond = next((event for event in longer.events if event.step >= steps), longer.events[-1])
    message = f"the original makes {len(original.seconds)} steps and the migrated program {len(migrated.seconds)}"
    if longer is original:
        return Difference(beyond, None, message)
    return Difference(None, beyond, message)


def _aligned(original: Recording, migrated: Recording) -> Iterator[tuple[RecordedEvent | None, RecordedEvent | None]]:
    """The events of both in the original's order; what the migrated program alone has, after what it comes after."""
    steps = min(len(original.seconds), len(migrated.seconds))
    there = {event.key: event for event in original.events if event.step < steps}
    here = {event.key: event for event in migrated.events if event.step < steps}
    unmatched: dict[object, list[RecordedEvent]] = {}
    previous: object = None
    for event in here.values():
        if event.key in there:
            previous = event.key
        else:
            unmatched.setdefault(previous, []).append(event)
    yield from ((None, event) for event in unmatched.get(None, ()))
    for key, event in there.items():
        yield event, here.get(key)
        yield from ((None, extra) for extra in unmatched.get(key, ()))


def _is_zero_gradient(event: RecordedEvent | None) -> bool:
    """Return whether nothing flows back to a module's output, which autograd may also say without a tensor."""
    if event is None or event.kind != "gradient" or event.tensor is None:
        return False
    return event.tensor.largest == 0 and event.tensor.unfinite == 0


def _unmatched(one: RecordedEvent | None, other: RecordedEvent | None) -> Difference:
    event = one or other
    assert event is not None
    side = "the original" if one is not None else "the migrated program"
    if event.kind == "draw":
        message = f"only {side} draws {event.name}, for the {event.call + 1}. time"
    elif event.kind in ("input", "output"):
        message = f"only {side} calls {event.name}, call {event.call + 1} of step {event.step + 1}"
    else:
        message = f"only {side} has the {event.kind} {event.name}"
    return Difference(one, other, message)


def _judged(
    one: RecordedEvent, other: RecordedEvent, tolerance: Tolerance
) -> tuple[Difference | None, Measured | None]:
    if one.tensor is not None and other.tensor is not None:
        if one.tensor.shape != other.tensor.shape:
            message = f"the original's shape is {one.tensor.shape} and the migrated program's {other.tensor.shape}"
            return Difference(one, other, message), None
        if one.tensor.dtype != other.tensor.dtype:
            message = f"the original's dtype is {one.tensor.dtype} and the migrated program's {other.tensor.dtype}"
            return Difference(one, other, message), None
    error, allowed = relative_distance(one, other), tolerance.of(one)
    change, tolerated = change_of_norm(one, other), tolerance.of_norm(one)
    if error <= allowed and change > tolerated:
        message = f"the norm changes by {change:.1e} of it, where rounding explains {tolerated:.1e}"
        return Difference(one, other, message, change, tolerated), Measured(one, other, change, tolerated)
    if error <= allowed:
        return None, Measured(one, other, error, allowed)
    message = f"error {error:.1e} of the norm, where rounding explains {allowed:.1e}"
    if one.value is not None and other.value is not None:
        message = became(f"{one.value:.6g}", f"{other.value:.6g}")
    return Difference(one, other, message, error, allowed), Measured(one, other, error, allowed)
