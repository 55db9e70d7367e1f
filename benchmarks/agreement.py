"""Compares what migrate, check and analyse say about the ten labelled packages from PyPI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.archives import fetch_package
from benchmarks.labels import LABELS_ARE_FOR, read_packages
from tools.agreement import agreement

_SHOWN = 5


def compare_packages(folder: Path) -> str:
    """A line for each package, and the first places about which they disagree. `folder` has the unpacked packages, or
    gets them. Raises ArchiveError when one cannot be fetched."""
    return "\n".join(("migrate, check and analyse about the labelled packages:", *_lines(folder)))


def _lines(folder: Path) -> Iterator[str]:
    for package in read_packages():
        result = agreement(fetch_package(package, folder), LABELS_ARE_FOR, None)
        count = len(result.disagreements)
        yield f"{package.name}: {result.changes} changes, {result.findings} findings, {count} disagreements"
        yield from map(str, result.disagreements[:_SHOWN])
