"""The gloo groups beneath an hccl group, and the order in which an hccl group ends.

A group has two gloo groups (one for the bytes, one for the headers of `agreement`), each with threads in C++, and its
works in flight. The process owns them: they are held here until they are ended, in one of Python's threads, never
released by whoever drops the last reference. Gloo's threads run no Python and fulfil no future, since Python ends a
foreign thread that asks for the interpreter once that is being torn down, and C++ aborts the process then.

A group ends in this order:

1. No collective and no message is started any more.
2. The works that other ranks may need are waited for: all but messages to this rank.
3. The connections are shut down, so that what is left fails, here and on the other ranks. To destroy gloo's groups is
   not enough for that: their works hold the connections, and a script may hold works.
4. The group's own threads are joined; callbacks of futures have run.
5. Gloo's groups are destroyed, which joins gloo's threads, while they may still take the interpreter's lock to release
   tensors.

That is done

- by `destroy_process_group`, which waits as long as the group's timeout allows, as NCCL's finalize does, and only
  `_PATIENCE` when an exception is on its way;
- at the interpreter's exit, for the groups that are left, by an atexit handler that is registered when torch_npu is
  imported: after the script's other threads and its own atexit handlers, before anything is torn down. torch_npu does
  the same there (`_npu_shutdown`: synchronize the devices, destroy the groups). An uncaught exception and `sys.exit`
  come here too; the exit code is the script's. A process that multiprocessing or torch has spawned ends like this;
- nowhere when the process ends without Python: by a signal without a handler (SIGTERM, SIGKILL), `os._exit`, and in
  processes that multiprocessing has forked. The kernel closes the connections, and the other ranks see that. A handler
  for SIGTERM runs when the call that waits in C++ has come back; what follows is as for `sys.exit` or an exception.

Nobody waits for a rank that cannot come any more:

- A rank whose process has ended, or that has ended the group, has closed its connections. After an error that says so,
  the others are closed at once: every rank fails soon, not only the neighbours of the one that ended.
- A rank that waits in step 2 has not closed them yet, and two may wait there for each other. So a rank with a work that
  takes longer than `_LATE` writes in the store how far it has come (see `progress`), and reads what the others have
  written. If one of them has ended the group without its part in the work, step 3 follows: at once when
  somebody waits in this rank, and in step 2 when nothing is left that can still be done. A thread does this (`watch`),
  since whoever waits in gloo can do nothing else.
- Everything else ends with the group's timeout, half an hour unless the script has set it, and the error names the
  ranks that have not come.

A forked child owns nothing: it closes its copies of the connections, keeps gloo's objects for ever, since they would
wait for threads that it does not have, and a collective there raises.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store

from gpu2npu.emulator.distributed.agreement import Agreement, Start, Started
from gpu2npu.emulator.distributed.connections import Connections
from gpu2npu.emulator.distributed.failures import Failures, is_closed
from gpu2npu.emulator.distributed.in_flight import InFlight
from gpu2npu.emulator.distributed.peers import Peers
from gpu2npu.emulator.distributed.progress import PendingOperation, ProgressStore, RankProgress

_PATIENCE = timedelta(seconds=15)  # for other ranks, at the end of a process: one that fails ends soon
_AFTER_ABORT = 5.0  # seconds for threads to see that their connections are closed
_LATE = 1.0  # seconds that a work takes before the other ranks are informed

_live: dict[Transport, None] = {}  # in the order in which they were made


_PERIOD = 0.5  # seconds


class Watch:
    """Calls `look` from a thread of its own, from `start` to `stop`."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_stopped = threading.Event()

    def start(self) -> None:
        """Start the thread, unless it runs."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hccl watch", daemon=True)
                self._thread.start()

    def stop(self, patience: float) -> None:
        """Stop the thread for good and wait for its end, `patience` seconds at most."""
        self._is_stopped.set()
        if self._thread is not None:
            self._thread.join(patience)

    def _run(self) -> None:
        while not self._is_stopped.wait(_PERIOD):
            self._look()


class Transport:
    """Gloo's groups, their connections and the works in flight of one hccl group."""

    def __init__(self, store: Store, peers: Peers, timeout: timedelta) -> None:
        rank, size = peers.rank, len(peers.global_ranks)
        self.in_flight = InFlight()
        self.sent = [0] * size  # messages to each rank
        self.received = [0] * size  # messages from each that have been asked for
        self._peers, self._progress = peers, ProgressStore(store, rank, size)
        self._failures = Failures(peers, self._progress)
        self._connections = Connections()
        self._timeout = timeout
        self._ended, self._ending, self._is_aborted = "", threading.Lock(), False
        with self._connections.recorded():
            self._gloo: Any = dist.ProcessGroupGloo(store, rank, size, timeout)
            self.agreement = Agreement(store, rank, peers.global_ranks, timeout)
        peers.meet(self._connections.addresses)
        _live[self] = None
        if size > 1:
            with contextlib.suppress(RuntimeError):  # the interpreter ends and starts no more threads
                _watch.start()

    @property
    def gloo(self) -> Any:
        """Gloo's group for the bytes, as long as something is in flight.

        Raises:
            torch.distributed.DistBackendError: The group has ended.
        """
        if self._gloo is None:
            self.check()
        return self._gloo

    def check(self) -> None:
        """Raise torch.distributed.DistBackendError when nothing may be started any more."""
        if self._ended:
            raise dist.DistBackendError(self._ended)

    def call(self, header: torch.Tensor, start: Start) -> tuple[Started, int]:
        """A collective that starts when all ranks have come to it; see `Agreement.call`.

        Raises:
            torch.distributed.DistBackendError: The group has ended.
        """
        self.check()
        return self.agreement.call(header, start)

    def explain(self, operation: PendingOperation, words: str) -> str:
        """The sentence about a failure, from gloo's words. After a closed connection the whole group fails."""
        if is_closed(words):
            self.abort()
        return self._failures.explain(operation, words)

    def set_timeout(self, timeout: timedelta) -> None:
        """The longest a collective started from now on may take, and the end of the group."""
        self._timeout = timeout
        for gloo in (self.gloo, self.agreement.gloo):
            gloo._set_default_timeout(timeout)

    def abort(self, reason: str = "") -> None:
        """Have everything in flight fail, here and on the other ranks."""
        self._is_aborted = True
        if reason:
            self._failures.close(reason)
        self._connections.shut_down()

    def watch(self) -> None:
        """Abort when a work waits for a rank that has ended the group without it; see above."""
        now = time.monotonic()
        works = self.in_flight.pending()
        if self._is_aborted or not any(now - work.started > _LATE for work in works):
            return
        self._progress.write(RankProgress(self.agreement.called, tuple(self.sent), bool(self._ended)))
        others = self._progress.others()
        ended = {rank for rank, progress in others.items() if progress.has_ended}
        missing = [
            ended.intersection(work.operation.missing(others))
            for work in works
            if (work.operation.is_for_others if self._ended else work.is_awaited)
        ]
        if any(missing) and (all(missing) or not self._ended):
            self.abort(f"{self._failures.named(set().union(*missing))} ended the process group")

    def end(self, patience: timedelta | None = None) -> None:
        """Take the steps above, once.

        Args:
            patience: For works in flight; by default the group's timeout, and less when an exception is on its way.
        """
        with self._ending:
            if self._ended:
                return
            self._ended = "the hccl process group has ended"
        if patience is None:
            patience = self._timeout if sys.exc_info()[0] is None else min(self._timeout, _PATIENCE)
        try:
            if errors := self.in_flight.finish(patience.total_seconds()):
                more = f" (and {len(errors) - 1} more)" if errors[1:] else ""
                words = f"an hccl process group ended, and what was in flight failed: {errors[0]}{more}"
                warnings.warn(words, stacklevel=2)
        finally:
            self.abort("this rank has ended the process group")
            if not self.in_flight.join(_AFTER_ABORT):
                self._keep()
            self._gloo = self.agreement.gloo = None
            _live.pop(self, None)

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


def _look() -> None:
    for transport in tuple(_live):
        transport.watch()


_watch = Watch(_look)


def _end_all() -> None:
    for transport in reversed(tuple(_live)):
        transport.end(_PATIENCE)
    _watch.stop(_AFTER_ABORT)


def _leave_all() -> None:
    global _watch
    _watch = Watch(_look)
    for transport in tuple(_live):
        transport.leave()
    _live.clear()
