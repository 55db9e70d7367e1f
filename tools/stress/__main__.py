"""Ends hundreds of jobs on several ranks and prints a table of what became of them; exits 1 if one ended badly.

Run under `gpu2npu run` (`make stress` does). A job that should succeed has ended well when every exit code is 0, every
rank has written all its lines, and no process is left. A job with a failing rank has ended well when the others ended
within 30 seconds of the failure by that rank's error, none by a signal of its own, and no process is left.

With `--record FILE` each verdict is written to the file, and jobs whose verdicts are there already are not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.stress import jobs, verdicts

_WELL = "well"


@dataclass(frozen=True)
class Kind:
    """Jobs of one row of the table."""

    ranks: int
    end: str  # "destroy" or "leave", or the way in which a rank fails
    is_busy: bool = False  # beside processes that keep every core busy

    @property
    def name(self) -> str:
        """The name that is in the table."""
        end = f"one fails: {self.end}" if self.end in verdicts.FAILURES else self.end
        return f"{self.ranks} ranks, {end}{', beside busy processes' if self.is_busy else ''}"


class Record:
    """Verdicts by kind of job, of this run and of those before it that wrote to the same file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.counts: Counter[tuple[str, str]] = Counter()
        if path is not None and path.exists():
            self.counts.update((kind, verdict) for kind, verdict in map(json.loads, path.read_text().splitlines()))

    def add(self, kind: Kind, verdict: str) -> None:
        """Count a job, and write its verdict down."""
        self.counts[kind.name, verdict] += 1
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps([kind.name, verdict]) + "\n")

    def done(self, kind: Kind) -> int:
        """Count the jobs of a kind that there have been."""
        return sum(self.verdicts(kind).values())

    def verdicts(self, kind: Kind) -> dict[str, int]:
        """Count the jobs of a kind by the way they ended."""
        return {verdict: count for (name, verdict), count in sorted(self.counts.items()) if name == kind.name}

    def bad(self) -> int:
        """Count the jobs of all kinds that ended badly."""
        return sum(count for (_, verdict), count in self.counts.items() if verdict != _WELL)


def main() -> int:
    """Run the jobs that the command line asks for."""
    options = _options()
    start: jobs.Start = jobs.torchrun
    if options.start == "fork":
        start = jobs.forked
        _import()
    choose, record = random.Random(options.seed), Record(options.record)
    for kind, wanted in _plan(options):
        with _busy(kind.is_busy and record.done(kind) < wanted):
            while record.done(kind) < wanted:
                if kind.end in verdicts.FAILURES:
                    verdict = verdicts.failing(start, kind.ranks, kind.end, choose, options.limit)
                else:
                    verdict = verdicts.succeeding(start, kind.ranks, kind.end, options.limit)
                record.add(kind, verdict)
        _print(kind, record)
    sys.stdout.write(f"{record.counts.total()} jobs, {record.bad()} ended badly\n")
    return int(record.bad() > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make stress", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="jobs for each number of ranks (100)")
    parser.add_argument("--failing", type=int, default=100, help="jobs in which a rank fails (100)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8], help="numbers of ranks (2 4 8)")
    parser.add_argument("--start", choices=["torchrun", "fork"], default="torchrun", help="fork: without a launcher")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a job hangs (600)")
    parser.add_argument("--seed", type=int, default=None, help="of the moments at which ranks fail")
    parser.add_argument("--record", type=Path, default=None, help="a file of verdicts, to go on after an interruption")
    return parser.parse_args()


def _plan(options: argparse.Namespace) -> Iterator[tuple[Kind, int]]:
    """The kinds of jobs, and how many of each."""
    for ranks in options.ranks:
        kinds = [Kind(ranks, end, is_busy) for end in ("destroy", "leave") for is_busy in (False, True)]
        yield from _shares(kinds, options.runs)
    yield from _shares([Kind(ranks, way) for ranks in options.ranks for way in verdicts.FAILURES], options.failing)


def _shares(kinds: Sequence[Kind], total: int) -> Iterator[tuple[Kind, int]]:
    """Share out a number of jobs as evenly as it goes."""
    for number, kind in enumerate(kinds):
        yield kind, total * (number + 1) // len(kinds) - total * number // len(kinds)


def _import() -> None:
    """Import here, once, what takes each rank seconds."""
    import torch._dynamo  # noqa: F401
    import torch_npu  # noqa: F401

    from gpu2npu.emulator.device.dispatch import dispatch

    dispatch.load_kernels()


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


def _print(kind: Kind, record: Record) -> None:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in record.verdicts(kind).items())
    sys.stdout.write(f"{kind.name:<40} {counts or 'not run'}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
