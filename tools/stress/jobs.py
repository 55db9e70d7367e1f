"""Starts one job, and records how it ended: its output, its exit codes, its time, and processes that stay."""

from __future__ import annotations

import contextlib
import os
import runpy
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

RANK = Path(__file__).with_name("rank.py")
_MARK = "GPU2NPU_STRESS_JOB"  # an environment variable that names the job in all its processes


@dataclass(frozen=True)
class Ended:
    """The end of a job.

    `codes` has one exit code for each rank that was forked, or torchrun's own; None for what had to be killed.
    """

    codes: tuple[int | None, ...]
    output: str
    ended: float  # the time of day, in seconds
    left: int  # processes that were still there


Start = Callable[[int, Sequence[str], Path, float], Ended]


def torchrun(ranks: int, arguments: Sequence[str], folder: Path, limit: float) -> Ended:
    """Run `rank.py` under torchrun, for `limit` seconds at most."""
    mark, log = secrets.token_hex(8), folder / "output"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks)]
    environment = {**os.environ, _MARK: mark, "OMP_NUM_THREADS": "1"}
    with log.open("ab") as output:
        job = subprocess.Popen(
            [*command, str(RANK), *arguments], stdout=output, stderr=output, env=environment, start_new_session=True
        )
        try:
            code: int | None = job.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
    ended = time.time()
    left = _kill_marked(mark)
    job.wait()
    return Ended((code,), log.read_text(errors="replace"), ended, left)


def forked(ranks: int, arguments: Sequence[str], folder: Path, limit: float) -> Ended:
    """Run `rank.py` in ranks forked from this process, which has imported torch; each ends as an interpreter does."""
    log = folder / "output"
    log.touch()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    sys.stdout.flush()
    processes = [_fork(rank, ranks, port, arguments, log) for rank in range(ranks)]
    codes: dict[int, int | None] = {}
    deadline = time.monotonic() + limit
    while len(codes) < ranks and time.monotonic() < deadline:
        process, status = os.waitpid(-1, os.WNOHANG)
        if process in processes:
            codes[process] = os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    ended = time.time()
    for process in processes:
        if process not in codes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    left = ranks - len(codes)
    return Ended(tuple(map(codes.get, processes)), log.read_text(errors="replace"), ended, left)


def _fork(rank: int, ranks: int, port: int, arguments: Sequence[str], log: Path) -> int:
    """The new process; in it this function leaves by SystemExit or the script's exception, and Python ends."""
    process = os.fork()
    if process:
        return process
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in names.items()})
    sys.argv = [str(RANK), *arguments]
    runpy.run_path(str(RANK), run_name="__main__")
    sys.exit()


def _kill_marked(mark: str) -> int:
    """End what is left of a job, and count it."""
    wanted, count = f"{_MARK}={mark}".encode(), 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
                count += 1
    return count
