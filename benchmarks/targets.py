"""Targets for the migration and the check of large projects, beside what both take here and now.

A ratio is of seconds by the clock, of runs that took turns; on a machine with other work the seconds of the processors
say more, and stand beside them.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.run import Run, run

_GPU2NPU: tuple[str | Path, ...] = (sys.executable, "-m", "gpu2npu")
_PARSING = Path(__file__).with_name("parse_tree.py")
# Exit code 1 says that some file could not be migrated, or that there are findings.
_DONE = (0, 1)
_SMALL = {
    "train.py": "import torch\nfrom model import Net\n\nnet = Net().cuda()\ntorch.cuda.synchronize()\n",
    "model.py": "from torch import nn\n\n\nclass Net(nn.Module):\n    pass\n",
}


@dataclass(frozen=True)
class Target:
    """One line: what is measured, its value by the clock and by the processors' seconds, and the target."""

    name: str
    value: float
    by_cpu: float
    required: float
    unit: str


def measure_targets(
    tree: Path, large: Path, paconvert: Path, smaller: Path, scratch: Path, rounds: int
) -> list[Target]:
    """Measure each in `rounds` rounds: the migration of `tree`, of which PaConvert gets `smaller`, and the check of
    `large`. Raises CalledProcessError when a command fails."""
    runs: dict[str, list[Run]] = {"libcst": [], "-j1": [], "-j2": [], "PaConvert": [], "cold": [], "cached": []}
    contestants: dict[str, Callable[[], Run]] = {
        "libcst": lambda: run([sys.executable, _PARSING, tree]),
        "-j1": lambda: _migration(tree, scratch, 1),
        "-j2": lambda: _migration(tree, scratch, 2),
        "PaConvert": lambda: _paconvert(paconvert, smaller, scratch),
        "cold": lambda: _check(large, scratch / "cache"),
        "cached": lambda: _cached(scratch),
    }
    for number in range(rounds):
        for name, contestant in contestants.items():
            print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr)
            runs[name].append(contestant())
    largest = max(each.peak for name in ("-j1", "-j2", "cold") for each in runs[name])
    return [
        _ratio("migration -j1 against libcst.parse_module, one core", runs["libcst"], runs["-j1"], 3),
        _ratio("migration -j2 against libcst.parse_module, one core", runs["libcst"], runs["-j2"], 5),
        _ratio("migration -j2 against PaConvert --no_format", runs["PaConvert"], runs["-j2"], 5),
        _seconds(f"cold check of {large.name}, 2 processes", runs["cold"], 20),
        _seconds("cached check of a small project", runs["cached"], 0.5),
        Target("memory of the largest process", largest / 1e9, largest / 1e9, 0.3, "GB"),
    ]


def _migration(tree: Path, scratch: Path, jobs: int) -> Run:
    out = scratch / "out"
    result = run([*_GPU2NPU, "-i", tree, "-o", out, "-v", "2.1.0", "-q", "-j", str(jobs)], accepted=_DONE)
    shutil.rmtree(out)
    return result


def _paconvert(paconvert: Path, tree: Path, scratch: Path) -> Run:
    out = scratch / "paddle"
    result = run([paconvert, "--in_dir", tree, "--out_dir", out, "--no_format"], cwd=scratch)
    shutil.rmtree(out)
    return result


def _check(tree: Path, cache: Path) -> Run:
    shutil.rmtree(cache, ignore_errors=True)
    options: list[str | Path] = ["-v", "2.7.1", "-q", "-j", "2", "--cache-dir", cache, "-o", "/dev/null"]
    return run([*_GPU2NPU, "check", tree, *options], accepted=_DONE)


def _cached(scratch: Path) -> Run:
    small = scratch / "small"
    small.mkdir(exist_ok=True)
    for name, text in _SMALL.items():
        (small / name).write_text(text)
    command = [*_GPU2NPU, "check", small, "-v", "2.7.1", "-q", "--cache-dir", scratch / "small-cache"]
    run(command, accepted=_DONE)
    return run(command, accepted=_DONE)


def _ratio(name: str, peer: Sequence[Run], ours: Sequence[Run], required: float) -> Target:
    """Return how many times as fast ours is: the median of the rounds, by the clock and by the processors' seconds."""
    pairs = list(zip(peer, ours, strict=True))
    value = statistics.median(one.seconds / other.seconds for one, other in pairs)
    return Target(name, value, statistics.median(one.cpu / other.cpu for one, other in pairs), required, "times")


def _seconds(name: str, runs: Sequence[Run], required: float) -> Target:
    value = statistics.median(each.seconds for each in runs)
    return Target(name, value, statistics.median(each.cpu for each in runs), required, "s")


def format_targets(targets: Sequence[Target]) -> str:
    """The lines as aligned text."""
    header = ["", "measured", "by cpu", "asked", ""]
    cells = [
        [each.name, f"{each.value:.2f}", f"{each.by_cpu:.2f}", f"{each.required:g}", each.unit] for each in targets
    ]
    widths = [max(len(line[column]) for line in [header, *cells]) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:4], widths[1:4], strict=True)),
             line[4]]
        ).rstrip()
        for line in [header, *cells]
    )  # fmt: skip
