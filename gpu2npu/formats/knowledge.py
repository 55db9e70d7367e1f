"""The rules as files that are not Python need them: by variable, command, key and value, pattern, distribution."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from gpu2npu.engine.byte_pattern import BytePattern, any_may_be_in, unanchored
from gpu2npu.engine.marks import Mark, applied
from gpu2npu.engine.table import RuleTable, rule_table
from gpu2npu.kinds.argument import ArgumentMatch, option_marks, options_of
from gpu2npu.kinds.environment import SetVariable, variable_marks
from gpu2npu.kinds.import_ import distributions_of
from gpu2npu.kinds.pattern import pattern_marks
from gpu2npu.kinds.setting import setting_marks
from gpu2npu.kinds.string import value_marks
from gpu2npu.rulebook.expression import Expression
from gpu2npu.rulebook.rule import Rule, Rulebook

_TOKEN = re.compile(rb"[A-Za-z_][\w-]*")


@dataclass(frozen=True)
class FormatTrigger:
    """The texts of which a file must have one for any rule to matter: words, beginnings of words, or patterns."""

    words: frozenset[bytes]
    beginnings: tuple[bytes, ...]
    patterns: tuple[BytePattern, ...]

    def may_be_in(self, source: bytes) -> bool:
        """Return whether the bytes of a file may have it. No expression of a rule is executed."""
        tokens = set(_TOKEN.findall(source))
        if not self.words.isdisjoint(tokens) or any(token.startswith(self.beginnings) for token in tokens):
            return True
        return any_may_be_in(self.patterns, source)


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The rules for one file. `distributions` are import rules by the normalised names of what pip installs;
    `options` are argument rules by their argument; `taken` the variables that the file has already under the names
    that rules would give them, `own` those that it sets for itself alone, `found` the patterns that are in it;
    `uses_device` says that the project needs torch-npu."""

    table: RuleTable
    version: str
    distributions: Mapping[str, Rule]
    options: Mapping[str, tuple[Rule, ...]]
    trigger: FormatTrigger
    taken: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    found: tuple[tuple[Expression[str], Rule], ...] = ()
    uses_device: bool = True

    def variable(self, name: str, start: int, given: SetVariable | None = None) -> list[Mark]:
        """Return the marks for an environment variable whose name stands at `start`, and for what it is set to."""
        return variable_marks(self.table, name, start, given, self.taken, self.own)

    def value(self, key: str | None, value: str, start: int, beside: Set[str] = frozenset()) -> list[Mark]:
        """Return the marks for a value that stands at `start` under `key`, one of those `beside` it in a list."""
        dotted = (key or "").lstrip("-+~").split(".")
        known = self.setting(dotted, value, start) if len(dotted) > 1 else None
        known = self.option(key, "*", value, start) if known is None else known
        return known if known is not None else value_marks(self.table, key, value, start, beside)

    def option(self, key: str | None, of: str, value: str | None, start: int) -> list[Mark] | None:
        """Return the marks of rules for a key (of a command, or `*` for any) and its value; None if no rule fits."""
        return option_marks(self.options, key, of, value, start)

    def setting(self, keys: Sequence[str], value: str | None, start: int, atom: str = "") -> list[Mark] | None:
        """Return the marks of rules for the value at `start` below some keys, None where it is a number or the like,
        whose text is `atom`; None if no rule fits."""
        return setting_marks(self.table, keys, value, start, atom)

    def patterns(self, text: str, start: int) -> list[Mark]:
        """Return the marks of pattern rules, and of rules for strings anywhere, in text that stands at `start`."""
        whole = self.table.texts.get(text)
        marks = list(pattern_marks(self.found, text, start))
        return marks if whole is None else marks + applied(whole, start, start + len(text), text)


@lru_cache(maxsize=16)
def knowledge_for(rulebook: Rulebook, version: str, without: frozenset[str] = frozenset()) -> Knowledge:
    """The knowledge for a project of PyTorch `version`, without the rules of some ids."""
    table = rule_table(rulebook, version, without)
    active = [rule for rule in rulebook.rules if rule.id not in without and rule.applies_to(version)]
    distributions, options = distributions_of(active), options_of(active)
    return Knowledge(table, version, distributions, options, _trigger(table, distributions, options))


def _trigger(
    table: RuleTable, distributions: Mapping[str, Rule], options: Mapping[str, tuple[Rule, ...]]
) -> FormatTrigger:
    words = {rule.text for rule in table.strings if rule.role.words}
    words.update(table.variables, table.texts, table.of("command"), table.of("setting"), distributions)
    for rule in (rule for rules in options.values() for rule in rules):
        assert isinstance(rule.match, ArgumentMatch)
        words.add(rule.match.value or str(rule.match.argument))
    written = {word for word in words if _TOKEN.fullmatch(word.encode())}
    patterns = [BytePattern.of(re.escape(word).encode()) for word in words - written]
    patterns += [unanchored(pattern.text, rule.named) for pattern, rule in table.patterns]
    either = {variant for word in written for variant in (word, word.replace("-", "_"), word.replace("_", "-"))}
    return FormatTrigger(
        frozenset(word.encode() for word in either),
        tuple(family.encode() for family in table.families),
        tuple(patterns),
    )
