"""Further shapes-only runs that change one of the program's own options: its batch, and the usual means against memory.

An option is one that the program's argparse takes; nothing else is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

_BATCH = re.compile(r"^-{1,2}((per[-_]device[-_])?(train[-_])?(micro[-_])?batch[-_]?size|bs|b)$")
_MEANS = (
    ("activation checkpointing", re.compile(r"^--.*(grad|activation|use)[-\w]*checkpoint(ing)?$|^--recompute$")),
    ("16-bit floats", re.compile(r"^--(use[-_])?(bf16|fp16|amp|mixed[-_]precision)$")),
    ("sharding (FSDP)", re.compile(r"^--(use[-_])?(fsdp2?|fully[-_]shard|zero)$")),
)
_ACCUMULATION = re.compile(r"^--(gradient[-_]|grad[-_])?accum(ulation|ulate)?([-_](steps|iter))?$")


class FurtherRun(Struct, frozen=True):
    """A run to make: what it is about, the words to add to the command, and the batch that it then has."""

    name: str
    words: tuple[str, ...]
    batch: int | None = None


def batch_option(options: Sequence[Mapping[str, Any]]) -> tuple[str, int] | None:
    """Return the program's option for its batch, and its value."""
    for option in options:
        value = option["value"]
        for name in option["names"]:
            if _BATCH.match(name) and isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return name, value
    return None


def batches(options: Sequence[Mapping[str, Any]]) -> list[FurtherRun]:
    """Return two runs with other batches, from which the largest follows."""
    found = batch_option(options)
    if found is None:
        return []
    name, value = found
    return [FurtherRun(f"batch {count}", (name, str(count)), count) for count in (2 * value, 3 * value)]


def means(options: Sequence[Mapping[str, Any]]) -> list[FurtherRun]:
    """Return the runs with means that the program has and does not use."""
    found = []
    for title, pattern in _MEANS:
        option = next((each for each in options if each["flag"] and any(map(pattern.match, each["names"]))), None)
        if option is not None and not option["value"]:
            name = next(name for name in option["names"] if pattern.match(name))
            found.append(FurtherRun(f"{title}: {name}", (name,)))
    batch = batch_option(options)
    for option in options:
        name = next(filter(_ACCUMULATION.match, option["names"]), None)
        if name and batch and isinstance(option["value"], int) and batch[1] > 1:
            words = (name, str(2 * max(option["value"], 1)), batch[0], str(batch[1] // 2))
            found.append(FurtherRun(f"gradient accumulation: {' '.join(words)}", words))
            break
    return found


def largest_batch(points: Sequence[tuple[int, int]], usable: int) -> int | None:
    """Return the largest batch that fits, by a line of least squares through (batch, bytes); None where none follows.

    Where a larger batch needs no more memory there is no largest.
    """
    count = len(points)
    if count < 2:
        return None
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    if slope <= 0:
        return None
    return max(int((usable - (mean_y - slope * mean_x)) / slope), 0)
