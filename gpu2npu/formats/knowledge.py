"""The rules as files that are not Python need them: by variable, command, key and value, pattern, distribution."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from gpu2npu.distributions import normalised
from gpu2npu.engine.byte_pattern import BytePattern, any_may_be_in, unanchored
from gpu2npu.engine.strings.words import is_word
from gpu2npu.engine.table import RuleTable, StringRule, rule_table
from gpu2npu.formats.marks import Mark, applied, edit, reported, review
from gpu2npu.kinds.argument import ArgumentMatch
from gpu2npu.kinds.command import CommandMatch
from gpu2npu.kinds.import_ import ImportMatch
from gpu2npu.kinds.setting import SettingMatch
from gpu2npu.records import FindingKind, Found, Severity
from gpu2npu.rulebook.expression import Expression
from gpu2npu.rulebook.rule import Rule, Rulebook

# What stands in a value for something known later: $RANK, ${rank}, {{ rank }}, %(rank)s.
_PLACEHOLDER = re.compile(r"\$\{[^{}]*\}|\$\{\{.*?\}\}|\{\{.*?\}\}|\$\w+|%\(\w+\)s|\$\(\w+\)")
# Keys whose values are words about a thing, or names of files and images, and no settings.
_SPOKEN = frozenset(
    {"keywords", "keyword", "classifiers", "topics", "topic", "tags", "tag", "labels", "label", "name", "title", "id",
     "description", "markers", "help", "doc", "comment", "text", "summary", "message", "channels", "image", "container",
     "from", "repo", "repository", "uses", "url", "path", "paths", "file", "files", "exclude", "include", "ignore",
     "display_name", "language", "words"}
)  # fmt: skip


# Names that stand beside each other in a list without commas.
_LISTED = frozenset({"cuda", "cpu", "mps", "xpu", "gpu", "hip", "meta", "auto", "nccl", "gloo", "mpi", "ucc"})
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


@dataclass(frozen=True)
class SetVariable:
    """The value that a variable is set to, and where that stands.

    `bare`: a shell reads it, and no quotes are around it.
    """

    text: str
    start: int
    bare: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.text)


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
        rule = self.table.variable_rule(name)
        if rule is None or rule.then.keep or (name in self.own and name not in self.table.variables):
            return []
        end = start + len(name)
        if rule.then.rename in self.taken:
            message = f"This file knows {rule.then.rename} already; left as it is."
            return [Found((start, end), rule.id, FindingKind.REVIEW, name, message, Severity.NOTE)]
        if not rule.then.values:
            return applied(rule, start, end, name)
        new = dict(rule.then.values).get(given.text) if given is not None else None
        if given is None or new is None or rule.then.rename is None:
            return reported(rule, start, end, name)
        marks: list[Mark] = [edit(rule, start, end, rule.then.rename)]
        written = f'"{new}"' if given.bare and not new.isalnum() else new
        return marks if new == given.text else [*marks, edit(rule, given.start, given.end, written)]

    def value(self, key: str | None, value: str, start: int, beside: Set[str] = frozenset()) -> list[Mark]:
        """Return the marks for a value that stands at `start` under `key`, one of those `beside` it in a list."""
        dotted = (key or "").lstrip("-+~").split(".")
        known = self.setting(dotted, value, start) if len(dotted) > 1 else None
        known = self.option(key, "*", value, start) if known is None else known
        if known is not None:
            return known
        masked = _PLACEHOLDER.sub(lambda match: "{" + "_" * (len(match[0]) - 2) + "}", value)
        last = (key or "").rpartition(".")[2].lstrip("-+~")
        listed = masked.split("," if "," in masked else " ")
        for rule in self.table.strings:
            target = rule.rule.then.rename
            whole = rule.literal.fullmatch(masked)
            if whole is None and not (_is_list(masked, listed) and is_word(last, rule.role)):
                continue
            parts = [(0, whole)] if whole is not None else list(_parts(listed, rule))
            if not parts or target in beside or target in listed:
                continue
            if not self._is_meant(rule, last, whole):
                bare = whole is not None and masked == rule.text and last.lower() not in _SPOKEN and bool(last)
                return [self._review(rule, start, value)] if bare else []
            return [mark for at, match in parts for mark in _rewritten(rule, match, start + at)]
        return []

    def _is_meant(self, rule: StringRule, key: str, whole: re.Match[str] | None) -> bool:
        if is_word(key, rule.role):
            return True
        formed = whole is not None and any(whole.groupdict().values())
        return formed and key.lower() not in _SPOKEN

    def _review(self, rule: StringRule, start: int, value: str) -> Mark:
        message = f"This may mean the {rule.text} that {rule.rule.then.rename} replaces: check it."
        return review(rule.rule, start, start + len(value), value, message)

    def option(self, key: str | None, of: str, value: str | None, start: int) -> list[Mark] | None:
        """Return the marks of rules for a key (of a command, or `*` for any) and its value; None if no rule fits."""
        name = (key or "").rpartition(".")[2].lstrip("-+~").replace("-", "_")
        for rule in self.options.get(name, ()):
            match = rule.match
            assert isinstance(match, ArgumentMatch)
            if match.of != of or (match.value is not None and match.value != value) or value in match.unless:
                continue
            shown = name if value is None else value
            end = start + len(shown)
            if rule.then.rename is not None and match.value is not None:
                return applied(rule, start, end, shown)
            if rule.then.rename is None and rule.then.report is None and not rule.then.keep:
                message = f"{rule.why} Change it by hand."
                return [review(rule, start, end, shown, message)]
            return reported(rule, start, end, shown)
        return None

    def setting(self, keys: Sequence[str], value: str | None, start: int) -> list[Mark] | None:
        """Return the marks of rules for the value at `start` below some keys, None where it is not a string; None if
        no rule fits."""
        for rule in self.table.of("setting").get(keys[-1], ()) if keys else ():
            if isinstance(rule.match, SettingMatch) and rule.match.fits(keys, value):
                shown = keys[-1] if value is None else value
                return applied(rule, start, start + len(shown), shown)
        return None

    def patterns(self, text: str, start: int) -> list[Mark]:
        """Return the marks of pattern rules, and of rules for strings anywhere, in text that stands at `start`."""
        marks: list[Mark] = []
        for pattern, rule in self.found:
            for match in pattern.all_in(text):
                new = match.expand(rule.then.rename) if rule.then.rename is not None else None
                new = None if new == match[0] else new
                marks += applied(rule, start + match.start(), start + match.end(), match[0], new)
        if text in self.table.texts:
            marks += applied(self.table.texts[text], start, start + len(text), text)
        return marks

    def command(self, name: str, start: int, words: Sequence[tuple[str, int]], alone: bool) -> list[Mark]:
        """Return the marks for a command whose name stands at `start`, and the `words` after it with their places;
        `alone`: it has none, and nothing reads its output."""
        for rule in self.table.of("command").get(name, ()):
            assert isinstance(rule.match, CommandMatch)
            places = rule.match.places([text for text, _ in words])
            if places is None:
                continue
            if rule.then.keep:
                return []
            end = start + len(name)
            if rule.then.rename is None or (alone and not places):
                return applied(rule, start, end, name)
            if not places:
                message = f"{rule.why} Its options and its output are others than those of {name}: change it by hand."
                return [review(rule, start, end, name, message)]
            starts = [start, *(words[index][1] + offset for index, offset in places)]
            pairs = zip(starts, rule.match.renamed_words(rule.then.rename), strict=True)
            edits: list[Mark] = [edit(rule, at, at + len(old), new) for at, (old, new) in pairs if old != new]
            return edits + reported(rule, start, end, name)
        return []

    def program(self, name: str) -> Rule | None:
        """The rule for a program of that name, not for one of its command lines."""
        rules = self.table.of("command").get(name, ())
        return next((rule for rule in rules if rule.match == CommandMatch(name)), None)

    def mentions(self, text: str) -> re.Match[str] | None:
        """The first mention of a device or backend that a rule renames, in text that is not read any closer."""
        return re.search(rf"(?<![\w-])(?:{self.table.literal.pattern})(?![\w-])", text)


def _is_list(masked: str, listed: list[str]) -> bool:
    """Return whether a value is a list: parts between commas, or names of devices or backends between blanks."""
    return "," in masked or (len(listed) > 1 and all(part.partition(":")[0] in _LISTED for part in listed))


def _parts(listed: list[str], rule: StringRule) -> Iterator[tuple[int, re.Match[str]]]:
    """The places of a list `cuda:0,cuda:1` that match the rule."""
    at = 0
    for part in listed:
        match = rule.literal.fullmatch(part)
        if match is not None:
            yield at, match
        at += len(part) + 1


def _rewritten(rule: StringRule, match: re.Match[str], start: int) -> list[Mark]:
    first = start + len(match.group("prefix") or "")
    last = first + len(rule.text)
    target = rule.rule.then.rename
    edits: list[Mark] = [edit(rule.rule, first, last, target)] if target is not None else []
    return edits + reported(rule.rule, first, last, match[0])


@lru_cache(maxsize=16)
def knowledge_for(rulebook: Rulebook, version: str, without: frozenset[str] = frozenset()) -> Knowledge:
    """The knowledge for a project of PyTorch `version`, without the rules of some ids."""
    table = rule_table(rulebook, version, without)
    active = [rule for rule in rulebook.rules if rule.id not in without and rule.applies_to(version)]
    distributions: dict[str, Rule] = {}
    options: dict[str, tuple[Rule, ...]] = {}
    for rule in active:
        if isinstance(rule.match, ImportMatch):
            for name in rule.match.distributions:
                distributions.setdefault(normalised(name), rule)
        elif isinstance(rule.match, ArgumentMatch) and isinstance(rule.match.argument, str):
            if "." in rule.match.of:  # of a function in Python
                continue
            options[rule.match.argument] = (*options.get(rule.match.argument, ()), rule)
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


def patterns_in(text: str, table: RuleTable) -> tuple[tuple[Expression[str], Rule], ...]:
    """The patterns that a part of the text may match: those that match it as a whole, and those bound to the ends of a
    value."""
    bound = re.compile(r"[$^]|\\[AZ]")
    return tuple((one, rule) for one, rule in table.patterns if bound.search(one.text) or one.search(text))
