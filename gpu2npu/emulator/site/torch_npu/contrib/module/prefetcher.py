"""The next batch on its way to the NPU while this one is computed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

__all__ = ["Prefetcher"]


class Prefetcher:
    """Pairs of a loader, on the NPU; `next()` is (None, None) after the last."""

    def __init__(self, loader: Iterable[Any], stream: Any = None) -> None:
        self.loader = iter(loader)
        self.stream = stream if stream is not None else torch.npu.Stream()  # type: ignore[attr-defined]
        self.preload()

    def preload(self) -> None:
        """Begin to move the next pair."""
        pair: Any = next(self.loader, None)
        self.next_input: Any = None
        self.next_target: Any = None
        if pair is not None:
            self.next_input, self.next_target = pair
            with torch.npu.stream(self.stream):  # type: ignore[attr-defined]
                self.next_input = self.next_input.to("npu", non_blocking=True)
                self.next_target = self.next_target.to("npu", non_blocking=True)

    def next(self) -> tuple[Any, Any]:
        """The pair that was moved last."""
        torch.npu.current_stream().wait_stream(self.stream)  # type: ignore[attr-defined]
        pair = self.next_input, self.next_target
        if pair[1] is not None:
            self.preload()
        return pair
