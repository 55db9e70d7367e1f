"""Python's cyclic garbage collector, and work that is better done without it."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_FILES_BETWEEN_COLLECTIONS = 2_000


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Without collections: of the millions of objects that syntax trees and their facts are made of hardly any is in a
    cycle, and to look at all of them again and again takes longer than the work itself.

    Behind it the collector is as it was before, whatever the work did to it.
    """
    was_enabled, thresholds = gc.isenabled(), gc.get_threshold()
    stop_collecting()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if was_enabled:
            gc.enable()
        else:
            gc.disable()


def stop_collecting() -> None:
    """Let nothing start a collection but a call for one."""
    gc.disable()
    gc.set_threshold(0)


def collect_after(done: int) -> None:
    """Free what the files of which so many are done have left in cycles."""
    if done % _FILES_BETWEEN_COLLECTIONS == 0:
        gc.collect(0)
