"""Questions that may lead to themselves, with their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MOST_ROUNDS = 12
Question = tuple[Any, ...]  # what is asked, and of what


class Questions:
    """Remembers answers. One that leads to itself is the least that agrees with all others in its circle: whoever was
    given less than what is known now is computed again until nothing is added, so that the order of questions does not
    matter, but for answers that are cut: what these and those who were given them have depends on what was asked
    before. What leads to no circle, and a circle whose answers no longer grow, is known for good at once: circles are
    the strongly connected components of what asks what, as Tarjan finds them."""

    def __init__(self) -> None:
        self._known: dict[Question, dict[Any, Any]] = {}
        self._cut: set[Question] = set()  # questions whose answer is not complete
        self._forget_open()

    def _forget_open(self) -> None:
        self._order: list[Question] = []  # what is not known yet, as it was asked
        self._open: dict[Question, int] = {}  # where in this order each is
        self._partial: dict[Question, dict[Any, Any]] = {}
        self._ways: dict[Question, Callable[[], dict[Any, Any]]] = {}  # how each is computed
        self._given_to: dict[Question, set[Question]] = {}  # who was given a partial answer
        self._outdated: set[Question] = set()  # who was given less than what is known now
        self._asking: list[Question] = []
        self._lowest = 0  # the least number of what was asked by what is asked now, or by what that asked

    def is_complete(self, key: Question) -> bool:
        """Return whether nothing was left out of an answer for the sake of time."""
        return key not in self._cut

    def cut(self) -> None:
        """Note that the answer that is computed now leaves something out for the sake of time. It is not computed again
        for what is known later."""
        self._cut.add(self._asking[-1])

    @property
    def answers(self) -> int:
        """The number of answers that are known."""
        return len(self._known)

    def is_known(self, key: Question) -> bool:
        """Return whether the answer to a question is known for good."""
        return key in self._known

    def ask(self, key: Question, compute: Callable[[], dict[Any, Any]]) -> Any:
        """The answer to a question: a dict, which only grows."""
        known = self._known.get(key)
        if known is not None:
            return known
        if key not in self._open:
            lowest = self._lowest
            try:
                self._ask_first(key, compute)
            except BaseException:
                self._forget_open()  # nobody who waits for an answer gets one
                raise
            self._lowest = min(lowest, self._lowest)
            if key in self._known:
                return self._known[key]
        else:
            self._lowest = min(self._lowest, self._open[key])
        self._given_to[key].add(self._asking[-1])
        return self._partial[key]

    def _ask_first(self, key: Question, compute: Callable[[], dict[Any, Any]]) -> None:
        number = self._open[key] = self._lowest = len(self._order)
        self._order.append(key)
        self._partial[key], self._ways[key], self._given_to[key] = {}, compute, set()
        self._compute(key)
        if self._lowest == number:
            self._complete(number)

    def _compute(self, key: Question) -> None:
        """Compute an answer and add it to what is known; whoever was given less is outdated."""
        self._outdated.discard(key)
        self._asking.append(key)
        answer, before = self._ways[key](), self._partial[key]
        self._asking.pop()
        if before and any(each not in answer for each in before):
            answer = {**before, **answer}
        if len(answer) != len(before):
            self._partial[key] = answer
            self._outdated |= self._given_to[key]
            self._given_to[key] = set()

    def _complete(self, first: int) -> None:
        """Ask again whoever in a circle is outdated and was not cut, last asked first, and who joins it; then all of it
        is known. It is not where one of them now asks what was asked before the circle: that has to be known with it.
        """
        for _ in range(_MOST_ROUNDS):
            for each in reversed(self._order[first:]):
                if each in self._outdated and each not in self._cut:
                    self._compute(each)
            if self._lowest < first:
                return
            if (self._outdated - self._cut).isdisjoint(self._order[first:]):
                break
        else:
            self._cut.update(self._order[first:])
        for each in self._order[first:]:
            self._known[each] = self._partial.pop(each)
            del self._open[each], self._ways[each], self._given_to[each]
            self._outdated.discard(each)
        del self._order[first:]
