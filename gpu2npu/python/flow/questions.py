"""Questions that lead to others, perhaps back to themselves."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

_MOST_ROUNDS = 12


class Questions:
    """Remembers answers. One that leads to itself is the least that agrees with all others on the way: it is found by
    asking again until nothing is added, so that the order of questions does not matter."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[Any, Any]] = {}
        self._partial: dict[Hashable, dict[Any, Any]] = {}
        self._running: set[Hashable] = set()
        self._done: set[Hashable] = set()
        self._has_grown = self._is_circular = False
        self._cut: set[Hashable] = set()  # questions whose answer is not complete

    def is_complete(self, key: tuple[Any, ...]) -> bool:
        """Return whether nothing was left out of an answer for the sake of time."""
        return key not in self._cut

    def ask(self, key: tuple[Any, ...], compute: Callable[[], dict[Any, Any]]) -> Any:
        """The answer to a question: a dict, to which rounds only add."""
        if key in self._known:
            return self._known[key]
        if key in self._running:
            self._is_circular = True
            return self._partial.get(key, {})
        if key in self._done:
            return self._partial[key]
        is_outermost = not self._running
        for _ in range(_MOST_ROUNDS):
            self._running.add(key)
            try:
                answer = compute()
            finally:
                self._running.discard(key)
            before = self._partial.get(key, {})
            if len(before) and any(each not in answer for each in before):
                answer = {**before, **answer}
            self._has_grown |= len(answer) != len(before)
            self._partial[key] = answer
            self._done.add(key)
            if not is_outermost or not (self._is_circular and self._has_grown):
                break
            self._has_grown = False
            self._done.clear()
        else:
            self._cut.update(self._partial)
        if is_outermost:
            self._known.update((each, self._partial[each]) for each in (*self._done, key))
            self._partial.clear()
            self._done.clear()
            self._has_grown = self._is_circular = False
        return answer
