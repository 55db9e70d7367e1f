"""Pairs the statements of two versions of a block: the equal ones, then those that are most alike."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

Pair = tuple[ast.stmt | None, ast.stmt | None]
_WORD = re.compile(r"\w+")
_PLAIN = frozenset({"import", "from", "as", "def", "class", "self", "return", "if", "for", "in", "with", "None"})
_LEAST = 0.3  # the part of their words that two statements share at least
_SAME_NAME = 0.9


def aligned(before: Sequence[ast.stmt], after: Sequence[ast.stmt]) -> Iterator[Pair]:
    """The statements of two blocks in their order, in pairs; None is beside one without a partner."""
    matcher = SequenceMatcher(None, list(map(ast.dump, before)), list(map(ast.dump, after)), autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(before[start:end], after[new_start:new_end], strict=True)
        else:
            yield from _most_alike(before[start:end], after[new_start:new_end])


def _most_alike(before: Sequence[ast.stmt], after: Sequence[ast.stmt]) -> Iterator[Pair]:
    """The pairs, in order, whose likeness comes to the most in all."""
    old, new = [_words(each) for each in before], [_words(each) for each in after]
    likeness = [
        [_likeness(one, other, old[i], new[j]) for j, other in enumerate(after)] for i, one in enumerate(before)
    ]
    best = [[0.0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i in reversed(range(len(before))):
        for j in reversed(range(len(after))):
            both = likeness[i][j] + best[i + 1][j + 1] if likeness[i][j] else 0.0
            best[i][j] = max(both, best[i + 1][j], best[i][j + 1])
    i = j = 0
    while i < len(before) and j < len(after):
        if likeness[i][j] and best[i][j] == likeness[i][j] + best[i + 1][j + 1]:
            yield before[i], after[j]
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            yield before[i], None
            i += 1
        else:
            yield None, after[j]
            j += 1
    yield from ((each, None) for each in before[i:])
    yield from ((None, each) for each in after[j:])


def _words(statement: ast.stmt) -> Counter[str]:
    words = Counter(_WORD.findall(ast.unparse(statement)))
    return Counter({word: count for word, count in words.items() if word not in _PLAIN}) or words


def _likeness(one: ast.stmt, other: ast.stmt, words: Counter[str], others: Counter[str]) -> float:
    """The part of their words that two statements share, 0 for those that are not versions of each other."""
    if type(one) is not type(other):
        return 0.0
    shared = 2 * (words & others).total() / (words.total() + others.total())
    if getattr(one, "name", "") and getattr(one, "name", "") == getattr(other, "name", ""):
        return max(shared, _SAME_NAME)
    return shared if shared >= _LEAST else 0.0
