"""The handle of one collective in flight: gloo moves the bytes, the result is the caller's npu tensors."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gpu2npu.emulator.distributed.agreement import Started

_FOREVER = timedelta(0)  # c10d's way to say "as long as the group's own timeout allows"

Results = Sequence[torch.Tensor] | Callable[[], Sequence[torch.Tensor]]
Copies = Iterable[tuple[torch.Tensor, torch.Tensor]]


class HcclWork(dist.Work):
    """One or several gloo works over host memory, whose `results` are tensors over the same bytes.

    Args:
        call: Gives gloo's works when they have started.
        results: What futures give, or what makes it when all works are done.
        copies: Pairs of a host tensor and what is copied into it when all works are done, where the bytes could not
            go to their place at once.
        failed: Makes the sentence about a failure from gloo's words.
    """

    def __init__(
        self,
        call: Started,
        results: Results,
        copies: Copies = (),
        failed: Callable[[str], str] = str,
    ) -> None:
        super().__init__()
        self._call = call
        self._results = results
        self._copies = [(target, source) for target, source in copies if target is not source]
        self._failed = failed
        self._waited = False
        self._owner = threading.Lock()

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        """Block until the bytes have arrived.

        Raises:
            torch.distributed.DistBackendError: A rank ended, the time is over, or the ranks do not agree.
        """
        try:
            for work in self._call.works(timeout):
                work.wait(timeout)
        except RuntimeError as error:
            raise self._explained(error) from error
        self._put_in_place()
        self._waited = True
        return True

    def _explained(self, error: RuntimeError) -> RuntimeError:
        is_explained = isinstance(error, dist.DistBackendError)  # by one of several collectives that are one here
        return error if is_explained else dist.DistBackendError(self._failed(str(error)))

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if self._waited:
            return True
        try:
            works = self._call.poll()
        except RuntimeError:
            return True
        completed = works is not None and all(work.is_completed() for work in works)
        if completed and self.is_success():
            self._put_in_place()
        return completed

    def is_success(self) -> bool:
        try:
            works = self._call.poll()
        except RuntimeError:
            return False
        return works is not None and all(work.is_success() for work in works)

    def exception(self) -> Any:
        try:
            works = self._call.poll() or ()
        except RuntimeError as error:
            return self._explained(error)
        return next((work.exception() for work in works if not work.is_success()), None)

    def result(self) -> list[torch.Tensor]:
        return list(self._results() if callable(self._results) else self._results)

    def get_future(self) -> torch.futures.Future[Any]:
        """A future of the results, as DistributedDataParallel and its communication hooks take them."""
        future: torch.futures.Future[Any] = torch.futures.Future()
        self._call.when_begun(lambda: self._follow(future))
        return future

    def _follow(self, future: torch.futures.Future[Any]) -> None:
        """Have the works fulfil the future; they have started, or never will."""
        try:
            arriving = torch.futures.collect_all([work.get_future() for work in self._call.poll() or ()])
        except (RuntimeError, TypeError):  # gloo gives no future for barrier; an error is for wait() to raise
            self._in_thread(future)
        else:
            arriving.then(lambda done: self._fulfil(future, lambda: [each.wait() for each in done.wait()]))

    def _in_thread(self, future: torch.futures.Future[Any]) -> None:
        wait = functools.partial(HcclWork.wait, self)
        threading.Thread(target=self._fulfil, args=(future, wait), name="hccl", daemon=True).start()

    def _fulfil(self, future: torch.futures.Future[Any], wait: Callable[[], object]) -> None:
        try:
            wait()
        except RuntimeError as error:
            future.set_exception(self._explained(error))  # type: ignore[arg-type]
        else:
            self._put_in_place()
            future.set_result(self.result())

    def _put_in_place(self) -> None:
        """Copy what has to be copied, once, whoever asks first."""
        if not self._copies:
            return
        with self._owner:
            while self._copies:
                target, source = self._copies.pop()
                target.copy_(source)


class WaitedWork(HcclWork):
    """A message, or a reduce_scatter: gloo's handle of one knows nothing before it is waited for, and that once.

    So a thread waits when somebody asks in another way.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._future: torch.futures.Future[Any] | None = None

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        if self._future is not None:
            self._future.wait()
            return True
        return self._waited or super().wait(timeout)

    def is_completed(self) -> bool:
        return self._waited or self.get_future().done()

    def is_success(self) -> bool:
        return self._waited

    def get_future(self) -> torch.futures.Future[Any]:
        if self._future is None:
            self._future = torch.futures.Future()
            self._in_thread(self._future)
        return self._future


class Heading:
    """The header of a message, to be waited for before the message, whose bytes never come when it does not fit."""

    def __init__(self, work: dist.Work, disagreement: Callable[[], str]) -> None:
        self._work, self._disagreement = work, disagreement

    def wait(self, timeout: timedelta) -> None:
        """Raises RuntimeError: the message is another one than was expected."""
        self._work.wait(timeout)
        if said := self._disagreement():
            raise RuntimeError(f"the message is not the one that was expected: {said}")


class Sending(WaitedWork):
    """A message on its way. Gloo loses one whose handle is dropped; an NPU does not, so `unwaited` keeps it."""

    def __init__(self, works: Sequence[dist.Work], failed: Callable[[str], str], unwaited: set[Sending]) -> None:
        super().__init__(Started(works), (), (), failed)
        self._unwaited = unwaited
        unwaited.add(self)

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        super().wait(timeout)
        self._unwaited.discard(self)
        return True
