"""Lists with tensors for each sample, such as the boxes of each picture, which code beside DataParallel is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from gpu2npu.verify.recording.format import CARD
from gpu2npu.verify.recording.records import Key, RecordedEvent

_Events: TypeAlias = Sequence[RecordedEvent]
_Call: TypeAlias = tuple[int, str, str, int]  # the step, "input" or "output", the module, and its call in the step


def dealt_parts(original: _Events, ranks: Sequence[_Events]) -> dict[Key, tuple[int, int]]:
    """Find the tensors of calls with such a list: the rank that each belongs to, -1 for all, and its part of the call.

    One process has a list for the whole batch, and each rank one for its share: samples are dealt out to ranks in turn.
    """
    found: dict[Key, tuple[int, int]] = {}
    if len(ranks) > 1:
        here = [_calls(rank) for rank in ranks]
        for call, parts in _calls(original).items():
            shares = [each.get(call, []) for each in here]
            if len({len(share) for share in shares}) == 1 and len(parts) > len(shares[0]):
                found |= _dealt(parts, shares)
    return found


def _calls(events: _Events) -> dict[_Call, list[RecordedEvent]]:
    """The parts of each call of a module that DataParallel does not copy."""
    found: dict[_Call, list[RecordedEvent]] = {}
    for event in events:
        if event.kind in ("input", "output") and CARD not in event.name:
            found.setdefault((event.step, event.kind, event.name, event.call), []).append(event)
    return found


def _dealt(parts: _Events, shares: Sequence[_Events]) -> dict[Key, tuple[int, int]]:
    """The ranks and parts in a call with one list; empty where shapes do not show where it is."""
    ranks, own = len(shares), len(shares[0])
    others, rest = divmod(ranks * own - len(parts), ranks - 1)
    if rest or others < 0:
        return {}
    size = len(parts) - others
    for fields in (number for number in range(1, own - others + 1) if not (own - others) % number):  # of one sample
        places = [_place(number, fields, ranks) for number in range(size)]
        for start in range(others + 1):
            listed = [(rank, start + part) for rank, part in places]
            pairs = zip(parts[start : start + size], listed, strict=True)
            if all(_is_alike(one, shares[rank][part]) for one, (rank, part) in pairs):
                whole = [(-1, part) for part in range(own)]
                found = [*whole[:start], *listed, *whole[start + own - others :]]
                return {one.key: place for one, place in zip(parts, found, strict=True)}
    return {}


def _place(number: int, fields: int, ranks: int) -> tuple[int, int]:
    """The rank that has a tensor of the list, and its place in the rank's list."""
    sample, field = divmod(number, fields)
    return sample % ranks, sample // ranks * fields + field


def _is_alike(one: RecordedEvent, other: RecordedEvent) -> bool:
    assert one.tensor is not None and other.tensor is not None
    return one.tensor.shape == other.tensor.shape
