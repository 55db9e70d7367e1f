"""The progress of the ranks of a group, and the ranks for which a collective or a message waits.

Gloo does not know for whom it waits. So a rank that has waited for a while writes in the group's store how many
collectives it has called, how many messages it has sent and whether it has ended the group, and reads what the others
have written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar

from torch._C._distributed_c10d import Store


@dataclass(frozen=True)
class RankProgress:
    """The progress of one rank when it wrote this."""

    collectives: int = 0  # that it has called
    sent: tuple[int, ...] = ()  # (ranks,), the number of messages for each
    has_ended: bool = False  # no collective and no message follows


@dataclass(frozen=True)
class PendingOperation:
    """A collective or message as errors name it; this one stands for several, which are in flight by themselves."""

    name: str
    part: ClassVar[str] = ""  # what each rank has to have done for it
    is_for_others: ClassVar[bool] = False  # whether another rank needs its end

    def missing(self, others: Mapping[int, RankProgress]) -> list[int]:
        """The ranks that have not done their part, as far as they have written."""
        return []


@dataclass(frozen=True)
class Collective(PendingOperation):
    """The group's collective of this number, from 0."""

    number: int
    part: ClassVar[str] = "come to it"
    is_for_others: ClassVar[bool] = True

    def missing(self, others: Mapping[int, RankProgress]) -> list[int]:
        """The ranks that have called fewer collectives."""
        return [rank for rank, progress in others.items() if progress.collectives <= self.number]


@dataclass(frozen=True)
class Sending(PendingOperation):
    """A message to a rank. One that has ended the group takes no more, and has taken what it waited for."""

    destination: int
    part: ClassVar[str] = "taken it"
    is_for_others: ClassVar[bool] = True

    def missing(self, others: Mapping[int, RankProgress]) -> list[int]:
        """The rank that is to take it."""
        return [self.destination]


@dataclass(frozen=True)
class Receiving(PendingOperation):
    """The message of this number, from 0, of a rank to `receiver`."""

    source: int
    receiver: int
    number: int
    part: ClassVar[str] = "sent it"

    def missing(self, others: Mapping[int, RankProgress]) -> list[int]:
        """The rank that is to send it, unless it has."""
        sent = others[self.source].sent if self.source in others else ()
        return [] if sent and sent[self.receiver] > self.number else [self.source]


class ProgressStore:
    """The part of a group's store in which the ranks write how far they are."""

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size
        self._written = RankProgress()
        self._write(self._written)  # before the ranks meet, so that reading never blocks

    def write(self, progress: RankProgress) -> None:
        """Write how far this rank is, if that is new; a store that has ended with its rank is not an error."""
        if progress != self._written:
            self._written = progress
            try:
                self._write(progress)
            except RuntimeError:
                return

    def others(self) -> dict[int, RankProgress]:
        """Return how far the other ranks of the group are; nothing when the store has ended."""
        ranks = [rank for rank in range(self._size) if rank != self._rank]
        try:
            texts = self._store.multi_get([_key(rank) for rank in ranks])
        except RuntimeError:
            return {}
        return {rank: _read(text) for rank, text in zip(ranks, texts, strict=True)}

    def _write(self, progress: RankProgress) -> None:
        self._store.set(_key(self._rank), json.dumps(asdict(progress)))


def _key(rank: int) -> str:
    return f"progress/{rank}"


def _read(text: bytes) -> RankProgress:
    fields = json.loads(text)
    return RankProgress(fields["collectives"], tuple(fields["sent"]), fields["has_ended"])
