"""Runs one job and judges how it ended: "well", or what was wrong."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.stress import jobs

FAILURES = {"raise": 1, "exit": 3, "kill": -9}  # the exit code of a rank that fails in each way

_WITHIN = 30.0  # seconds from one rank's failure to the end of the others
_CRASHES = ("terminate called", "Segmentation", "Fatal Python error", "(SIGABRT)", "(SIGSEGV)", "(SIGBUS)")


def succeeding(start: jobs.Start, ranks: int, end: str, limit: float) -> str:
    """The verdict on a job that trains and ends its groups (`end` is "destroy") or leaves them ("leave")."""
    with _folder() as folder:
        ended = start(ranks, [end], folder, limit)
    wanted = {f"rank {rank}: {words}" for rank in range(ranks) for words in (f"trained, {ranks} ranks", "left")}
    return _reported(ended, _fault(ended) or ("" if wanted <= set(ended.output.splitlines()) else "output was lost"))


def failing(start: jobs.Start, ranks: int, way: str, choose: random.Random, limit: float) -> str:
    """The verdict on a job in which a rank fails at a random moment; `way` is one of `FAILURES`."""
    rank = choose.randrange(ranks)
    with _folder() as folder:
        moment = folder / "moment"
        arguments = ["leave", str(rank), way, str(round(choose.uniform(0, 2), 3)), str(moment)]
        ended = start(ranks, arguments, folder, limit)
        failed = float(moment.read_text()) if moment.exists() else time.time()
    seconds = ended.ended - failed
    fault = _fault(ended)
    if not fault and seconds > _WITHIN:
        fault = f"{seconds:.0f} s after the failure"
    if not fault and not (any(ended.codes) and _names(ended.output, rank, way, start is jobs.torchrun)):
        fault = "without that rank's error"
    if not fault and start is jobs.forked and ended.codes[rank] != FAILURES[way]:
        fault = f"the failing rank's code is {ended.codes[rank]}"
    return _reported(ended, fault)


def _names(output: str, rank: int, way: str, is_torchruns: bool) -> bool:
    """Return whether the job's output says which rank failed."""
    signs = [f"rank {rank} has ended", f"rank {rank} has closed", f"rank {rank} gives up"]
    if is_torchruns:
        signs += [f"rank: {rank} ", f"exitcode: {FAILURES[way]} "]
    return any(sign in output for sign in signs)


def _fault(ended: jobs.Ended) -> str:
    """A fault that no job may have; empty when there is none."""
    if None in ended.codes:
        return "hung"
    if any(sign in ended.output for sign in _CRASHES) or any(code in (-6, -7, -11) for code in ended.codes):
        return "a signal"
    if ended.left:
        return f"{ended.left} processes stayed"
    return ""


def _reported(ended: jobs.Ended, fault: str) -> str:
    """The verdict; the output of a job that ended badly is shown."""
    if fault:
        sys.stderr.write(f"{fault}; exit codes {ended.codes}\n{ended.output[-4000:]}\n")
    return fault or "well"


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """An empty folder, removed by its owner: a forked rank leaves here too."""
    owner, folder = os.getpid(), Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder)
