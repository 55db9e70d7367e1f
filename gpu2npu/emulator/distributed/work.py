"""The handle of one collective or message: gloo moves the bytes, the result is the caller's npu tensors."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gpu2npu.emulator.distributed.agreement import Started
from gpu2npu.emulator.distributed.progress import PendingOperation
from gpu2npu.emulator.distributed.transport import Transport

_FOREVER = timedelta(0)  # c10d's way to say "as long as the group's own timeout allows"

Results = Sequence[torch.Tensor] | Callable[[], Sequence[torch.Tensor]]
Copies = Iterable[tuple[torch.Tensor, torch.Tensor]]


class HcclWork(dist.Work):
    """One or several gloo works over host memory, whose `results` are tensors over the same bytes.

    Args:
        operation: What it does, and which ranks it needs.
        call: Gives gloo's works when they have started.
        transport: Of the group; it holds the work until it is over, and explains its failure.
        results: What futures give, or what makes it when all works are done.
        copies: Pairs of a host tensor and what is copied into it when all works are done, where the bytes could not
            go to their place at once.
    """

    def __init__(
        self,
        operation: PendingOperation,
        call: Started,
        transport: Transport,
        results: Results = (),
        copies: Copies = (),
    ) -> None:
        super().__init__()
        self.operation, self.started = operation, time.monotonic()
        self._call, self._transport = call, transport
        self._results = results
        self._copies = [(target, source) for target, source in copies if target is not source]
        self.is_over = False
        self._error: Exception | None = None
        self._finishing = threading.Lock()
        self._is_waited_for = False
        self._over: torch.futures.Future[None] = torch.futures.Future()
        self._future: torch.futures.Future[Any] | None = None
        self._is_fulfilled = False
        self._fulfilling = threading.Lock()
        self._infers = torch.is_inference_mode_enabled()
        transport.in_flight.add(self)

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        """Block until the bytes have arrived.

        Raises:
            torch.distributed.DistBackendError: A rank ended, the time is over, or the ranks do not agree.
        """
        self._is_waited_for = True
        self.finish(timeout)
        self.fulfil()
        if self._error is not None:
            raise self._raised(self._error)
        return True

    @property
    def is_awaited(self) -> bool:
        """Return whether somebody waits for it, or for its future."""
        return self._is_waited_for or self.has_future

    def finish(self, timeout: timedelta = _FOREVER) -> None:
        """Bring the work to its end, or wait for the thread that does; its error is kept for `wait`.

        Raises:
            torch.distributed.DistBackendError: The time is over, and the work is not.
        """
        if self.is_over:
            return
        if not self._finishing.acquire(timeout=timeout.total_seconds() or -1):
            raise dist.DistBackendError(self._transport.explain(self.operation, "timed out"))
        try:
            if not self.is_over:
                self._finish_works(timeout)
        finally:
            self._finishing.release()

    def _finish_works(self, timeout: timedelta) -> None:
        deadline = time.monotonic() + timeout.total_seconds()
        try:
            # Another thread may be the one that ends it, and tensors of inference mode are written in that mode alone.
            with torch.inference_mode() if self._infers else contextlib.nullcontext():
                for work in self._call.works(timeout):
                    work.wait(timeout and timedelta(seconds=max(deadline - time.monotonic(), 0.001)))
                for target, source in self._copies:
                    target.copy_(source)
        except Exception as error:
            explained = self._explained(error)
            if timeout and not self._call.is_over():
                raise explained from error
            self._error = explained
        self._call, self._copies = Started(()), []  # the memory is let go of
        self.is_over = True
        if self._error is None:
            self._transport.in_flight.remove(self)

    def _explained(self, error: Exception) -> Exception:
        is_explained = isinstance(error, dist.DistBackendError)  # by one of several collectives that are one here
        if is_explained or not isinstance(error, RuntimeError):
            return error
        explained = dist.DistBackendError(self._transport.explain(self.operation, str(error)))
        explained.__cause__ = error
        return explained

    def _raised(self, error: Exception) -> Exception:
        """The error, which is now known to somebody."""
        self._transport.in_flight.remove(self)
        return error

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if not self.is_over:
            self._follow()
        return self.is_over

    def is_success(self) -> bool:
        return self.is_over and self._error is None

    def exception(self) -> Any:
        return None if self._error is None else self._raised(self._error)

    def result(self) -> list[torch.Tensor]:
        return list(self._results() if callable(self._results) else self._results)

    @property
    def has_future(self) -> bool:
        return self._future is not None

    def get_future(self) -> torch.futures.Future[Any]:
        """A future of the results, as DistributedDataParallel and its communication hooks take them."""
        with self._fulfilling:
            self._future = self._future or self._over.then(self._outcome)
        if self.is_over:
            self.fulfil()
        else:
            self._follow()
        return self._future

    def _follow(self) -> None:
        try:
            self._transport.in_flight.follow(self)
        except RuntimeError:  # the interpreter ends
            self.finish()
            self.fulfil()

    def fulfil(self) -> None:
        """Give the result, or the error, to the future, once, if somebody has asked for it; the work is over."""
        with self._fulfilling:
            future = None if self._is_fulfilled else self._future
            self._is_fulfilled = future is not None or self._is_fulfilled
        if future is not None:
            self._over.set_result(None)

    def _outcome(self, _: object) -> list[torch.Tensor]:
        """The result, or the error, which C++ takes for one: it takes the error of `set_exception` for tensors."""
        if self._error is not None:
            raise self._raised(self._error)
        return self.result()


class _Parts(Started):
    """Collectives and messages that are waited for as one."""

    def __init__(self, parts: Sequence[HcclWork]) -> None:
        super().__init__(parts)
        self._parts = parts

    def is_over(self) -> bool:
        return all(part.is_over for part in self._parts)


def together(works: Sequence[HcclWork], transport: Transport) -> HcclWork:
    """One work for several, whose result is all of theirs."""

    def results() -> list[torch.Tensor]:
        return [tensor for work in works for tensor in work.result()]

    return HcclWork(PendingOperation("coalesced"), _Parts(works), transport, results)
