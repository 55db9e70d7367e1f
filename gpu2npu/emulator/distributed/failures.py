"""Explains why a collective or a message failed, in a sentence that names the ranks that it waited for."""

from __future__ import annotations

import threading
from collections.abc import Collection

from gpu2npu.emulator.distributed.peers import Peers, have
from gpu2npu.emulator.distributed.progress import PendingOperation, ProgressStore

# Signs in gloo's messages.
_CLOSED = ("onnection closed", "onnection reset", "roken pipe", "ocket closed")
_ADVICE = " This is typically caused by"  # to look for a rank that has crashed
_EARLIER = "Application timeout caused pair closure"


class Failures:
    """Explains the failures of one group."""

    def __init__(self, peers: Peers, progress: ProgressStore) -> None:
        self._peers, self._progress = peers, progress
        self._closed = ""  # why connections are closed, once that is known
        self._lock = threading.Lock()

    def close(self, reason: str) -> None:
        """Say why the connections are closed, before they are; the first reason stays."""
        with self._lock:
            self._closed = self._closed or reason

    def explain(self, operation: PendingOperation, words: str) -> str:
        """One sentence about a collective or message that failed, from the words that gloo has for it."""
        reason, words = self._reason(operation, words), words.split(_ADVICE)[0]
        rank = self._peers.global_ranks[self._peers.rank]
        return f"HCCL {operation.name} failed on rank {rank}: {reason}{'; ' if reason else ''}{words}"

    def awaited(self, operation: PendingOperation) -> str:
        """The ranks for which it waits, as far as they have written, as the subject of a sentence; perhaps nothing."""
        return self.named(operation.missing(self._progress.others()))

    def named(self, ranks: Collection[int]) -> str:
        """Some ranks of the group, by their global numbers."""
        return have(sorted(self._peers.global_ranks[rank] for rank in ranks)) if ranks else ""

    def _reason(self, operation: PendingOperation, words: str) -> str:
        if is_closed(words):
            return self._reason_of_closing(words)
        if ended := self._peers.ended():
            return f"{have(ended)} ended"
        if _EARLIER in words:
            return "an earlier collective of the group failed"
        if "timed out" in words.lower():
            awaited = self.awaited(operation)
            return f"{awaited} not {operation.part} in time" if awaited else "not every rank came to it in time"
        return ""

    def _reason_of_closing(self, words: str) -> str:
        with self._lock:
            if not self._closed:
                closer = self._peers.closer(words)
                if ended := self._peers.ended_soon():
                    self._closed = f"{have(ended)} ended"
                else:
                    self._closed = f"{'a rank has' if closer is None else have([closer])} closed its connections"
            return self._closed


def is_closed(words: str) -> bool:
    """Return whether gloo's words say that a rank has closed its connection."""
    return any(sign in words for sign in _CLOSED)
