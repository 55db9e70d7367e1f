"""The names of distributions, what pip installs."""

from __future__ import annotations

import re

_SEPARATORS = re.compile(r"[-_.]+")


def normalised(distribution: str) -> str:
    """The name of a distribution as PEP 503 compares it."""
    return _SEPARATORS.sub("-", distribution).lower()
