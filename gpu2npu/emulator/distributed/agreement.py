"""Before a collective starts, its ranks compare what each of them is about to do.

Gloo ends the process, or leaves its tensors half written, when ranks come with different sizes. HCCL compares the
arguments too (error EI0005, "The arguments for collective communication are inconsistent between ranks"). So every
collective begins with an exchange of headers, and its bytes follow when the headers fit, in the order in which the
collectives were called. The exchange waits for nobody who calls: what is in flight goes on in gloo's threads.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

_WHAT, _SHAPES = 64, 96  # bytes of a header's two texts
_SHOWN = 8  # ranks that an error names

Start = Callable[[], Sequence[dist.Work]]


@functools.lru_cache(maxsize=1024)
def header(what: str, shapes: str, sent: tuple[int, ...], received: tuple[int, ...]) -> torch.Tensor:
    """What one rank says about its collective.

    Args:
        what: Must be the same on all ranks: the collective, its operation and root, the dtype.
        shapes: For errors.
        sent: (ranks,), the bytes that it has for each rank.
        received: (ranks,), the bytes that it expects of each.

    Returns:
        uint8, of the same size for every collective of the group.
    """
    texts = b"".join(text.encode()[:size].ljust(size, b"\0") for text, size in ((what, _WHAT), (shapes, _SHAPES)))
    return torch.from_numpy(np.frombuffer(bytearray(texts + np.array([sent, received], np.int64).tobytes()), np.uint8))


@functools.lru_cache(maxsize=1024)
def disagreement(headers: bytes, ranks: tuple[int, ...]) -> str:
    """What the ranks said, each in its words; empty when it fits together.

    Args:
        headers: Of all ranks, one after the other.
        ranks: Their global numbers.
    """
    rows = np.frombuffer(headers, np.uint8).reshape(len(ranks), -1)
    counts = np.frombuffer(rows[:, _WHAT + _SHAPES :].tobytes(), np.int64).reshape(len(ranks), 2, len(ranks))
    sent, received = counts[:, 0], counts[:, 1]
    if (rows[:, :_WHAT] == rows[0, :_WHAT]).all() and (sent == received.T).all():
        return ""
    said = []
    for rank, row, out, back in zip(ranks[:_SHOWN], rows, sent, received, strict=False):
        texts = [
            part.tobytes().rstrip(b"\0").decode(errors="ignore") for part in np.split(row[: _WHAT + _SHAPES], [_WHAT])
        ]
        plain = len({*out.tolist(), *back.tolist()}) == 1
        said.append(f"rank {rank}: {' '.join(texts)}" + ("" if plain else f", {out} bytes out and {back} in"))
    return "; ".join(said)


class Started:
    """A call whose works are there from the beginning: messages, and several collectives as one."""

    def __init__(self, works: Sequence[dist.Work]) -> None:
        self._works: Sequence[dist.Work] | None = works

    def poll(self) -> Sequence[dist.Work] | None:
        """Gloo's works if they have started.

        Raises:
            RuntimeError: They never will.
        """
        return self._works

    def works(self, timeout: timedelta) -> Sequence[dist.Work]:
        """Gloo's works; blocks until they have started."""
        return self._works or ()

    def when_begun(self, call: Callable[[], None]) -> None:
        """Call when the works have started, or never will; now if that is so already."""
        call()


class Agreed(Started):
    """A collective that starts when the headers have come and fit."""

    def __init__(self, agreement: Agreement, mine: torch.Tensor, start: Start) -> None:
        self._works = None
        self.error: Exception | None = None
        self.has_headers = False
        self.start, self._agreement, self._listeners = start, agreement, list[Callable[[], None]]()
        self.headers = torch.empty(agreement.size * mine.numel(), dtype=torch.uint8, device="cpu")
        self.exchange: dist.Work = agreement.gloo._allgather_base(self.headers, mine)

    def begin(self) -> None:
        """Start, or take the error for later; the headers are here."""
        try:
            said = disagreement(self.headers.numpy().tobytes(), self._agreement.ranks)
            if said:
                raise RuntimeError(f"its arguments are inconsistent between ranks (EI0005): {said}")
            self._works = self.start()
        except RuntimeError as error:
            self.error = error

    def announce(self) -> None:
        while self._listeners:
            self._listeners.pop()()

    def poll(self) -> Sequence[dist.Work] | None:
        self._agreement.advance()
        if self.error is not None:
            raise self.error
        return self._works

    def works(self, timeout: timedelta) -> Sequence[dist.Work]:
        self._agreement.advance(self, timeout)
        if self.error is not None:
            raise self.error
        return self._works or ()

    def when_begun(self, call: Callable[[], None]) -> None:
        self._listeners.append(call)
        if self.has_begun:
            self.announce()

    @property
    def has_begun(self) -> bool:
        return self._works is not None or self.error is not None


class Agreement:
    """Starts a group's collectives, in the order in which they were called, as their headers arrive."""

    def __init__(self, store: Store, rank: int, ranks: Sequence[int], timeout: timedelta) -> None:
        self.size, self.ranks = len(ranks), tuple(ranks)
        # A group of its own: gloo counts collectives, and headers overtake bytes on one rank and not on another.
        self.gloo: Any = dist.ProcessGroupGloo(PrefixStore("agreement/", store), rank, self.size, timeout)
        self._calls: deque[Agreed] = deque()
        self._lock = threading.RLock()

    def call(self, mine: torch.Tensor, start: Start, is_awaited: bool) -> Started:
        """Start a collective once the others have come to it.

        Args:
            mine: This rank's header.
            start: Starts gloo's works.
            is_awaited: Whether the caller waits for it at once, and so needs no thread to start it.
        """
        if self.size == 1:
            return Started(start())
        with self._lock:
            call = Agreed(self, mine, start)
            self._calls.append(call)
        if not is_awaited:
            call.exchange.get_future().then(functools.partial(self._arrived, call))
        return call

    def advance(self, awaited: Agreed | None = None, timeout: timedelta = timedelta(0)) -> None:
        """Begin what can begin; with `awaited`, block until that has begun."""
        while True:
            with self._lock:
                begun = []
                while self._calls and self._calls[0].has_headers:
                    begun.append(self._calls.popleft())
                    begun[-1].begin()
                first = self._calls[0] if self._calls else None
            for call in begun:
                call.announce()
            if awaited is None or awaited.has_begun or first is None:
                return
            try:
                first.exchange.wait(timeout)
                first.has_headers = True
            except RuntimeError as error:
                self._give_up(first, error)

    def _arrived(self, call: Agreed, headers: torch.futures.Future[Any]) -> None:
        """In gloo's thread, and before the exchange calls itself completed."""
        try:
            headers.wait()
            call.has_headers = True
        except RuntimeError as error:
            self._give_up(call, error)
        self.advance()

    def _give_up(self, call: Agreed, error: RuntimeError) -> None:
        with self._lock:
            if call in self._calls:
                self._calls.remove(call)
                call.error = error
        call.announce()
