"""The cost of more rules: one migration with the built-in rules, and one with twice as many."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

from msgspec.structs import replace

from gpu2npu.builtin_rules import builtin_files
from gpu2npu.engine import ProjectContext, has_trigger, migrate_source, scan_project
from gpu2npu.kinds.code import CodeMatch
from gpu2npu.kinds.cuda_only import CudaOnlyMatch
from gpu2npu.kinds.definition import ClassMatch, DecoratorMatch
from gpu2npu.kinds.member import MemberMatch
from gpu2npu.kinds.name import NameMatch
from gpu2npu.kinds.pattern import PatternMatch
from gpu2npu.kinds.setting import SettingMatch
from gpu2npu.rulebook import Rulebook, load_rulebook
from gpu2npu.rulebook.entries import decode_rule
from gpu2npu.rulebook.match import Match

# The fields of a match that say what is looked for.
_WORDS = ("setting", "name", "method", "attribute", "string", "call", "of", "module", "variable", "command")


@dataclass(frozen=True)
class RuleCost:
    """The cost of a migration on one core with `rules` rules, and with twice as many: estimates of both in CPU seconds,
    and `calls`, the calls of functions in Python and C, which are the same however busy the machine is."""

    rules: int
    calls: tuple[int, int]
    estimates: tuple[tuple[float, float], ...]

    @property
    def added(self) -> list[float]:
        """The share of time that the second half of the rules adds, by each estimate; the least first."""
        return sorted(twice / once - 1 for once, twice in self.estimates)


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
    if isinstance(match, CudaOnlyMatch):
        return replace(match, **{name: f"(?:{pattern})twin" for name, pattern in match.cuda_only_patterns.items()})
    if isinstance(match, CodeMatch):
        return replace(match, code=re.sub(r"'?[(\[ ]|$", r"twin\g<0>", match.code, count=1))
    other: dict[str, Any] = {name: _other(word) for name in _WORDS if (word := getattr(match, name, None)) is not None}
    if hasattr(match, "distributions"):
        other["distributions"] = frozenset(map(_other, match.distributions))
    return replace(match, **other)


def _other(word: str) -> str:
    return f"{word[:-1]}twin*" if word.endswith("*") else f"{word}twin"


def measure_rule_cost(tree: Path, version: str, estimates: int = 3, every: int = 1) -> RuleCost:
    """Migrate every `every`-th Python file below `tree` with each of the two rulebooks, in turns, in memory.

    Each time is that of a run of its own: the rules are read, the project is prepared for, and each file is parsed, as
    nothing is kept from the run before. An estimate takes two runs with each rulebook, in one order and in the other;
    of the two, a file counts with its faster one: what else the machine does is not what rules cost.
    """
    sources = {path.relative_to(tree).as_posix(): path.read_bytes() for path in sorted(tree.rglob("*.py"))[::every]}
    rulebook = load_rulebook()
    contestants = (rulebook, doubled(rulebook))
    for book in contestants:  # what is imported and compiled once
        _run(book, sources, version, tree)
    calls = [_calls(_run, book, sources, version, tree) for book in contestants]
    found = []
    for _ in range(estimates):
        runs: tuple[list[list[float]], list[list[float]]] = [], []
        for index in (0, 1, 1, 0):
            runs[index].append(_run(contestants[index], sources, version, tree))
        once, twice = (sum(map(min, *each)) for each in runs)
        reading = min(_seconds(_read_rules) for _ in range(3))
        found.append((reading + once, 2 * reading + twice))
    return RuleCost(len(rulebook.rules), (calls[0], calls[1]), tuple(found))


def _run(rulebook: Rulebook, sources: dict[str, bytes], version: str, tree: Path) -> list[float]:
    """The seconds for preparing, and for each file."""
    start = time.process_time()
    context = scan_project(sources, rulebook, version, sources.__getitem__, tree)
    times = [time.process_time() - start]
    times += [_seconds(_migrate, source, path, rulebook, context) for path, source in sources.items()]
    return times


def _read_rules() -> None:
    for path in builtin_files():
        for entry in json.loads(path.read_text(encoding="utf-8"))["rules"]:
            decode_rule(entry, builtin=True, file=path.name)


def _migrate(source: bytes, path: str, rulebook: Rulebook, context: ProjectContext) -> None:
    if has_trigger(source, rulebook, context):
        migrate_source(source, path, rulebook, context)


def _seconds(function: Any, *arguments: Any) -> float:
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def _calls(function: Any, *arguments: Any) -> int:
    count = 0

    def follow(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(follow)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return count


def format_rule_cost(cost: RuleCost) -> str:
    once, twice = (min(each) for each in zip(*cost.estimates, strict=True))
    low, high = cost.added[0], cost.added[-1]
    return (
        f"twice the rules: {cost.rules} rules take {once:.2f} s of CPU, {2 * cost.rules} take {twice:.2f} s: "
        f"{median(cost.added):+.1%} (of {len(cost.added)} estimates the median; {low:+.1%} to {high:+.1%}); "
        f"calls of functions: {cost.calls[1] / cost.calls[0] - 1:+.1%}"
    )
