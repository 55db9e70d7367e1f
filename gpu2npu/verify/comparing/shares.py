"""One process of the original against several ranks: what each rank is expected to do of what the original does.

A batch is shared among the ranks. A copy of DataParallel's, on card 1, is compared with rank 1. Where the original
handles a whole batch and a rank its share, the ranks' shares are put together: numbers such as losses are averaged, and
of batches of samples the norm and the mean are compared, as the order of samples in them differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpu2npu.verify.comparing.samples import dealt_parts
from gpu2npu.verify.comparing.tolerance import Tolerance
from gpu2npu.verify.recording.format import BUCKETS, CARD
from gpu2npu.verify.recording.records import Key, RecordedEvent, Recording, Tensor

_OF_BATCHES = ("input", "output", "gradient", "loss")
_ORDER = 1e-9  # share of a norm that is added up in another order, in float64
_ALIKE = 1e-3  # share of the norm
_OF_SHUFFLES = "permutation"  # draws of samplers, whose order shows in what modules are given


@dataclass(frozen=True)
class Expected:
    """The part of the original that one rank is compared with, and the rank's own."""

    original: Recording
    tolerance: Tolerance
    migrated: Recording


def has_copies(original: Recording) -> bool:
    """Return whether DataParallel copied a model to several cards, which a rank on one card does without."""
    return any(_card(event.name)[1] > 0 for event in original.events)


def expected(original: Recording, tolerance: Tolerance, ranks: Sequence[Recording]) -> tuple[Expected, ...]:
    """Share what one process of the original does among ranks."""
    there = _Pieces(original, ranks)
    here = [{event.key: event for event in rank.events} for rank in ranks]
    return tuple(_of_rank(rank, there, here, original, tolerance, ranks) for rank in range(len(ranks)))


def _of_rank(
    rank: int,
    there: _Pieces,
    here: Sequence[Mapping[Key, RecordedEvent]],
    original: Recording,
    tolerance: Tolerance,
    ranks: Sequence[Recording],
) -> Expected:
    wanted: dict[Key, RecordedEvent] = {}
    found = dict(here[rank])
    for key, pieces in there.places.items():
        pair = _expected_of(rank, pieces, [each.get(key) for each in here])
        if pair is not None:
            wanted[key] = pair[0]
            if pair[1] is not None:
                found[key] = pair[1]
    shares = {
        key: max(_ORDER, *(tolerance.relative.get(origin, 0.0) for origin in there.origins[key])) for key in wanted
    }
    own = tuple(event for key, event in found.items() if key in wanted or not _is_left_out(event, rank))
    expectation = replace(original, events=tuple(wanted.values()), rank=rank)
    return Expected(expectation, Tolerance(shares, tolerance.coarse), replace(ranks[rank], events=own))


def _is_left_out(event: RecordedEvent, rank: int) -> bool:
    """Return whether a rank may do this where the original does not: communicate, save, and have its own buffers."""
    if event.kind == "draw":
        return event.name.startswith(_OF_SHUFFLES)
    if event.kind == "checkpoint":
        return rank > 0
    return event.kind in ("collective", "device") or (event.kind == "buffer" and (rank > 0 or event.call > 0))


class _Pieces:
    """The events of the original by the key that a rank's have: one, or one for each card; in order.

    `places` has them with that key, and `origins` the keys that they have in the original.
    """

    def __init__(self, original: Recording, ranks: Sequence[Recording]) -> None:
        self.places: dict[Key, dict[int, RecordedEvent]] = {}
        self.origins: dict[Key, list[Key]] = {}
        dealt = dealt_parts(original.events, [rank.events for rank in ranks])
        twice = {_root(event.name) for event in original.events if event.kind == "buffer" and event.call > 1}
        for event in original.events:
            if event.kind == "draw" and event.name.startswith(_OF_SHUFFLES):
                continue
            name, card = _card(event.name)
            if event.kind == "buffer" and event.call and card and _root(event.name) in twice:
                continue  # a model that is called twice in a step keeps the buffers of each rank apart
            if event.kind == "buffer" and event.call and len(ranks) == 1:
                continue  # nothing is broadcast
            card, part = dealt.get(event.key, (card, event.part))
            plain = replace(event, name=name, part=part)
            self.places.setdefault(plain.key, {})[card] = plain
            self.origins.setdefault(plain.key, []).append(event.key)


def _root(name: str) -> str:
    return _card(name)[0].partition(".")[0]


def _card(name: str) -> tuple[str, int]:
    """The name without a card, and the card; -1 for what is on none."""
    root, dot, path = name.partition(".")
    base, mark, card = root.rpartition(CARD)
    return (f"{base}{dot}{path}", int(card)) if mark and card.isdigit() else (name, -1)


