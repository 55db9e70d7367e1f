"""Running a command and what it takes: seconds by the clock, seconds of the processors, memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """Wall-clock seconds of a command, those that its processes had a core (`cpu`), and the bytes of memory that the
    largest of them had."""

    seconds: float
    cpu: float
    peak: int


# A process of its own: Linux counts as a program's memory also what the process had that started it.
_LAUNCHER = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(code)
"""


def run(command: Sequence[str | Path], cwd: Path | None = None, accepted: Sequence[int] = (0,)) -> Run:
    """Run a command whose output nobody needs, as an installed program: with its byte code kept on disk.

    Raises CalledProcessError when its exit code is not an accepted one.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    launcher = [sys.executable, "-c", _LAUNCHER, *command]
    start = time.perf_counter()
    finished = subprocess.run(launcher, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if finished.returncode not in accepted:
        raise subprocess.CalledProcessError(finished.returncode, command, finished.stdout, finished.stderr)
    cpu, peak = finished.stdout.split()
    return Run(seconds, float(cpu), int(peak) * 1024)
