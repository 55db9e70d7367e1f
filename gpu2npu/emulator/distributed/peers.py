"""The other ranks of a group: which of them has ended when a collective fails."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from torch._C._distributed_c10d import Store

_PATIENCE = 2.0  # seconds that a rank may take to end after it has closed its connections

_ADDRESS = re.compile(r"\[[^]/]+\]:\d+")


class Peers:
    """Knows the addresses of each rank and, on this host, its process."""

    def __init__(self, store: Store, rank: int, size: int, global_ranks: Sequence[int]) -> None:
        self.rank = rank
        self.global_ranks = list(global_ranks) or list(range(size))
        self._store = store
        self._processes: dict[int, int] = {}
        self._addresses: dict[str, int] = {}  # the global rank of each
        store.delete_key(self._key(rank))  # a group of this name may have been there before

    def meet(self, addresses: Sequence[str]) -> None:
        """Announce to the others where this rank is, and learn where they are; every rank is connected then."""
        this = socket.gethostname()
        self._store.set(self._key(self.rank), json.dumps([this, os.getpid(), *addresses]))
        for rank, number in enumerate(self.global_ranks):
            host, process, *ends = json.loads(self._store.get(self._key(rank)))
            if rank != self.rank:
                self._addresses |= dict.fromkeys(ends, number)
                if host == this:
                    self._processes[number] = process

    def _key(self, rank: int) -> str:
        return f"process/{rank}"

    def closer(self, words: str) -> int | None:
        """The global rank at the other end of the connection that gloo's words are about."""
        ranks = (self._addresses.get(address) for address in _ADDRESS.findall(words))
        return next((rank for rank in ranks if rank is not None), None)

    def ended(self) -> list[int]:
        """The global ranks whose processes have ended."""
        return [rank for rank, process in self._processes.items() if not _is_running(process)]

    def ended_soon(self) -> list[int]:
        """The same after a rank has closed its connections, which it may do a moment before its end."""
        return _until(self.ended, _PATIENCE)


def have(ranks: Sequence[int]) -> str:
    """The subject of a sentence about some ranks, with its verb."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))} {'have' if len(ranks) > 1 else 'has'}"


def _until(ask: Callable[[], list[int]], seconds: float) -> list[int]:
    deadline = time.monotonic() + seconds
    while not (found := ask()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _is_running(process: int) -> bool:
    """Return whether a process runs; one that has ended and whose parent has not waited for it does not."""
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except (PermissionError, OSError):  # somebody else's, or a system without /proc
        return True
    return state not in "ZX"
