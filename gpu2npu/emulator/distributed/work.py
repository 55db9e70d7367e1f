"""The handle of one collective in flight: gloo moves the bytes, the result is the caller's npu tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

_FOREVER = timedelta(0)  # c10d's way to say "as long as the group's own timeout allows"

Copies = Iterable[tuple[torch.Tensor, torch.Tensor]]


class HcclWork(dist.Work):
    """One or several gloo works over host memory, whose `results` are tensors over the same bytes.

    Args:
        works: Gloo's.
        results: What futures give.
        copies: Pairs of a host tensor and what is copied into it when all works are done, where the bytes could not
            go to their place at once.
        failed: Makes the sentence about a failure from gloo's words.
    """

    def __init__(
        self,
        works: Sequence[dist.Work],
        results: Sequence[torch.Tensor],
        copies: Copies = (),
        failed: Callable[[str], str] = str,
    ) -> None:
        super().__init__()
        self._works = list(works)
        self._results = list(results)
        self._copies = [(target, source) for target, source in copies if target is not source]
        self._failed = failed
        self._waited = False
        self._owner = threading.Lock()

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        """Block until the bytes have arrived.

        Raises:
            torch.distributed.DistBackendError: A rank ended or the time is over.
        """
        try:
            for work in self._works:
                work.wait(timeout)
        except RuntimeError as error:
            raise dist.DistBackendError(self._failed(str(error))) from error
        self._put_in_place()
        self._waited = True
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        completed = self._waited or all(work.is_completed() for work in self._works)
        if completed and self.is_success():
            self._put_in_place()
        return completed

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> Any:
        return next((work.exception() for work in self._works if not work.is_success()), None)

    def result(self) -> list[torch.Tensor]:
        return self._results

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """A future of the results, as DistributedDataParallel and its communication hooks take them."""
        try:
            arriving = torch.futures.collect_all([work.get_future() for work in self._works])
        except (RuntimeError, TypeError):  # gloo gives no future for reduce_scatter and barrier
            return self._waited_in_thread()
        return arriving.then(self._arrived)

    def _waited_in_thread(self) -> torch.futures.Future[list[torch.Tensor]]:
        future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()

        def run() -> None:
            try:
                HcclWork.wait(self)
            except RuntimeError as error:
                future.set_exception(error)  # type: ignore[arg-type]
            else:
                future.set_result(self._results)

        threading.Thread(target=run, name="hccl", daemon=True).start()
        return future

    def _arrived(self, arriving: torch.futures.Future[Any]) -> list[torch.Tensor]:
        try:
            for future in arriving.wait():
                future.wait()  # raises gloo's error
        except RuntimeError as error:
            raise dist.DistBackendError(self._failed(str(error))) from error
        self._put_in_place()
        return self._results

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
        self._future: torch.futures.Future[list[torch.Tensor]] | None = None

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        if self._future is not None:
            self._future.wait()
            return True
        return self._waited or super().wait(timeout)

    def is_completed(self) -> bool:
        return self._waited or self.get_future().done()

    def is_success(self) -> bool:
        return self._waited

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        if self._future is None:
            self._future = self._waited_in_thread()
        return self._future


class Sending(WaitedWork):
    """A message on its way. Gloo loses one whose handle is dropped; an NPU does not, so `unwaited` keeps it."""

    def __init__(self, works: Sequence[dist.Work], failed: Callable[[str], str], unwaited: set[Sending]) -> None:
        super().__init__(works, (), (), failed)
        self._unwaited = unwaited
        unwaited.add(self)

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        super().wait(timeout)
        self._unwaited.discard(self)
        return True
