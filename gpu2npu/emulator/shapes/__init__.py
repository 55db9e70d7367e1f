"""Shapes-only runs: operators check and infer, and hand out memory that nobody touches; only arithmetic is left out.

GPU2NPU_SHAPES_ONLY=1 switches it on, for a whole process and its children.
"""

from __future__ import annotations

import functools
import os


@functools.cache
def is_on() -> bool:
    """Return whether this process runs shapes-only."""
    return os.environ.get("GPU2NPU_SHAPES_ONLY", "") == "1"
