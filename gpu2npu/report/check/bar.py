"""The bar of `--fail-on`: what makes a check fail."""

from __future__ import annotations

from enum import Enum

from gpu2npu.report.check.result import KINDS, SEVERITIES

ANY, NEVER = "any", "never"


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
