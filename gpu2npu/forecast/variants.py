"""Further shapes-only runs that change one of the program's own options: its batch, and the usual means against memory.

An option is one that the program's argparse takes; nothing else is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from gpu2npu.language import message

BATCH = message("batch")
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
_NO_MORE = 32  # times as large a batch needs no more memory: then none is too large
_RANKS = ("--nproc_per_node", "--nproc-per-node")  # of torchrun
_ACCUMULATION = re.compile(r"^--(gradient[-_]|grad[-_])?accum(ulation|ulate)?([-_](steps|iter))?$")


class FurtherRun(Struct, frozen=True):
    """A run to make: what it changes, and the words to add to the command or to change there."""

    name: str
    words: tuple[str, ...]
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


def of_batch(option: str, count: int) -> FurtherRun:
    """Return the run with another batch."""
    return FurtherRun(BATCH, (option, str(count)))


def means(options: Sequence[Mapping[str, Any]]) -> list[FurtherRun]:
    """Return the runs with means that the program has and does not use."""
    found = []
    for title, pattern in _MEANS:
        option = next((each for each in options if each["flag"] and any(map(pattern.match, each["names"]))), None)
        if option is not None and not option["value"]:
            name = next(name for name in option["names"] if pattern.match(name))
            found.append(FurtherRun(title, (name,)))
    batch = batch_option(options)
    for option in options:
        name = next(filter(_ACCUMULATION.match, option["names"]), None)
        if name and batch and isinstance(option["value"], int) and batch[1] > 1:
            words = (name, str(2 * max(option["value"], 1)), batch[0], str(batch[1] // 2))
            found.append(FurtherRun(message("gradient accumulation"), words))
            break
    return found


def more_ranks(command: Sequence[str], npus: int) -> list[FurtherRun]:
    """Return the runs on 2 and 4 times as many NPUs of a program that a launcher starts, up to `npus`."""
    found = _ranks_of(command)
    if found is None:
        return []
    count = found[2]
    wanted = [each for each in (2 * count, 4 * count) if each <= npus]
    return [FurtherRun(_SHARDING, (f"{_RANKS[0]}={each}",), ranks=each) for each in wanted]


def _ranks_of(command: Sequence[str]) -> tuple[int, int, int] | None:
    """Return which words of a command give the number of ranks, from and to, and the number."""
    for index, word in enumerate(command):
        name, equals, value = word.partition("=")
        if name in _RANKS:
            last = index + 1 if equals else index + 2
            value = value if equals else command[index + 1] if last <= len(command) else ""
            return (index, last, int(value)) if value.isdecimal() and int(value) else None
    return None


def next_batch(tried: Mapping[int, int | None], usable: int) -> int | None:
    """Return the batch to run next in search of the largest that fits; None where it is known, or none follows.

    A line through two runs gives the first guess. Memory does not follow a line, so what it gives is run too,
    and the search goes on between the largest that fits and the smallest that does not, until they are 1 or 1 % apart.

    Args:
        tried: The bytes that each batch needs; None where it does not fit.
        usable: The bytes that there are.
    """
    fitting = sorted(batch for batch, needed in tried.items() if needed is not None)
    too_large = smallest_too_large(tried)
    if not fitting:
        return max(too_large // 4, 1) if too_large is not None and too_large > 1 else None
    low = fitting[-1]
    margin = max(1, low // 100)
    if too_large is not None and too_large - low <= margin:
        return None
    guess = 2 * low
    if len(fitting) > 1:
        far = max((batch for batch in fitting if batch <= low * 3 // 4), default=fitting[0])
        need = {batch: needed or 0 for batch, needed in tried.items()}
        slopes = [(need[low] - need[each]) / (low - each) for each in (far, fitting[0])]
        slope = slopes[0] if slopes[0] > 0 else slopes[1]
        gap = low - fitting[-2]
        step = 2 * gap if gap < low // 3 else margin  # runs that are close are a line that gives too little
        if slope > 0:
            guess = low + max(int((usable - need[low]) / slope), step)
        elif too_large is None and low >= _NO_MORE * fitting[0]:
            return None
    return guess if too_large is None or guess < too_large else (low + too_large) // 2


def smallest_too_large(tried: Mapping[int, int | None]) -> int | None:
    """Return the smallest batch that was run and does not fit."""
    return min((batch for batch, needed in tried.items() if needed is None), default=None)


def largest_batch(tried: Mapping[int, int | None]) -> int | None:
    """Return the largest batch that was run and fits, 0 if not even 1 does; None where no batch is too large."""
    if smallest_too_large(tried) is None:
        return None
    found = max((batch for batch, needed in tried.items() if needed is not None), default=None)
    return 0 if found is None and 1 in tried else found
