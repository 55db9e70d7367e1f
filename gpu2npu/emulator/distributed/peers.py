"""The other ranks of a group: which of them has ended when a collective fails."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from torch._C._distributed_c10d import Store

_PATIENCE = 2.0  # seconds that a rank may take to end after it has closed its connections

# Signs in gloo's messages.
_CLOSED = ("onnection closed", "onnection reset", "roken pipe", "ocket closed")
_EARLIER = "Application timeout caused pair closure"


class Peers:
    """Knows the process of each rank. Only processes on this host are judged."""

    def __init__(self, store: Store, rank: int, size: int, global_ranks: Sequence[int]) -> None:
        self.rank = rank
        self.global_ranks = list(global_ranks) or list(range(size))
        self._store = store
        self._processes: dict[int, int] = {}
        store.set(f"process/{rank}", f"{socket.gethostname()} {os.getpid()}")

    def meet(self) -> None:
        """Learn who the others are; every rank has come by now."""
        for rank in range(len(self.global_ranks)):
            host, process = self._store.get(f"process/{rank}").decode().rsplit(" ", 1)
            if host == socket.gethostname() and rank != self.rank:
                self._processes[self.global_ranks[rank]] = int(process)

    def ended(self) -> list[int]:
        """The global ranks whose processes have ended."""
        return [rank for rank, process in self._processes.items() if not _is_running(process)]

    def explain(self, collective: str, words: str) -> str:
        """One sentence about a collective that failed, from the words that the transport has for it."""
        rank = self.global_ranks[self.rank]
        closed = any(sign in words for sign in _CLOSED)
        gone = _until(self.ended, _PATIENCE) if closed else self.ended()
        if gone:
            reason = f"{_ranks(gone)} ended"
        elif closed:
            reason = "a rank closed its connection"
        elif _EARLIER in words:
            reason = "an earlier collective of the group failed"
        elif "timed out" in words.lower():
            reason = "not every rank of the group came to it in time"
        else:
            reason = ""
        return f"HCCL {collective} failed on rank {rank}: {reason}{'; ' if reason else ''}{words}"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))} {'have' if len(ranks) > 1 else 'has'}"


def _until(ask: Callable[[], list[int]], seconds: float) -> list[int]:
    deadline = time.monotonic() + seconds
    while not (found := ask()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _is_running(process: int) -> bool:
    """Whether a process runs; one that has ended and that its parent has not asked about does not."""
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except (PermissionError, OSError):  # somebody else's, or a system without /proc
        return True
    return state not in "ZX"
