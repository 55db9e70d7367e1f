"""What `gpu2npu check` costs on projects that none of us wrote: with an empty cache, and again with what that left."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.archives import Package, fetch_package
from benchmarks.tree import measure

# Pinned, so that numbers can be compared. transformers as its source distribution: with its tests and examples.
PACKAGES = (
    Package(
        "timm",
        "1.0.31",
        "timm-1.0.31-py3-none-any.whl",
        "5bd50f7d0fe6d09bf9285ac2523234a1b7e6bf075c0be3e7aed09139fcb617c7",
    ),
    Package(
        "transformers",
        "5.23.0",
        "transformers-5.23.0.tar.gz",
        "19d647a4d5d903a7c644ca5cde2d86efc3dde7d8c687ae7988806ff2205efa71",
    ),
)
VERSION = "2.7.1"


@dataclass(frozen=True)
class CheckCost:
    """Wall-clock seconds for `lines` lines in `files` Python files: `cold` with an empty cache, then `cached`."""

    name: str
    files: int
    lines: int
    cold: float
    cached: float


def check_trees(folder: Path, megatron: Path) -> list[tuple[str, Path]]:
    """The projects by name, fetched below `folder` where they are not yet. Raises ArchiveError."""
    return [("megatron-core", megatron), *((package.name, fetch_package(package, folder)) for package in PACKAGES)]


def measure_check(name: str, tree: Path, scratch: Path) -> CheckCost:
    """Raises CalledProcessError when a check ends with another exit code than 0 and 1."""
    size = measure(tree)
    seconds = [_check(tree, scratch / f"cache-{name}") for _ in range(2)]
    return CheckCost(name, size.files, size.lines, *seconds)


def _check(tree: Path, cache: Path) -> float:
    command = [
        sys.executable,
        "-m",
        "gpu2npu",
        "check",
        tree,
        "-v",
        VERSION,
        "-q",
        "--cache-dir",
        cache,
        "-o",
        "/dev/null",
    ]
    start = time.perf_counter()
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode not in (0, 1):
        raise subprocess.CalledProcessError(finished.returncode, command, finished.stdout, finished.stderr)
    return time.perf_counter() - start


def format_check(costs: list[CheckCost]) -> str:
    """One line a project."""
    return "\n".join(
        f"check {cost.name}: {cost.files:,} files, {cost.lines:,} lines; cold {cost.cold:.1f} s, "
        f"{cost.lines / cost.cold:,.0f} lines/s; cached {cost.cached:.1f} s, {cost.lines / cost.cached:,.0f} lines/s "
        f"({cost.cold / cost.cached:.1f} times as fast)"
        for cost in costs
    )
