"""All rules of a rulebook in one look-up table, so that the cost of a file does not grow with their number."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from gpu2npu.rulebook.rule import AttributeMatch, MethodMatch, NameMatch, Role, Rule, Rulebook, StringMatch


@dataclass(frozen=True)
class StringRule:
    """A string rule with its role, and the pattern of the literals it may apply to."""

    rule: Rule
    text: str
    role: Role
    literal: re.Pattern[str]


@dataclass(frozen=True)
class RuleTable:
    """Rules by what they match. `leaves` are the last parts of all rule names: cheap evidence that a name matters."""

    names: dict[str, tuple[Rule, ...]]
    methods: dict[str, Rule]
    attributes: dict[str, Rule]
    strings: tuple[StringRule, ...]
    imports: dict[str, str]  # rule id -> the module its edits need
    leaves: frozenset[str]
    trigger: re.Pattern[bytes]
    literal: re.Pattern[str]

    def rule_for(self, qualified: str) -> tuple[Rule, str] | None:
        """The rule for a qualified name and the part of the name it matches: users' rules first, then the longest."""
        best: tuple[Rule, str] | None = None
        prefix = qualified
        while prefix:
            for rule in self.names.get(prefix, ()):
                if not rule.builtin:
                    return rule, prefix
                if best is None:
                    best = (rule, prefix)
            prefix = prefix.rpartition(".")[0]
        return best


@lru_cache(maxsize=8)
def rule_table(rulebook: Rulebook, version: str) -> RuleTable:
    """The table of the rules that are for a source of PyTorch `version`."""
    rules = [rule for rule in rulebook.rules if _is_for(rule, version)]
    names: dict[str, list[Rule]] = {}
    methods: dict[str, Rule] = {}
    attributes: dict[str, Rule] = {}
    strings: list[StringRule] = []
    words: set[str] = set()
    for rule in rules:
        match = rule.match
        if isinstance(match, NameMatch):
            names.setdefault(match.name, []).append(rule)
            words.add(match.name.rpartition(".")[2])
        elif isinstance(match, MethodMatch):
            methods.setdefault(match.method, rule)
            words.add(match.method)
        elif isinstance(match, AttributeMatch):
            attributes.setdefault(match.attribute, rule)
            words.add(match.attribute)
        elif isinstance(match, StringMatch) and match.role is not None:
            strings.append(_string_rule(rule, match, rulebook.roles[match.role]))
            words.add(match.string)
    return RuleTable(
        names={name: tuple(found) for name, found in names.items()},
        methods=methods,
        attributes=attributes,
        strings=tuple(strings),
        imports={rule.id: rule.then.imports for rule in rules if rule.then.imports is not None},
        leaves=frozenset(name.rpartition(".")[2] for name in names),
        trigger=re.compile(_any_of(words).encode()),
        literal=re.compile(_any_of(found.text for found in strings)),
    )


def _string_rule(rule: Rule, match: StringMatch, role: Role) -> StringRule:
    prefix, suffix = (
        f"(?P<{name}>{text or '(?!)'})?" for name, text in (("prefix", role.prefix), ("suffix", role.suffix))
    )
    return StringRule(rule, match.string, role, re.compile(prefix + re.escape(match.string) + suffix))


def _any_of(words: Iterable[str]) -> str:
    # A word that contains another is found by it; fewer alternatives search faster.
    kept: list[str] = []
    for word in sorted(set(words), key=len):
        if not any(short in word for short in kept):
            kept.append(word)
    return "|".join(map(re.escape, kept)) or r"(?!)"


def _is_for(rule: Rule, version: str) -> bool:
    source = _numbers(version)
    since, until = rule.since, rule.until
    return (since is None or _numbers(since) <= source) and (until is None or source <= _numbers(until))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
