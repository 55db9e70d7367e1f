"""Arithmetic on sets of times: sorted lists of intervals (start, end) that do not touch."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[int, int]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Merge intervals into those in which at least one of them is."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def difference(ours: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """Return the intervals in which ours are and the others are not."""
    result, taken, first = [], union(others), 0
    for start, end in union(ours):
        while first < len(taken) and taken[first][1] <= start:
            first += 1
        following = first
        while following < len(taken) and taken[following][0] < end:
            other_start, other_end = taken[following]
            if other_start > start:
                result.append((start, other_start))
            start = max(start, other_end)
            following += 1
        if start < end:
            result.append((start, end))
    return result


def clipped(intervals: Iterable[Interval], start: int, end: int) -> list[Interval]:
    """Return the parts of intervals that lie between two moments."""
    return union((max(a, start), min(b, end)) for a, b in intervals)


def total(intervals: Iterable[Interval]) -> int:
    """Return the time that intervals take together."""
    return sum(end - start for start, end in intervals)
