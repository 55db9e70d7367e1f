"""Compares what migrate, check and analyse say about ten packages from PyPI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.archives import Package, fetch_package
from benchmarks.labels import LABELS_ARE_FOR, read_packages
from tools.agreement import agreement

# Of all rounds of the labelled set, libraries and programs; 260,000 lines in all.
COMPARED = frozenset(
    {"asteroid", "audiocraft", "catalyst", "effdet", "litgpt"}
    | {"mosaicml", "rl_games", "torchreid", "torchtune", "yolox"}
)
_SHOWN = 5


def compared_packages() -> list[Package]:
    """The ten packages."""
    return [package for package in read_packages() if package.name in COMPARED]


def compare_packages(folder: Path) -> Iterator[str]:
    """Yield a line for each package, and the first places about which migrate, check and analyse disagree. `folder` has
    the unpacked packages, or gets them. Raises ArchiveError when one cannot be fetched."""
    for package in compared_packages():
        result = agreement(fetch_package(package, folder), LABELS_ARE_FOR, None)
        count = len(result.disagreements)
        yield f"{package.name}: {result.changes} changes, {result.findings} findings, {count} disagreements"
        yield from map(str, result.disagreements[:_SHOWN])
