"""Questions that lead to others, perhaps back to themselves."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

_MOST_ROUNDS = 12


class Questions:
    """Remembers answers. One that leads to itself is the least that agrees with all others in its circle: these are
    found by asking again until nothing is added, so that the order of questions does not matter. What leads to no
    circle, and a circle that has settled, is known for good at once (as in Tarjan's search for components)."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[Any, Any]] = {}
        self._partial: dict[Hashable, dict[Any, Any]] = {}
        self._running: dict[Hashable, int] = {}  # how deep below the outermost each is
        self._waiting: dict[Hashable, int] = {}  # answered, but a part of a circle: the depth of its first
        self._lowest = 0  # the least depth of what was asked again by what is asked now
        self._has_grown = False
        self._cut: set[Hashable] = set()  # questions whose answer is not complete

    def is_complete(self, key: tuple[Any, ...]) -> bool:
        """Return whether nothing was left out of an answer for the sake of time."""
        return key not in self._cut

    def ask(self, key: tuple[Any, ...], compute: Callable[[], dict[Any, Any]]) -> Any:
        """The answer to a question: a dict, to which rounds only add."""
        known = self._known.get(key)
        if known is not None:
            return known
        circle_at = self._running.get(key, self._waiting.get(key))
        if circle_at is not None:
            self._lowest = min(self._lowest, circle_at)
            return self._partial.get(key, {})
        depth, start = len(self._running), len(self._waiting)
        lowest, has_grown = self._lowest, self._has_grown
        self._running[key] = depth
        try:
            answer = self._settle(key, depth, start, compute)
        finally:
            del self._running[key]
            if not self._running:
                self._partial.clear()
                self._waiting.clear()
        if self._lowest < depth:
            self._has_grown |= has_grown
        else:
            self._has_grown = has_grown
        self._lowest = min(lowest, self._lowest)
        return answer

    def _settle(self, key: Hashable, depth: int, start: int, compute: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
        """Ask until nothing is added, where this is the question of a circle that was asked first."""
        for _ in range(_MOST_ROUNDS):
            self._lowest, self._has_grown = depth + 1, False
            answer = compute()
            before = self._partial.get(key, {})
            if before and any(each not in answer for each in before):
                answer = {**before, **answer}
            self._has_grown |= len(answer) != len(before)
            if self._lowest > depth:
                self._known[key] = answer
                return answer
            self._partial[key] = answer
            if self._lowest < depth:
                self._waiting[key] = self._lowest
                return answer
            circle = [*list(self._waiting)[start:], key]
            for each in circle[:-1]:
                del self._waiting[each]
            if not self._has_grown:
                break
        else:
            self._cut.update(circle)
        for each in circle:
            self._known[each] = self._partial.pop(each)
        return answer
