"""A line of the doctor's report."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Level = Literal["ok", "warning", "error"]


class CheckLine(Struct, frozen=True):
    """The answer of one check: what it is about, how it is, a sentence, and the command that mends it, "" for none."""

    check: str
    level: Level
    message: str
    remedy: str = ""


def ok(check: str, message: str) -> CheckLine:
    """A line about what is as it should be, or does not matter."""
    return CheckLine(check, "ok", message)


def warning(check: str, message: str, remedy: str) -> CheckLine:
    """A line about what can fail."""
    return CheckLine(check, "warning", message, remedy)


def error(check: str, message: str, remedy: str) -> CheckLine:
    """A line about what fails."""
    return CheckLine(check, "error", message, remedy)
