"""A thread that looks at what is in flight twice a second: who waits in C++ cannot look at anything else."""

from __future__ import annotations

import threading
from collections.abc import Callable

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
