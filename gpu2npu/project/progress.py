"""The progress of a run, as the command line shows it."""

from __future__ import annotations

from typing import Protocol

from gpu2npu.language import message


class Progress(Protocol):
    """Called with the number of files that are done and the number there are; `verb` is what was done to them."""

    def __call__(self, done: int, total: int, verb: str = message("done")) -> None: ...


def no_progress(done: int, total: int, verb: str = "done") -> None:
    """Show nothing."""
