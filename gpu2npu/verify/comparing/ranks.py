"""Compares programs of several processes: rank with rank, or one process of the original with several ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpu2npu.verify.comparing.compare import Comparison, compare
from gpu2npu.verify.comparing.rank_causes import batch_after
from gpu2npu.verify.comparing.shares import Expected, expected, has_copies
from gpu2npu.verify.comparing.tolerance import Tolerance
from gpu2npu.verify.recording.records import Recording, RecordingError

Reference = Sequence[tuple[Recording, Tolerance]]


def compare_ranks(original: Reference, migrated: Sequence[Recording], shared: bool = False) -> tuple[Comparison, ...]:
    """Compare every rank of the migrated program with what the original has for it.

    `shared`: a batch of one process of the original is shared among the ranks, of which there may be one.

    Raises:
        RecordingError: The original ran on several ranks, and the migrated program on another number of them.
    """
    if len(original) == 1 and (shared or len(migrated) > 1 or has_copies(original[0][0])):
        pairs = list(expected(*original[0], migrated))
    elif len(original) == len(migrated):
        pairs = [Expected(one, tolerance, other) for (one, tolerance), other in zip(original, migrated, strict=True)]
    else:
        raise RecordingError(
            f"the original ran on {len(original)} ranks and the migrated program on {len(migrated)}: the numbers must "
            "be equal, or the original be one process"
        )
    if not _share_cards(migrated):
        pairs = [
            Expected(_without_cards(pair.original), pair.tolerance, _without_cards(pair.migrated)) for pair in pairs
        ]
    comparisons = [compare(pair.original, pair.migrated, pair.tolerance) for pair in pairs]
    ranks = tuple((pair.original, pair.migrated) for pair in pairs) if shared or len(pairs) > 1 else ()
    return tuple(replace(comparison, ranks=ranks) for comparison in comparisons)


def earliest(comparisons: Sequence[Comparison]) -> Comparison:
    """The comparison of the rank that diverges first in the program's order, or of the first rank where none does."""
    return min(comparisons, key=_place)


def _place(comparison: Comparison) -> tuple[float, bool, float]:
    """The step, and the place in it; of ranks that draw otherwise, one comes first whose batch is the reason."""
    first = comparison.first
    if first is None:
        return float("inf"), False, 0.0
    is_unexplained = first.event.kind == "draw" and batch_after(comparison, first) is None
    side = comparison.original if first.original is not None else comparison.migrated
    place = next(number for number, event in enumerate(side.events) if event.key == first.event.key)
    return first.event.step, is_unexplained, place / len(side.events)


def _share_cards(migrated: Sequence[Recording]) -> bool:
    """Return whether ranks are on one card; their numbers alone say nothing, as a rank may see its own card only."""
    cards = [next((event.value for event in rank.events if event.kind == "device"), None) for rank in migrated]
    known = [card for card in cards if card is not None]
    return len(set(known)) < len(known)


def _without_cards(recording: Recording) -> Recording:
    return replace(recording, events=tuple(event for event in recording.events if event.kind != "device"))
