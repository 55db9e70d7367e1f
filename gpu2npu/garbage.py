"""Python's cyclic garbage collector, and work that is better done without it."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Without collections: of the millions of objects that syntax trees and their facts are made of hardly any is in a
    cycle, 5 kB a file, and to look at all of them again and again takes longer than the work itself.

    Behind it the collector is as it was before.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
