"""The operators of the emulated NPU that a module runs, less those of the modules within it."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any


class Operators:
    """Counts the operators of each module's first call. Empty on a device that is not emulated."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._begun: list[tuple[str, Counter[tuple[str, str]], Counter[tuple[str, str]]]] = []

    def enter(self, name: str) -> None:
        """A module is called."""
        if name and name not in self._seen and _tally() is not None:
            self._begun.append((name, _counts(), Counter()))

    def leave(self, name: str) -> list[tuple[str, str]]:
        """A module has returned: its operators, each with who computed it, when this was its first call."""
        if not self._begun or self._begun[-1][0] != name:
            return []
        self._seen.add(name)
        _, before, within = self._begun.pop()
        whole = _counts() - before
        if self._begun:
            self._begun[-1][2].update(whole)
        return sorted((whole - within).keys())


def _tally() -> Any:
    return sys.modules.get("gpu2npu.emulator.device.dispatch.tally")


def _counts() -> Counter[tuple[str, str]]:
    return Counter({(name, kind.value): calls for (name, kind), (calls, _) in _tally().counts().items()})
