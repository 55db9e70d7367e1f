"""The places in the user's code at which something happens."""

from __future__ import annotations

import sys
from pathlib import Path


class Sites:
    """The places of the user's project that were met, numbered from 1; 0 is none of them."""

    def __init__(self, project: Path) -> None:
        self._prefix = str(project.resolve()) + "/"
        self._paths: dict[str, str] = {}  # of files within the project; empty for others
        self._numbers: dict[tuple[tuple[str, int], ...], int] = {}
        self.places: list[tuple[tuple[str, int], ...]] = [()]

    def of_caller(self) -> int:
        """The number of the stack of user code, innermost first, as paths within the project and lines."""
        stack = []
        frame = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            path = self._paths.get(name)
            if path is None:
                path = self._paths[name] = name[len(self._prefix) :] if name.startswith(self._prefix) else ""
            if path:
                stack.append((path, frame.f_lineno))
            frame = frame.f_back  # type: ignore[assignment]
        key = tuple(stack)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.places)
            self.places.append(key)
        return number
