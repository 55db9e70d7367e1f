"""The device of the original's run: a GPU, or one that is played on the CPU."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import torch

from gpu2npu.language import shown, use
from gpu2npu.verify import reference
from gpu2npu.verify.reference import rounding
from gpu2npu.verify.reference.accelerator import CannotPlayError

if TYPE_CHECKING:
    from gpu2npu.verify.recording.environment import RecordingSettings


def choose_device(found: RecordingSettings) -> None:
    """Let the original have GPUs: the real ones of a PyTorch that is built for them, else played ones.

    Ends the program where it can have neither.
    """
    rounding.install(found.rounding, found.coarse)
    if torch.cuda.is_available():
        if rounding.is_on():
            from gpu2npu.verify.reference.rounding_mode import Rounding

            Rounding("cuda").__enter__()
        return
    try:
        reference.install(found.gpus)
    except CannotPlayError as error:
        use(found.lang)
        sys.exit(shown(f"Error: {error}."))
