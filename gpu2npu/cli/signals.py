"""Ending a run that is asked to end: by Ctrl-C, by `kill`, by a terminal that closes."""

from __future__ import annotations

import signal
from types import FrameType

from gpu2npu.system import ENDING_SIGNALS


class EndedBySignal(BaseException):
    """The run was asked to end. What it has begun is removed on the way out; the message is for the user."""

    def __init__(self, number: int) -> None:
        super().__init__("Interrupted." if number == signal.SIGINT else f"Ended by {signal.Signals(number).name}.")
        self.number = number
        self.exit_code = 128 + number  # as shells have it


def end_cleanly_on_signals() -> None:
    """Have the signals that end the process raise EndedBySignal, so that no half-written output and no worker stays."""
    for number in ENDING_SIGNALS:
        # Under nohup a signal is ignored, and stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    for each in ENDING_SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # a second Ctrl-C would leave what the first one began to remove
    raise EndedBySignal(number)
