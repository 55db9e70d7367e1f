"""The losses of `gpu2npu verify` on a terminal: each on a line of its own, above the progress bar."""

import os
import pty
import sys

import pytest

from gpu2npu.cli.verify.text import Losses

SHOWN_AGAIN = b"\x1b[?25h"  # the cursor, when the bar has gone


@pytest.mark.parametrize("one_side", [False, True])
def test_each_step_is_on_a_line_of_its_own(one_side: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Losses(2, terminal) as losses:
            for steps in ({0: 1.5}, {0: 1.5, 1: 1.25}):
                if one_side:
                    losses.show_one(steps)
                else:
                    losses.show(steps, steps)
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
