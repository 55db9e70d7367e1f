"""Counts floating-point operations between two points."""

from __future__ import annotations

from typing import Any

from torch.utils.flop_counter import FlopCounterMode

__all__ = ["FlopsCounter"]


class FlopsCounter:
    """Counts what `torch.utils.flop_counter` knows, between `start` and `stop`, without what runs while paused."""

    def __init__(self) -> None:
        self._mode: Any = None
        self._total = self._recorded = 0

    def start(self) -> None:
        """Begin to count from 0."""
        self._total = self._recorded = 0
        self.resume()

    def resume(self) -> None:
        """Count on."""
        if self._mode is None:
            self._mode = FlopCounterMode(display=False)
            self._mode.__enter__()

    def pause(self) -> None:
        """Stop counting for a while."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._total += self._mode.get_total_flops()
            self._mode = None

    def stop(self) -> None:
        """Stop counting."""
        self.pause()

    def get_flops(self) -> list[int]:
        """Return the FLOPs that were counted since the last call, and in all."""
        running = self._mode.get_total_flops() if self._mode is not None else 0
        total = self._total + running
        recorded, self._recorded = total - self._recorded, total
        return [recorded, total]

    def __enter__(self) -> FlopsCounter:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()
