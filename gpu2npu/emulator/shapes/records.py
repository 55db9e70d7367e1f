"""Records of the operators of a shapes-only run, for the forecast."""

from __future__ import annotations

from typing import Any


def operator(signature: Any, given: Any, result: Any) -> None:
    """Note an operator that would have run."""
