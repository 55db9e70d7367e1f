"""The steps in which a profile records: the same words and rules as `torch.profiler.schedule`."""

from __future__ import annotations

import warnings
from enum import Enum

__all__ = ["ProfilerAction", "Schedule"]


class ProfilerAction(Enum):
    """The action of a profile during one step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class Schedule:
    """Skips, waits, warms up, records; again and again, or `repeat` times. Invalid numbers warn and are reset."""

    def __init__(
        self, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
    ) -> None:
        def checked(name: str, value: int, least: int) -> int:
            if isinstance(value, int) and value >= least:
                return value
            warnings.warn(f"Invalid parameter {name}, reset it to {least}.", stacklevel=3)
            return least

        self.wait = checked("wait", wait, 0)
        self.warmup = checked("warmup", warmup, 0)
        self.active = checked("active", active, 1)
        self.repeat = checked("repeat", repeat, 0)
        self.skip_first = checked("skip_first", skip_first, 0)
        self.skip_first_wait = skip_first_wait

    def __call__(self, step: int) -> ProfilerAction:
        """The action of a step, counted from 0."""
        if step < 0:
            raise ValueError("Invalid parameter step, which must be not less than 0.")
        if step < self.skip_first:
            return ProfilerAction.NONE
        step -= self.skip_first
        if self.skip_first_wait:
            step += self.wait
        cycle = self.wait + self.warmup + self.active
        if self.repeat and step // cycle >= self.repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < self.wait:
            return ProfilerAction.NONE
        if place < self.wait + self.warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == cycle - 1 else ProfilerAction.RECORD
