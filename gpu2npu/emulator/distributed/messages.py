"""Messages from one rank to another: a header (see `agreement`), and then the bytes.

As with HCCL, the tag of a message is not looked at: messages between two ranks arrive in the order in which they were
sent, and gloo's tags are numbers of our own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gpu2npu.emulator.distributed import agreement, calls
from gpu2npu.emulator.distributed.agreement import Started
from gpu2npu.emulator.distributed.progress import PendingOperation, Receiving, Sending
from gpu2npu.emulator.distributed.transport import Transport
from gpu2npu.emulator.distributed.work import HcclWork
from gpu2npu.emulator.shapes import collectives

Tensors = Sequence[torch.Tensor]


class Messages:
    """Sends and receives for one rank of a group."""

    def __init__(self, transport: Transport, rank: int, global_ranks: Sequence[int]) -> None:
        self._transport, self._rank, self._global_ranks = transport, rank, global_ranks
        self._starting = threading.Lock()  # a header and its message go together, and their numbers in order
        self._refused: list[dist.Work] = []  # gloo loses others when the handle of one in flight is dropped

    def send(self, tensors: Tensors, moved: Tensors, destination: int) -> HcclWork:
        """Send a tensor.

        Args:
            tensors: The one tensor, for its dtype and shape.
            moved: Its bytes.
            destination: The group's rank that receives it.
        """
        moved = _moving(tensors, moved)
        operation = Sending("send", destination)
        with self._starting, self._failing(operation):
            gloo, number = self._transport.gloo, self._transport.sent[destination]
            works = [
                gloo.send([calls.message(tensors)], destination, calls.HEADERS),
                gloo.send(moved, destination, calls.tag(moved, number)),
            ]
            self._transport.sent[destination] += 1
        return HcclWork(operation, Started(works), self._transport)

    def receive(self, tensors: Tensors, moved: Tensors, source: int) -> HcclWork:
        """Receive into a tensor; the arguments are those of `send`."""
        moved = _moving(tensors, moved)
        expected = calls.message(tensors)
        header = torch.empty_like(expected)
        with self._starting:
            number = self._transport.received[source]
            operation = Receiving("recv", source, self._rank, number)
            with self._failing(operation):
                gloo = self._transport.gloo
                heading = gloo.recv([header], source, calls.HEADERS)
                message = gloo.recv(moved, source, calls.tag(moved, number))
            self._transport.received[source] += 1

        def disagreement() -> str:
            ranks = (self._global_ranks[source], self._global_ranks[self._rank])
            difference = agreement.disagreement(header.numpy().tobytes() + expected.numpy().tobytes(), ranks)
            if difference:
                self._refused.append(message)
            return difference

        works: list[Any] = [_Heading(heading, disagreement), message]
        return HcclWork(operation, Started(works), self._transport, tensors)

    @contextlib.contextmanager
    def _failing(self, operation: PendingOperation) -> Iterator[None]:
        try:
            self._transport.check()
            yield
        except RuntimeError as error:
            raise dist.DistBackendError(self._transport.explain(operation, str(error))) from error


def _moving(tensors: Tensors, moved: Tensors) -> Tensors:
    """The bytes of a message, or none of them in a shapes-only run."""
    if not collectives.moves(tensors):
        return [each[:0] for each in moved]
    collectives.moved(tensors)
    return moved


class _Heading:
    """The header of a message, to be waited for before the message, whose bytes never come when it does not fit."""

    def __init__(self, work: dist.Work, disagreement: Callable[[], str]) -> None:
        self._work, self._disagreement = work, disagreement

    def wait(self, timeout: timedelta) -> None:
        """Raises RuntimeError: the message is another one than was expected."""
        self._work.wait(timeout)
        if difference := self._disagreement():
            raise RuntimeError(f"the message is not the one that was expected: {difference}")