def _expected_of(
    rank: int, pieces: Mapping[int, RecordedEvent], ranks: Sequence[RecordedEvent | None]
) -> tuple[RecordedEvent, RecordedEvent | None] | None:
    """The event that the pieces have a rank do, and what replaces the rank's own; None for what is not the rank's."""
    whole = pieces.get(-1)
    if whole is not None:
        if whole.kind in _OF_BATCHES:
            return _of_whole(whole, ranks)
        if whole.kind == "draw" and ranks[rank] is None and any(ranks):
            return None  # a draw for one sample is its rank's
        return None if rank and whole.kind in ("buffer", "checkpoint") else (whole, None)
    piece = pieces.get(rank)
    if piece is not None and piece.kind not in _OF_BATCHES:
        return piece, None
    if next(iter(pieces.values())).kind not in _OF_BATCHES:
        return None
    return _of_pieces(rank, pieces, ranks)


def _of_whole(
    whole: RecordedEvent, ranks: Sequence[RecordedEvent | None]
) -> tuple[RecordedEvent, RecordedEvent | None]:
    """A whole batch, or a number made of one, against what the ranks have together."""
    shares = [event.tensor for event in ranks if event is not None and event.tensor is not None]
    model = next((event for event in ranks if event is not None), None)
    if whole.tensor is None or model is None or len(shares) < len(ranks):
        return whole, None
    if all(share.shape == whole.tensor.shape for share in shares):
        return whole, replace(model, tensor=_average(shares))
    if _joined_shape(shares, whole.tensor.shape):
        factor = len(ranks) if whole.kind == "gradient" else 1  # of a mean over the share, not over the batch
        return (
            replace(whole, tensor=_overall([_scaled(whole.tensor, factor)])),
            replace(model, tensor=_overall(shares, whole.tensor.shape)),
        )
    return whole, None


def _of_pieces(
    rank: int, pieces: Mapping[int, RecordedEvent], ranks: Sequence[RecordedEvent | None]
) -> tuple[RecordedEvent, RecordedEvent | None] | None:
    """The pieces of cards against the shares of ranks, or against ranks that each have the whole batch."""
    own = ranks[rank]
    of_card = pieces.get(rank) or next(iter(pieces.values()))
    tensors = [piece.tensor for piece in pieces.values() if piece.tensor is not None]
    if own is not None and own.tensor is not None and of_card.tensor is not None:
        if own.tensor.shape != of_card.tensor.shape and _joined_shape(tensors, own.tensor.shape):
            whole, all_of_it = _overall(tensors, own.tensor.shape), _overall([own.tensor])
            if _are_alike(whole, all_of_it) or of_card.kind != "input" or "." in of_card.name:
                return replace(of_card, tensor=whole), replace(own, tensor=all_of_it)
        if of_card.kind == "gradient":
            return replace(of_card, tensor=_scaled(of_card.tensor, len(ranks))), None
    return (of_card, None) if rank in pieces or own is None else None


def _joined_shape(tensors: Sequence[Tensor], whole: tuple[int, ...]) -> bool:
    """Return whether tensors are of the shape `whole` when they are put together along one dimension."""
    if any(len(tensor.shape) != len(whole) for tensor in tensors) or len({each.dtype for each in tensors}) > 1:
        return False
    apart = [place for place in range(len(whole)) if any(tensor.shape[place] != whole[place] for tensor in tensors)]
    return len(apart) == 1 and sum(tensor.shape[apart[0]] for tensor in tensors) == whole[apart[0]]


def _are_alike(one: Tensor, other: Tensor) -> bool:
    """Return whether two batches may be one, by their norms and means."""
    return float(np.linalg.norm(one.sketch - other.sketch)) <= _ALIKE * one.norm


def _scaled(tensor: Tensor, factor: int) -> Tensor:
    return replace(
        tensor,
        norm=tensor.norm * factor,
        mean=tensor.mean * factor,
        largest=tensor.largest * factor,
        first=tuple(value * factor for value in tensor.first),
        sketch=tensor.sketch * factor,
    )


def _average(tensors: Sequence[Tensor]) -> Tensor:
    """The mean of tensors of one shape; sketches are linear."""
    sketch = np.mean([tensor.sketch for tensor in tensors], axis=0)
    return replace(
        tensors[0],
        norm=float(np.linalg.norm(sketch)),
        mean=float(np.mean([tensor.mean for tensor in tensors])),
        largest=max(tensor.largest for tensor in tensors),
        unfinite=max(tensor.unfinite for tensor in tensors),
        first=tuple(float(np.mean(values)) for values in zip(*(tensor.first for tensor in tensors), strict=True)),
        sketch=sketch,
    )


def _overall(tensors: Sequence[Tensor], shape: tuple[int, ...] | None = None) -> Tensor:
    """Tensors as one, of which the norm and the mean alone are compared: they are the same in any order of samples."""
    counts = [float(np.prod(tensor.shape)) for tensor in tensors]
    norm = float(np.linalg.norm([tensor.norm for tensor in tensors]))
    mean = float(np.dot([tensor.mean for tensor in tensors], counts) / (sum(counts) or 1.0))
    sketch = np.zeros(BUCKETS)
    sketch[:2] = norm, mean * np.sqrt(sum(counts))
    return replace(
        tensors[0],
        shape=shape or tensors[0].shape,
        norm=norm,
        mean=mean,
        largest=max(tensor.largest for tensor in tensors),
        unfinite=sum(tensor.unfinite for tensor in tensors),
        first=(),
        sketch=sketch,
    )
