"""Pairs of rules that are for one place, and the order that says which of them counts (docs/rule-order.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from gpu2npu.rulebook.rule import (
    ArgumentMatch,
    CallMatch,
    ImportMatch,
    MethodMatch,
    NameMatch,
    PatternMatch,
    Rule,
    Rulebook,
    StringMatch,
)
from gpu2npu.support.releases import VERSIONS, torch_npu_versions


@dataclass(frozen=True)
class Conflict:
    """Two rules that both match some place: `first` is applied there, because of `reason`."""

    first: Rule
    second: Rule
    reason: str


def find_conflicts(rulebook: Rulebook, files: frozenset[str]) -> Iterator[Conflict]:
    """The conflicts in which a rule of one of the `files` (as `Rule.file` has them) takes part."""
    mine = [rule for rule in rulebook.rules if rule.file in files]
    others = [rule for rule in rulebook.rules if rule.file not in files]
    pairs = [*combinations(mine, 2), *((rule, other) for rule in mine for other in others)]
    position = {rule.id: index for index, rule in enumerate(rulebook.rules)}
    versions = {rule.id: _versions(rule) for rule in rulebook.rules}
    for one, other in pairs:
        earlier, later = sorted((one, other), key=lambda rule: position[rule.id])
        if not versions[one.id].isdisjoint(versions[other.id]) and _share_a_file(earlier, later):
            yield from _conflict(earlier, later)


def _conflict(earlier: Rule, later: Rule) -> Iterator[Conflict]:
    one, other = earlier.match, later.match
    if _same_place(earlier, later):
        yield Conflict(earlier, later, "both match the same, and it comes first in the order of files and rules")
    elif isinstance(one, NameMatch) and isinstance(other, NameMatch):
        if not earlier.builtin and later.builtin and other.name.startswith(f"{one.name}."):
            yield Conflict(earlier, later, f"a user's rule for {one.name} is for everything under it, too")
    else:
        for first, second in ((earlier, later), (later, earlier)):
            reason = _by_kind(first, second)
            if reason is not None:
                yield Conflict(first, second, reason)


def _same_place(one: Rule, other: Rule) -> bool:
    first, second = one.match, other.match
    if isinstance(first, ArgumentMatch) and isinstance(second, ArgumentMatch):
        if (_is_setting(one) and second.of != "*") or (_is_setting(other) and first.of != "*"):
            return False
        same_value = first.value is None or second.value is None or first.value == second.value
        return first.argument == second.argument and _may_be_one(first.of, second.of) and same_value
    if isinstance(first, CallMatch) and isinstance(second, CallMatch):
        any_number = first.arguments is None or second.arguments is None or first.arguments == second.arguments
        return _may_be_one(first.call, second.call) and any_number
    if isinstance(first, MethodMatch) and isinstance(second, MethodMatch):
        return first.method == second.method
    if isinstance(first, ImportMatch) and isinstance(second, ImportMatch):
        return first.module == second.module
    return first == second


def _may_be_one(one: str, other: str) -> bool:
    """Return whether two callees may be one function: `*.load` is any of that name, `*` any at all."""
    if one == other or "*" in (one, other):
        return True
    return "*." in one[:2] + other[:2] and one.rpartition(".")[2] == other.rpartition(".")[2]


def _by_kind(first: Rule, second: Rule) -> str | None:
    """Return why `first` is asked before `second` where both match, by their kinds; None if there is no such place."""
    one, other = first.match, second.match
    if isinstance(one, CallMatch):
        leaf = one.call.rpartition(".")[2]
        if isinstance(other, NameMatch) and _may_be_one(one.call, other.name):
            return "rules for calls come before rules for names"
        if isinstance(other, MethodMatch) and other.method == leaf:
            return "rules for calls come before rules for methods"
    if isinstance(one, StringMatch) and one.role is None:
        if isinstance(other, StringMatch) and one.string == other.string:
            return "rules for whole strings come before rules for strings with a role"
        if isinstance(other, PatternMatch) and re.search(other.pattern, one.string):
            return "rules for whole strings come before patterns"
    if isinstance(one, PatternMatch) and isinstance(other, StringMatch) and other.role is not None:
        return "patterns come before strings with a role" if re.search(one.pattern, other.string) else None
    return None


def _share_a_file(one: Rule, other: Rule) -> bool:
    """Return whether some file may have both.

    A rule for functions of Python has none in common with one for other files.
    """
    pairs = ((one, other), (other, one))
    return not any(_is_for_python(rule) and _is_outside_python(limited) for rule, limited in pairs)


def _is_for_python(rule: Rule) -> bool:
    match = rule.match
    return isinstance(match, (NameMatch, MethodMatch, CallMatch)) or (
        isinstance(match, ArgumentMatch) and "." in match.of
    )


def _is_outside_python(rule: Rule) -> bool:
    return bool(rule.where.files) and all(re.search(r"\.(?!py$|ipynb$)\w+$", file) for file in rule.where.files)


def _is_setting(rule: Rule) -> bool:
    """Return whether a rule for an argument of anything is for a key of a configuration, and not for an option."""
    return isinstance(rule.match, ArgumentMatch) and rule.match.of == "*" and _is_outside_python(rule)


def _versions(rule: Rule) -> frozenset[str]:
    """The releases of torch_npu that a rule is for, and the version of PyTorch without one."""
    versions = (*VERSIONS, *torch_npu_versions())
    return frozenset(filter(rule.applies_to, versions))
