"""Worker processes: what crashes or hangs costs one entry and is listed as its failure."""

from __future__ import annotations

import os
import queue
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.emulator_coverage.outcome import Outcome, decode

ROOT = Path(__file__).parents[2]
STARTING = 120.0  # seconds that a process may take to import torch and its tables, beside its first entry


class Worker:
    """One process and the pipe to it; started again when it has died."""

    def __init__(self, suite: str, mode: str, dtype: str, timeout: float) -> None:
        self.arguments = (suite, mode, dtype)
        self.timeout = timeout
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, name: str) -> Outcome:
        """The outcome of one entry, a failure where the process dies over it or takes too long."""
        allowed = self.timeout
        if self.process is None:
            self.process = self._start()
            allowed += STARTING
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(f"{name}\n".encode())
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], allowed)
        except BrokenPipeError:
            ready = [self.process.stdout]
        line = self.process.stdout.readline() if ready else b""
        if line:
            return decode(line.decode())
        self.process.kill()
        code = self.process.wait()
        self.process = None
        reason = f"the process died (exit code {code})" if ready else f"no result within {self.timeout:.0f} s"
        return Outcome(*self.arguments, name, False, reason, 0, 0, False, False, (), self.timeout)

    def close(self) -> None:
        """End the process."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        site = ROOT / "gpu2npu" / "emulator" / "site"
        paths = [str(site), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        environment["GPU2NPU_STRICT"] = "1" if self.arguments[1] == "strict" else "0"
        return subprocess.Popen(
            [sys.executable, "-m", "tools.emulator_coverage.worker", *self.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env=environment,
        )


def run_all(
    suite: str,
    mode: str,
    dtype: str,
    names: Sequence[str],
    jobs: int,
    timeout: float,
    report: Callable[[Outcome], None],
) -> list[Outcome]:
    """The outcomes of the named entries, in their order; `report` is called as they come."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    found: dict[str, Outcome] = {}

    def work() -> None:
        worker = Worker(suite, mode, dtype, timeout)
        while True:
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                break
            found[name] = worker.run(name)
            report(found[name])
        worker.close()

    threads = [threading.Thread(target=work) for _ in range(min(jobs, len(names)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[name] for name in names]
