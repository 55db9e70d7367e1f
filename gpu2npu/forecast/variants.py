"""Further shapes-only runs that change one of the program's own options: its batch, and the usual means against memory.

An option is one that the program's argparse takes; nothing else is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from gpu2npu.language import message

_BATCH = re.compile(r"^-{1,2}((per[-_]device[-_])?(train[-_])?(micro[-_])?batch[-_]?size|bs|b)$")
_SHARDING = message("sharding (FSDP)")
_MEANS = (
    (
        message("activation checkpointing"),
        re.compile(r"^--.*(grad|activation|use)[-\w]*checkpoint(ing)?$|^--recompute$"),
    ),
    (message("16-bit floats"), re.compile(r"^--(use[-_])?(bf16|fp16|amp|mixed[-_]precision)$")),
    (_SHARDING, re.compile(r"^--(use[-_])?(fsdp2?|fully[-_]shard|zero)$")),
)
_RANKS = ("--nproc_per_node", "--nproc-per-node")  # of torchrun
_ACCUMULATION = re.compile(r"^--(gradient[-_]|grad[-_])?accum(ulation|ulate)?([-_](steps|iter))?$")


class FurtherRun(Struct, frozen=True):
    """A run to make: what it is about, the words to add to the command or to change there, and the batch."""

    name: str
    words: tuple[str, ...]
    batch: int | None = None
    ranks: int | None = None  # of its launcher

    def applied_to(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command of this run."""
        found = _ranks_of(command) if self.ranks is not None else None
        if found is None:
            return (*command, *self.words)
        first, last, _ = found
        return (*command[:first], *self.words, *command[last:])


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
            found.append(FurtherRun(f"{message('gradient accumulation')}: {' '.join(words)}", words))
            break
    return found


def more_ranks(command: Sequence[str], npus: int) -> list[FurtherRun]:
    """Return the runs on 2 and 4 times as many NPUs of a program that a launcher starts, up to `npus`."""
    found = _ranks_of(command)
    if found is None:
        return []
    count = found[2]
    wanted = [each for each in (2 * count, 4 * count) if each <= npus]
    return [FurtherRun(f"{_SHARDING}: {each} NPUs", (f"{_RANKS[0]}={each}",), ranks=each) for each in wanted]


def _ranks_of(command: Sequence[str]) -> tuple[int, int, int] | None:
    """Return which words of a command give the number of ranks, from and to, and the number."""
    for index, word in enumerate(command):
        name, equals, value = word.partition("=")
        if name in _RANKS:
            last = index + 1 if equals else index + 2
            value = value if equals else command[index + 1] if last <= len(command) else ""
            return (index, last, int(value)) if value.isdecimal() and int(value) else None
    return None


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
