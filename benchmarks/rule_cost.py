"""The cost of more rules: one migration with the built-in rules, and one with twice as many."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from gpu2npu.engine import ProjectContext, has_trigger, migrate_source, scan_project
from gpu2npu.rulebook import Rulebook, load_rulebook
from gpu2npu.rulebook.kinds import (
    ClassMatch,
    CodeMatch,
    DecoratorMatch,
    Match,
    MemberMatch,
    NameMatch,
    PatternMatch,
    SettingMatch,
)

# The fields of a match that say what is looked for.
_WORDS = ("name", "method", "attribute", "string", "call", "of", "module", "variable", "command")


@dataclass(frozen=True)
class RuleCost:
    """CPU seconds of a migration on one core, `once` with `rules` rules and `twice` with twice as many."""

    rules: int
    once: float
    twice: float

    @property
    def added(self) -> float:
        """The share of time that the second half of the rules adds."""
        return self.twice / self.once - 1


def doubled(rulebook: Rulebook) -> Rulebook:
    """The rules and a twin of each, of the same kind but for other names and words.

    Of the rules for names, which are the most, some have a twin of a kind that few built-in rules are of: patterns of
    code, members of classes, bases, decorators and settings.
    """
    named = (rule for rule in rulebook.rules if isinstance(rule.match, NameMatch))
    other = {rule.id: kind(f"{rule.match.index}twin") for rule, kind in zip(named, cycle(_KINDS))}
    twins = (
        replace(rule, id=f"{rule.id}-twin", match=other.get(rule.id) or _other_words(rule.match))
        for rule in rulebook.rules
    )
    return Rulebook((*rulebook.rules, *twins), rulebook.roles)


_KINDS: tuple[Callable[[str], Match], ...] = (
    NameMatch,
    lambda name: CodeMatch(f"{name}($X, key=$Y, ...)", signature=("first", "key")),
    lambda name: MemberMatch(f"{name}.membertwin"),
    ClassMatch,
    DecoratorMatch,
    lambda name: SettingMatch(f"**.{name}", frozenset({"twin"})),
    NameMatch,
    NameMatch,
)


def _other_words(match: Match) -> Match:
    if isinstance(match, PatternMatch):
        return replace(match, pattern=f"(?:{match.pattern})twin")
    other: dict[str, Any] = {name: _other(word) for name in _WORDS if (word := getattr(match, name, None)) is not None}
    if hasattr(match, "distributions"):
        other["distributions"] = frozenset(map(_other, match.distributions))
    return replace(match, **other)


def _other(word: str) -> str:
    return f"{word[:-1]}twin*" if word.endswith("*") else f"{word}twin"


def measure_rule_cost(tree: Path, version: str, rounds: int = 3) -> RuleCost:
    """Migrate every Python file below `tree` with each of the two rulebooks, in turns, in memory.

    Of the rounds a file counts with its fastest: what else the machine does is not what rules cost. Reading the rules
    and preparing for the project count too.
    """
    sources = {path.relative_to(tree).as_posix(): path.read_bytes() for path in sorted(tree.rglob("*.py"))}
    reading = min(_seconds(load_rulebook) for _ in range(rounds))
    rulebook = load_rulebook()
    contestants = (rulebook, doubled(rulebook))
    contexts = []
    total = [reading, 2 * reading]
    for index, book in enumerate(contestants):
        start = time.process_time()
        contexts.append(scan_project(sources, book, version, sources.__getitem__, tree))
        total[index] += time.process_time() - start
    for path, source in sources.items():
        times: tuple[list[float], list[float]] = [], []
        for number in range(rounds):
            for index in (0, 1) if number % 2 else (1, 0):
                times[index].append(_seconds(_migrate, source, path, contestants[index], contexts[index]))
        for index in (0, 1):
            total[index] += min(times[index])
    return RuleCost(len(rulebook.rules), total[0], total[1])


def _migrate(source: bytes, path: str, rulebook: Rulebook, context: ProjectContext) -> None:
    if has_trigger(source, rulebook, context.version):
        migrate_source(source, path, rulebook, context)


def _seconds(function: Any, *arguments: Any) -> float:
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def format_rule_cost(cost: RuleCost) -> str:
    return (
        f"twice the rules: {cost.rules} rules take {cost.once:.2f} s of CPU, {2 * cost.rules} take {cost.twice:.2f} s: "
        f"{cost.added:+.1%}"
    )
