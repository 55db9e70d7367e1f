"""The handle of one collective in flight: gloo moves the bytes, the result is the caller's npu tensors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

_FOREVER = timedelta(0)  # c10d's way to say "as long as the group's own timeout allows"


class HcclWork(dist.Work):
    """One or several gloo works over host memory, whose `results` are tensors over the same bytes."""

    def __init__(self, works: Sequence[dist.Work], results: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._works = list(works)
        self._results = list(results)

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        """Block until the bytes have arrived. Raises RuntimeError when a rank died or the time is over."""
        for work in self._works:
            work.wait(timeout)
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

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
        except RuntimeError:  # gloo gives no future for reduce_scatter
            self.wait()
            done: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
            done.set_result(self._results)
            return done
        return arriving.then(self._arrived)

    def _arrived(self, arriving: torch.futures.Future[Any]) -> list[torch.Tensor]:
        for future in arriving.wait():
            future.wait()  # raises gloo's error
        return self._results


class HcclSend(HcclWork):
    """A message on its way. Gloo loses one whose work is dropped; an NPU does not, so `unwaited` keeps it."""

    def __init__(self, work: dist.Work, tensors: Sequence[torch.Tensor], unwaited: set[HcclSend]) -> None:
        super().__init__([work], tensors)
        self._unwaited = unwaited
        unwaited.add(self)

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        super().wait(timeout)
        self._unwaited.discard(self)
        return True
