"""The text that `gpu2npu verify` shows while it runs: losses, how far it is, and which rank failed."""

import io
import os
import pty
import sys
import threading
from pathlib import Path

import pytest

from gpu2npu.cli.verify.text import Losses
from gpu2npu.verify.programs import FailedError, RecordedProgram
from gpu2npu.verify.recording.environment import RecordingSettings

SHOWN_AGAIN = b"\x1b[?25h"  # the cursor, when the bar has gone


@pytest.mark.parametrize("one_side", [False, True])
def test_each_step_is_on_a_line_of_its_own(one_side: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Losses(2, terminal) as losses:
            for steps in ({0: 1.5}, {0: 1.5, 1: 1.25}):
                losses.show(steps, None if one_side else steps)
        terminal.flush()
        read = b""
        while SHOWN_AGAIN not in read:
            read += os.read(ours, 1 << 16)
    os.close(ours)
    written = read.decode()
    assert "Verifying" in written
    shown = ["1.5", "1.25"] if one_side else [f"original {loss}  migrated {loss}" for loss in ("1.5", "1.25")]
    lines = written.replace("\r", "\n").replace("\x1b[2K", "").split("\n")
    assert [line for line in lines if "step" in line] == [
        f"step   {number}  {loss}" for number, loss in enumerate(shown, 1)
    ]


class Pipe(io.StringIO):
    """A stream that is not a terminal; `told` is set by a line that has the words."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words, self.told = words, threading.Event()

    def write(self, text: str) -> int:
        if self.words in text:
            self.told.set()
        return super().write(text)


def test_a_silence_is_broken_whatever_the_process_does(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe("Both run: 1 of 3 steps, ")
    monkeypatch.setattr(sys, "stderr", pipe)
    monkeypatch.setattr("gpu2npu.cli.verify.text._SILENCE", 0.1)
    with Losses(3, io.StringIO()) as losses:
        losses.begin("Both run")
        losses.show({0: 1.5}, {0: 1.5})
        assert pipe.told.wait(60)
    assert pipe.getvalue().startswith("Both run.\n")


def test_the_rank_that_failed_is_named(tmp_path: Path) -> None:
    settings = RecordingSettings(tmp_path, tmp_path, 1)
    program = RecordedProgram("the original", tmp_path, ("train.py",), tmp_path, settings, {})
    error = FailedError(program, 1, "rank=3\nValueError: bad batch")
    assert (str(error), error.stderr) == ("the original failed in rank 3 with exit code 1", "ValueError: bad batch")
    error = FailedError(program, 1, "ValueError: bad batch")
    assert (str(error), error.stderr) == ("the original failed with exit code 1", "ValueError: bad batch")
