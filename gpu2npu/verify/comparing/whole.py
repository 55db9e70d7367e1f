"""The elements in which the tensors near the first divergence differ: from the whole tensors of a second run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from gpu2npu.verify.comparing.compare import Comparison, Element
from gpu2npu.verify.recording.format import WHOLE
from gpu2npu.verify.recording.names import CARD
from gpu2npu.verify.recording.records import Key, RecordedEvent, read_recordings

_TENSORS = 8  # before the first divergence, and as many after it
_NEARLY = 0.1  # of the largest difference


def events_near(comparison: Comparison) -> tuple[RecordedEvent, ...]:
    """The events with a tensor before and after the first divergence, and its own, in program order."""
    first = comparison.first
    if first is None:
        return ()
    events = (comparison.original if first.original is not None else comparison.migrated).events
    at = next(number for number, event in enumerate(events) if event.key == first.event.key)
    before = [event for event in events[:at] if event.tensor is not None][-_TENSORS:]
    return (*before, *[event for event in events[at:] if event.tensor is not None][: _TENSORS + 1])


def listed(events: tuple[RecordedEvent, ...], card: int | None) -> list[tuple[int, Key]]:
    """The numbered places of a run's whole tensors; with the names that DataParallel's copy on a card has, if given."""
    places = [(number, event.key) for number, event in enumerate(events)]
    if card is None:
        return places
    return [
        *places,
        *((number, replace(event, name=_on_card(event.name, card)).key) for number, event in enumerate(events)),
    ]


def _on_card(name: str, card: int) -> str:
    root, dot, path = name.partition(".")
    return f"{root}{CARD}{card}{dot}{path}"


def differing(
    comparison: Comparison, events: tuple[RecordedEvent, ...], original: Path, migrated: Path
) -> tuple[Element, ...]:
    """Compare the whole tensors that two recordings hold, of the ranks of a comparison."""
    there = _of_rank(original, comparison.original.rank)
    here = _of_rank(migrated, comparison.migrated.rank)
    found = []
    for number, event in enumerate(events):
        one, other = (folder / f"{number}.npy" for folder in (there, here))
        if one.is_file() and other.is_file():
            element = _largest(event, np.load(one, allow_pickle=False), np.load(other, allow_pickle=False))
            found += [element] if element is not None else []
    return tuple(found)


def _of_rank(folder: Path, rank: int) -> Path:
    """The folder with the whole tensors of a rank; of a program of one process, that one's."""
    recordings = read_recordings(folder)
    one = next((each for each in recordings if each.rank == rank), recordings[0])
    return (one.folder or folder) / WHOLE


def _largest(event: RecordedEvent, one: np.ndarray, other: np.ndarray) -> Element | None:
    """The element that differs most; None where none does, or shapes are not the same."""
    if one.shape != other.shape or not one.size or np.iscomplexobj(one):
        return None
    there, here = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.where((there == here) | (np.isnan(there) & np.isnan(here)), 0.0, np.abs(there - here))
    difference = np.where(np.isnan(difference), np.inf, difference)
    largest = difference.max()
    if not largest:
        return None
    place = np.unravel_index(int(difference.argmax()), difference.shape)
    similar = int(np.count_nonzero(difference >= _NEARLY * largest))
    return Element(event, tuple(map(int, place)), float(there[place]), float(here[place]), similar, one.size)
