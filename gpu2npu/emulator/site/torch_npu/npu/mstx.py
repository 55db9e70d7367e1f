"""torch.npu.mstx: marks and ranges of the user's own in a profile."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..profiler import recording

__all__ = ["annotate", "mstx"]


def _is_message(value: object, function: str) -> bool:
    if isinstance(value, str) and value:
        return True
    warnings.warn(f"Invalid message for mstx.{function} function. Please provide a valid message string.", stacklevel=3)
    return False


class annotate:  # noqa: N801
    """A range around a block, or around each call of a function."""

    def __init__(self, message: str = "", stream: Any = None, domain: str = "default") -> None:
        self.message, self.stream, self.domain = message, stream, domain
        self._range = 0

    def __enter__(self) -> annotate:
        self._range = mstx.range_start(self.message, self.stream, self.domain)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        mstx.range_end(self._range, self.domain)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with annotate(self.message or function.__name__, self.stream, self.domain):
                return function(*args, **kwargs)

        return run


class mstx:  # noqa: N801
    """Marks and ranges; without an active profile they do nothing."""

    annotate = annotate
    _stacks: dict[str, list[int]] = {}  # noqa: RUF012

    @staticmethod
    def mark(message: str, stream: Any = None, domain: str = "default") -> None:
        """Note this moment."""
        if _is_message(message, "mark"):
            recording.mark(message, domain)

    @staticmethod
    def range_start(message: str, stream: Any = None, domain: str = "default") -> int:
        """Begin a range: its number for `range_end`, 0 for an invalid message."""
        return recording.begin_range(message, domain) if _is_message(message, "range_start") else 0

    @staticmethod
    def range_end(range_id: int, domain: str = "default") -> None:
        """End a range."""
        if not isinstance(range_id, int):
            warnings.warn(
                "Invalid message for mstx.range_end function. Please provide the return value from mstx.range_start.",
                stacklevel=2,
            )
            return
        recording.end_range(range_id)

    @staticmethod
    def range_push(message: str, stream: Any = None, domain: str = "default") -> int:
        """Begin a range within those pushed before: the depth, -1 for an invalid message."""
        if not _is_message(message, "range_push"):
            return -1
        stack = mstx._stacks.setdefault(domain, [])
        stack.append(recording.begin_range(message, domain))
        return len(stack) - 1

    @staticmethod
    def range_pop(domain: str = "default") -> int:
        """End the range pushed last: its depth, -1 when there is none."""
        stack = mstx._stacks.get(domain)
        if not stack:
            return -1
        recording.end_range(stack.pop())
        return len(stack)

    @staticmethod
    def mstx_range(message: str, stream: Any = None, domain: str = "default") -> Callable[..., Any]:
        """Decorator: a range around each call."""
        return annotate(message, stream, domain)
