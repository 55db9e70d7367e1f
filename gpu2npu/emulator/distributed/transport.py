"""What lies beneath an hccl group, and the order in which it ends.

A group has two gloo groups (one for the bytes, one for the headers of `agreement`), each with threads in C++, and its
works in flight. The process owns them: they are held here until they are ended, in one of Python's threads, never
released by whoever drops the last reference. Gloo's threads run no Python and fulfil no future, since Python ends a
foreign thread that asks for the interpreter once that is being torn down, and C++ aborts the process then.

A group ends in this order:

1. No collective is started any more.
2. The works that other ranks may need are waited for: all but messages to this rank.
3. If the time for that is over, or a rank has gone, the connections are shut down, so that what is left fails, here and
   on the other ranks.
4. The group's own threads are joined; callbacks of futures have run.
5. Gloo's groups are destroyed, which joins gloo's threads, while they may still take the interpreter's lock to release
   tensors.

That is done

- by `destroy_process_group`, which waits as long as the group's timeout allows, as NCCL's finalize does, and only
  `_PATIENCE` when an exception is on its way;
- at the interpreter's exit, for the groups that are left, by an atexit handler that is registered when torch_npu is
  imported: after the script's other threads and its own atexit handlers, before anything is torn down. torch_npu does
  the same there (`_npu_shutdown`: synchronize the devices, destroy the groups). An uncaught exception and `sys.exit`
  come here too; the exit code is the script's;
- nowhere when the process ends without Python: by a signal without a handler (SIGTERM, SIGKILL), `os._exit`, and in
  processes that multiprocessing has forked. The kernel closes the connections, and the other ranks see that.

After an error that tells of a closed connection, step 3 is taken at once: every other rank fails soon, not only the
neighbours of the one that ended. A forked child owns nothing: it closes its copies of the connections, keeps
gloo's objects for ever, since they would wait for threads that it does not have, and a collective there raises.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store

from gpu2npu.emulator.distributed.agreement import Agreement, Start, Started
from gpu2npu.emulator.distributed.connections import Connections
from gpu2npu.emulator.distributed.in_flight import InFlight

_PATIENCE = timedelta(seconds=15)  # for other ranks, at the end of a process: one that fails ends soon
_AFTER_ABORT = 5.0  # seconds for threads to see that their connections are closed

_live: dict[Transport, None] = {}  # in the order in which they were made


class Transport:
    """Gloo's groups, their connections and the works in flight of one hccl group."""

    def __init__(self, store: Store, rank: int, global_ranks: Sequence[int], timeout: timedelta) -> None:
        self.in_flight = InFlight()
        self._connections = Connections()
        self._timeout, self._ended = timeout, ""
        with self._connections.recorded():
            self._gloo: Any = dist.ProcessGroupGloo(store, rank, len(global_ranks), timeout)
            self.agreement = Agreement(store, rank, global_ranks, timeout)
        _live[self] = None

    @property
    def gloo(self) -> Any:
        """Gloo's group for the bytes.

        Raises:
            torch.distributed.DistBackendError: The group has ended.
        """
        if self._ended:
            raise dist.DistBackendError(self._ended)
        return self._gloo

    def call(self, header: torch.Tensor, start: Start) -> Started:
        """A collective that starts when all ranks have come to it; see `Agreement.call`.

        Raises:
            torch.distributed.DistBackendError: The group has ended.
        """
        if self._ended:
            raise dist.DistBackendError(self._ended)
        return self.agreement.call(header, start)

    def set_timeout(self, timeout: timedelta) -> None:
        """The longest a collective started from now on may take, and the end of the group."""
        self._timeout = timeout
        for gloo in (self.gloo, self.agreement.gloo):
            gloo._set_default_timeout(timeout)

    def abort(self) -> None:
        """Have everything in flight fail, here and on the other ranks."""
        self._connections.shut_down()

    def end(self, patience: timedelta | None = None) -> None:
        """Take the steps above, once.

        Args:
            patience: For works in flight; by default the group's timeout, and less when an exception is on its way.
        """
        if _live.pop(self, self) is self:
            return
        if patience is None:
            patience = self._timeout if sys.exc_info()[0] is None else min(self._timeout, _PATIENCE)
        self._ended = "the hccl process group has ended"
        is_finished = self.in_flight.finish(patience.total_seconds())
        if not is_finished:
            warnings.warn("an hccl process group ended with collectives in flight: they are aborted", stacklevel=2)
        if not is_finished or not self.in_flight.is_empty():
            self.abort()
        if not self.in_flight.join(_AFTER_ABORT):
            self._keep()
        self._gloo = self.agreement.gloo = None

    def leave(self) -> None:
        """End in a forked child, which has none of the threads."""
        self._ended = "a forked process cannot use the hccl process groups of its parent: start it by 'spawn'"
        self._connections.leave()
        self._keep()

    def _keep(self) -> None:
        """Never destroy gloo's groups: that would wait for threads that do not end."""
        for gloo in (self._gloo, self.agreement.gloo):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(gloo))


def synchronize() -> None:
    """Wait for the works in flight of all groups, as a device does for all its streams.

    Raises:
        torch.distributed.DistBackendError: One failed.
    """
    for transport in tuple(_live):
        transport.in_flight.wait()


def register() -> None:
    """End the groups that are left with the process, and leave those of the parent in a forked one."""
    atexit.register(_end_all)
    os.register_at_fork(after_in_child=_leave_all)


def _end_all() -> None:
    for transport in reversed(tuple(_live)):
        transport.end(_PATIENCE)


def _leave_all() -> None:
    for transport in tuple(_live):
        transport.leave()
    _live.clear()
