"""Ends hundreds of jobs on several ranks and prints a table of what became of them; exits 1 if one ended badly.

Run under `gpu2npu run` (`make stress` does). A job that should succeed has ended well when every exit code is 0, every
rank has written all its lines, and no process is left. A job with a failing rank has ended well when the others ended
within 30 seconds of the failure by that rank's error, none by a signal of its own, and no process is left.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tools.stress import jobs

_WITHIN = 30.0  # seconds from one rank's failure to the end of the others
_CRASHES = ("terminate called", "Segmentation", "Fatal Python error", "(SIGABRT)", "(SIGSEGV)", "(SIGBUS)")
_CODES = {"raise": 1, "exit": 3, "kill": -9}

Start = Callable[..., jobs.Ended]
Kind = TypeVar("Kind")


def main() -> int:
    """Run the jobs that the command line asks for."""
    options = _options()
    start: Start = jobs.torchrun
    if options.start == "fork":
        start = jobs.forked
        _import()
    choose = random.Random(options.seed)
    kinds = [(ranks, end, busy) for ranks in options.ranks for end in ("destroy", "leave") for busy in (False, True)]
    counts: Counter[tuple[str, str]] = Counter()
    for (ranks, end, busy), runs in _shares(kinds, options.runs * len(options.ranks)):
        row = f"{ranks} ranks, {end}{', beside busy processes' if busy else ''}"
        with _busy(busy):
            for _ in range(runs):
                counts[row, _succeeding(start, ranks, end, options.limit)] += 1
        _print(row, counts)
    for (ranks, way), failures in _shares(list(itertools.product(options.ranks, _CODES)), options.failing):
        row = f"{ranks} ranks, one fails: {way}"
        for _ in range(failures):
            counts[row, _failing(start, ranks, way, choose, options.limit)] += 1
        _print(row, counts)
    bad = sum(count for (_, verdict), count in counts.items() if verdict != "well")
    sys.stdout.write(f"{sum(counts.values())} jobs, {bad} ended badly\n")
    return int(bad > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make stress", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="jobs for each number of ranks (100)")
    parser.add_argument("--failing", type=int, default=100, help="jobs in which a rank fails (100)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8], help="numbers of ranks (2 4 8)")
    parser.add_argument("--start", choices=["torchrun", "fork"], default="torchrun", help="fork: without a launcher")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a job hangs (600)")
    parser.add_argument("--seed", type=int, default=None, help="of the moments at which ranks fail")
    return parser.parse_args()


def _import() -> None:
    """What takes a rank seconds, here once."""
    import torch._dynamo  # noqa: F401
    import torch_npu  # type: ignore[import-not-found] # noqa: F401

    from gpu2npu.emulator.device import dispatch

    dispatch.load_kernels()


def _shares(kinds: Sequence[Kind], total: int) -> Iterator[tuple[Kind, int]]:
    """Share out a number of jobs as evenly as it goes."""
    for number, kind in enumerate(kinds):
        yield kind, total * (number + 1) // len(kinds) - total * number // len(kinds)


@contextlib.contextmanager
def _busy(wanted: bool) -> Iterator[None]:
    """Keep every core busy meanwhile."""
    owner = os.getpid()
    command = [sys.executable, "-S", "-E", "-c", "while True: pass"]
    spinning = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)] if wanted else []
    try:
        yield
    finally:
        if os.getpid() == owner:
            for process in spinning:
                process.kill()
                process.wait()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """An empty folder, removed by its owner: a forked rank leaves here too."""
    owner, folder = os.getpid(), Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder)


def _succeeding(start: Start, ranks: int, end: str, limit: float) -> str:
    with _folder() as folder:
        ended = start(ranks, [end], folder, limit)
    wanted = {f"rank {rank}: {words}" for rank in range(ranks) for words in (f"trained, {ranks} ranks", "left")}
    return _reported(ended, _faults(ended) or ("" if wanted <= set(ended.output.splitlines()) else "output was lost"))


def _failing(start: Start, ranks: int, way: str, choose: random.Random, limit: float) -> str:
    failing = choose.randrange(ranks)
    with _folder() as folder:
        moment = folder / "moment"
        arguments = ["leave", str(failing), way, str(round(choose.uniform(0, 2), 3)), str(moment)]
        ended = start(ranks, arguments, folder, limit)
        failed = float(moment.read_text()) if moment.exists() else time.time()
    error = f"rank {failing} has ended" in ended.output or f"rank {failing} gives up" in ended.output
    if start is jobs.torchrun:
        error = error or f"rank: {failing} " in ended.output or f"exitcode: {_CODES[way]} " in ended.output
    fault = _faults(ended)
    if not fault and ended.ended - failed > _WITHIN:
        fault = f"{ended.ended - failed:.0f} s after the failure"
    if not fault and (not error or not any(ended.codes)):
        fault = "without that rank's error"
    if start is jobs.forked and not fault and ended.codes[failing] != _CODES[way]:
        fault = f"the failing rank's code is {ended.codes[failing]}"
    return _reported(ended, fault)


def _faults(ended: jobs.Ended) -> str:
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


def _print(row: str, counts: Counter[tuple[str, str]]) -> None:
    verdicts = ", ".join(f"{count} {verdict}" for (name, verdict), count in sorted(counts.items()) if name == row)
    sys.stdout.write(f"{row:<40} {verdicts or 'not run'}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
