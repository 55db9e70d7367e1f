"""The table that the benchmark prints."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One contestant: its wall-clock `seconds` in each round over `lines` lines of Python."""

    name: str
    lines: int
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def speed(self) -> float:
        """Lines per second in the median round."""
        return self.lines / self.median


def format_table(rows: Sequence[Row], yardstick: Row) -> str:
    """The rows as aligned text: median and extremes of the rounds, speed, speed as a multiple of the yardstick's."""
    header = ["", "median s", "min s", "max s", "lines", "lines/s", f"x {yardstick.name}"]
    cells = [
        [
            row.name,
            f"{row.median:.2f}",
            f"{min(row.seconds):.2f}",
            f"{max(row.seconds):.2f}",
            f"{row.lines:,}",
            f"{row.speed:,.0f}",
            f"{row.speed / yardstick.speed:.2f}",
        ]
        for row in rows
    ]
    widths = [max(len(line[column]) for line in [header, *cells]) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in [header, *cells]
    )


def format_startup(command: str, seconds: Sequence[float]) -> str:
    best, median = min(seconds), statistics.median(seconds)
    return f"{command}: best {best:.3f} s, median {median:.3f} s of {len(seconds)} runs"
