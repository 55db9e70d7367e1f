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

from gpu2npu.support.behaviour import row

_WHAT, _SHAPES, _DEVICE = 64, 96, 16  # bytes of a header's texts
_TEXTS = _WHAT + _SHAPES + _DEVICE
_SHOWN = 8  # ranks that an error names

Start = Callable[[], Sequence[dist.Work]]


@functools.lru_cache(maxsize=1024)
def header(what: str, shapes: str, device: str, sent: tuple[int, ...], received: tuple[int, ...]) -> torch.Tensor:
    """Encode what one rank says about its collective.

    Args:
        what: Must be the same on all ranks: the collective, its operation and root, the dtype.
        shapes: For errors.
        device: Where the rank is: a name of its NPU that no other has, or "" where it is not known.
        sent: (ranks,), the bytes that it has for each rank.
        received: (ranks,), the bytes that it expects of each.

    Returns:
        uint8, of the same size for every collective of the group.
    """
    texts = b"".join(
        text.encode()[:size].ljust(size, b"\0") for text, size in ((what, _WHAT), (shapes, _SHAPES), (device, _DEVICE))
    )
    return torch.from_numpy(np.frombuffer(bytearray(texts + np.array([sent, received], np.int64).tobytes()), np.uint8))


@functools.lru_cache(maxsize=1024)
def disagreement(headers: bytes, ranks: tuple[int, ...]) -> str:
    """Return why the ranks do not come together: two on one NPU, or what each of them is about to do; "" where they do.

    Args:
        headers: Of all ranks, one after the other.
        ranks: Their global numbers.
    """
    rows = np.frombuffer(headers, np.uint8).reshape(len(ranks), -1)
    devices: dict[bytes, list[int]] = {}
    for rank, sent_by in zip(ranks, rows, strict=True):
        devices.setdefault(sent_by[_WHAT + _SHAPES : _TEXTS].tobytes().rstrip(b"\0"), []).append(rank)
    shared = next((both for device, both in devices.items() if device and len(both) > 1), None)
    if shared is not None:
        limit = row("ranks-on-one-npu")
        text = f"{limit.evidence} ({limit.words}): {limit.advice} [{limit.id}]" if limit is not None else ""
        return f"ranks {shared[0]} and {shared[1]} are on the same NPU: {text}"
    counts = np.frombuffer(rows[:, _TEXTS:].tobytes(), np.int64).reshape(len(ranks), 2, len(ranks))
    sent, received = counts[:, 0], counts[:, 1]
    if (rows[:, :_WHAT] == rows[0, :_WHAT]).all() and (sent == received.T).all():
        return ""
    texts_of_ranks = []
    for rank, sent_by, out, back in zip(ranks[:_SHOWN], rows, sent, received, strict=False):
        texts = [
            part.tobytes().rstrip(b"\0").decode(errors="ignore")
            for part in np.split(sent_by[: _WHAT + _SHAPES], [_WHAT])
        ]
        plain = len({*out.tolist(), *back.tolist()}) == 1
        texts_of_ranks.append(f"rank {rank}: {' '.join(texts)}" + ("" if plain else f", {out} bytes out and {back} in"))
    return f"its arguments are inconsistent between ranks (EI0005): {'; '.join(texts_of_ranks)}"


class Started:
    """A call whose works are there from the beginning: messages, and several collectives as one."""

    def __init__(self, works: Sequence[dist.Work]) -> None:
        self._works = works

    def works(self, timeout: timedelta) -> Sequence[dist.Work]:
        """Gloo's works; blocks until they have started.

        Raises:
            RuntimeError: They never will, or not in this time.
        """
        return self._works

    def is_over(self) -> bool:
        """Return whether nothing is in flight any more, after an error; a message that timed out has lost its pair."""
        return True


class Agreed(Started):
    """A collective that starts when the headers have come and fit."""

    def __init__(self, agreement: Agreement, header: torch.Tensor, start: Start) -> None:
        super().__init__(())
        self.error: Exception | None = None
        self.has_begun = False
        self._start, self._agreement = start, agreement
        self._headers = torch.empty(agreement.size * header.numel(), dtype=torch.uint8, device="cpu")
        self.exchange: dist.Work = agreement.gloo._allgather_base(self._headers, header)

    def begin(self) -> None:
        """Start, or take the error for later; the headers are here."""
        try:
            difference = disagreement(self._headers.numpy().tobytes(), self._agreement.ranks)
            if difference:
                raise RuntimeError(difference)
            self._works = self._start()
        except RuntimeError as error:
            self.error = error
        self.has_begun = True

    def give_up(self, error: RuntimeError) -> None:
        """Never start: the headers do not come."""
        self.error, self.has_begun = error, True

    def works(self, timeout: timedelta) -> Sequence[dist.Work]:
        self._agreement.begin(self, timeout)
        if self.error is not None:
            raise self.error
        return self._works

    def is_over(self) -> bool:
        return self.has_begun and all(work.is_completed() for work in self._works)


class Agreement:
    """Starts a group's collectives, in the order in which they were called, as their headers arrive."""

    def __init__(self, store: Store, rank: int, ranks: Sequence[int], timeout: timedelta) -> None:
        self.size, self.ranks = len(ranks), tuple(ranks)
        # A group of its own: gloo counts collectives, and headers overtake bytes on one rank and not on another.
        self.gloo: Any = dist.ProcessGroupGloo(PrefixStore("agreement/", store), rank, self.size, timeout)
        self.called = 0  # collectives, of this rank
        self._calls: deque[Agreed] = deque()
        self._lock = threading.RLock()

    def call(self, header: torch.Tensor, start: Start) -> tuple[Started, int]:
        """A collective that starts once the others have come to it, when somebody waits for its works.

        Args:
            mine: This rank's header.
            start: Starts gloo's works.

        Returns:
            The call, and its number among the group's collectives.
        """
        with self._lock:
            call = Started(start()) if self.size == 1 else Agreed(self, header, start)
            if isinstance(call, Agreed):
                self._calls.append(call)
            self.called += 1
            return call, self.called - 1

    def begin(self, awaited: Agreed, timeout: timedelta) -> None:
        """Begin this call and those before it; blocks until their headers have come.

        Raises:
            RuntimeError: They have not come in this time, and still may.
        """
        while not awaited.has_begun:
            with self._lock:
                first = self._calls[0] if self._calls else awaited
            failure = self._wait(first, timeout)
            with self._lock:
                if self._calls and self._calls[0] is first:
                    if failure is None:
                        first.begin()
                    else:
                        first.give_up(failure)
                    self._calls.popleft()

    def _wait(self, call: Agreed, timeout: timedelta) -> RuntimeError | None:
        """Wait for a call's headers; the error if they never come. Raises RuntimeError: the time is over."""
        try:
            call.exchange.wait(timeout)
        except RuntimeError:
            if not call.exchange.is_completed():
                raise
            try:
                call.exchange.wait()  # it may have come at the last moment
            except RuntimeError as error:
                return error
        return None
