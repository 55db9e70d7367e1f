"""Begins the recording of this process; called when torch has been imported."""

from __future__ import annotations

import sys


def begin() -> None:
    """Make the reference device if it is wanted, serve the random draws, and hook the recorder into torch."""
    from gpu2npu.verify.recording.environment import settings

    found = settings()
    if found is None:
        return
    if found.gpus:
        from gpu2npu.verify import reference
        from gpu2npu.verify.reference import rounding
        from gpu2npu.verify.reference.accelerator import CannotPlayError

        try:
            reference.install(found.gpus)
        except CannotPlayError as error:
            sys.exit(f"Error: {error}.")
        rounding.install(found.rounding, found.coarse)

    from gpu2npu.verify.recording import draws
    from gpu2npu.verify.recording.recorder import Recorder

    recorder = Recorder(found)
    draws.install(recorder.draw)
    recorder.install()
