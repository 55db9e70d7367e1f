"""docs/emulator-coverage.md, from outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from tools.emulator_coverage.outcome import Outcome


def document(outcomes: Sequence[Outcome]) -> str:
    """The page."""
    return ""
