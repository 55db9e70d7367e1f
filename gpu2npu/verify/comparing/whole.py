"""The elements in which the tensors near the first divergence differ: from the whole tensors of a second run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gpu2npu.verify.comparing.compare import Comparison, Element
from gpu2npu.verify.recording.format import CARD, WHOLE
from gpu2npu.verify.recording.records import Key, RecordedEvent, read_recordings

Arrays: TypeAlias = Mapping[int, np.ndarray[Any, Any]]  # whole tensors, by the number of their place
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


def differing(events: tuple[RecordedEvent, ...], original: Arrays, migrated: Arrays) -> tuple[Element, ...]:
    """Compare the whole tensors of two programs near some events, which number them."""
    both = (number for number in range(len(events)) if number in original and number in migrated)
    found = (_largest(events[number], original[number], migrated[number]) for number in both)
    return tuple(element for element in found if element is not None)


def whole_of(folder: Path, rank: int) -> Arrays:
    """The whole tensors in the recording of a rank; of a program of one process, that one's."""
    recordings = read_recordings(folder)
    one = next((each for each in recordings if each.rank == rank), recordings[0])
    files = ((one.folder or folder) / WHOLE).glob("*.npy")
    return {int(file.stem): np.load(file, allow_pickle=False) for file in files}


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
