"""The exit code of a check, by the bar of `--fail-on`: what makes a check fail."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from gpu2npu.report.check.result import KINDS, SEVERITIES

ANY, NEVER = "any", "never"
EXIT_CLEAN = 0
EXIT_FINDINGS = 1


def above(bar: str) -> frozenset[Enum]:
    """The kinds, or severities, that are at the bar or worse; `any` stands for the least kind, `never` for none.

    Raises ValueError where there is no such kind or severity.
    """
    if bar == NEVER:
        return frozenset()
    last = KINDS[-1].value if bar == ANY else bar
    scales: tuple[tuple[Enum, ...], ...] = (KINDS, SEVERITIES)
    for scale in scales:
        values = [each.value for each in scale]
        if last in values:
            return frozenset(scale[: values.index(last) + 1])
    raise ValueError(f"no kind or severity is called {bar!r}")


def exit_code(counted: Iterable[tuple[Enum, int]], failed: bool, bar: str) -> int:
    """By what is at or above the bar: a severity counts with those before it, and so does a kind. `failed` says that a
    file could not be read or parsed."""
    failing = above(bar)
    failed = failed and bar != NEVER
    return EXIT_FINDINGS if failed or any(count and each in failing for each, count in counted) else EXIT_CLEAN
