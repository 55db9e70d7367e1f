"""Pairs of rules that are for one place, and the order that says which of them counts (docs/rule-order.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from msgspec import Struct

from gpu2npu.rulebook.rule import Rule, Rulebook
from gpu2npu.support.releases import VERSIONS, torch_npu_versions


class Conflict(Struct, frozen=True):
    """Two rules that both match some place: `first` is applied there, because of `reason`."""

    first: Rule
    second: Rule
    reason: str


def find_conflicts(rulebook: Rulebook, files: frozenset[str]) -> Iterator[Conflict]:
    """The conflicts in which a rule of one of the `files` (as `Rule.file` has them) takes part."""
    own = [rule for rule in rulebook.rules if rule.file in files]
    others = [rule for rule in rulebook.rules if rule.file not in files]
    pairs = [*combinations(own, 2), *((rule, other) for rule in own for other in others)]
    position = {rule.id: index for index, rule in enumerate(rulebook.rules)}
    versions = {rule.id: _versions(rule) for rule in rulebook.rules}
    for one, other in pairs:
        earlier, later = sorted((one, other), key=lambda rule: position[rule.id])
        if not versions[one.id].isdisjoint(versions[other.id]) and share_a_file(earlier, later):
            yield from _conflict(earlier, later)


def _conflict(earlier: Rule, later: Rule) -> Iterator[Conflict]:
    one, other = earlier.match, later.match
    if _same_place(earlier, later):
        yield Conflict(earlier, later, "both match the same, and it comes first in the order of files and rules")
    elif one.covers(other) and not earlier.builtin and later.builtin:
        yield Conflict(earlier, later, f"a user's rule for {one.subject} is for everything under it, too")
    else:
        for first, second in ((earlier, later), (later, earlier)):
            reason = first.match.before(second.match)
            if reason is not None:
                yield Conflict(first, second, reason)


def _same_place(one: Rule, other: Rule) -> bool:
    pairs = ((one, other), (other, one))
    if any(_is_setting(rule) and not second.match.is_of_any for rule, second in pairs):
        return False
    return one.match.meets(other.match)


def share_a_file(one: Rule, other: Rule) -> bool:
    """Return whether some file may have both.

    A rule for functions of Python has none in common with one for other files, nor has a rule for projects that import
    something with one for projects that do not.
    """
    pairs = ((one, other), (other, one))
    return not any(
        (not rule.match.outside_python and _is_outside_python(limited)) or _excludes(rule, limited)
        for rule, limited in pairs
    )


def _excludes(rule: Rule, other: Rule) -> bool:
    imported = (rule.where.imports, rule.where.project)
    return any(names and names <= other.where.without for names in imported)


def _is_outside_python(rule: Rule) -> bool:
    return bool(rule.where.files) and all(re.search(r"\.(?!py$|ipynb$)\w+$", file) for file in rule.where.files)


def _is_setting(rule: Rule) -> bool:
    """Return whether a rule for an argument of anything is for a key of a configuration, and not for an option."""
    return rule.match.is_of_any and _is_outside_python(rule)


def _versions(rule: Rule) -> frozenset[str]:
    """The releases of torch_npu that a rule is for, and the version of PyTorch without one."""
    versions = (*VERSIONS, *torch_npu_versions())
    return frozenset(filter(rule.applies_to, versions))
