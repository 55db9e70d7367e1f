"""Begins the recording of this process; called when torch has been imported."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from gpu2npu.verify.recording.environment import RecordingSettings


def begin() -> None:
    """Make the reference device if it is wanted, serve the random draws, and hook the recorder into torch."""
    from gpu2npu.verify.recording.environment import settings

    found = settings()
    if found is None:
        return
    if found.gpus:
        from gpu2npu.verify.reference.device_choice import choose_device

        choose_device(found)
    else:
        _load_torch_npu()

    from gpu2npu.verify.recording import draws
    from gpu2npu.verify.recording.recorder import Recorder

    _keep_traceback(found)
    recorder = Recorder(found)
    draws.install(recorder.draw)
    recorder.install()


def _keep_traceback(found: RecordingSettings) -> None:
    """Write the error and traceback with which this process ends, apart from what other ranks and launchers print."""
    from gpu2npu.verify.recording.format import RANK, TRACEBACK

    show, process = sys.excepthook, os.getpid()
    folder = found.folder / f"process-{process}"
    folder.mkdir(parents=True, exist_ok=True)

    def keep(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() == process:
            rank = f"{RANK}{os.environ['RANK']}\n" if int(os.environ.get("WORLD_SIZE", "1")) > 1 else ""
            words = "".join(traceback.format_exception_only(kind, error))
            stack = "".join(traceback.format_exception(kind, error, trace)).removesuffix(words)
            (folder / TRACEBACK).write_text(f"{rank}{words}\n{stack}", encoding="utf-8")
        show(kind, error, trace)

    sys.excepthook = keep


def _load_torch_npu() -> None:
    """Have a real torch_npu register its kernels before those that draw are replaced; from 2.5 `import torch` does."""
    from gpu2npu.emulator.launch import real_torch_npu

    if "torch_npu" not in sys.modules and "GPU2NPU_NPUS" not in os.environ and real_torch_npu(sys.path) is not None:
        importlib.import_module("torch_npu")
