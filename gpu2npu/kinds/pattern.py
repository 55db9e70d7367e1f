"""Rules for parts of strings, by regular expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from gpu2npu.engine.file_rules import FileRules, RuledString
from gpu2npu.engine.knowledge import AnyText, Knowledge, PlaceHandlers
from gpu2npu.engine.marks import Mark, applied
from gpu2npu.engine.strings.prose import is_own_name, is_spoken
from gpu2npu.engine.table import RuleTable
from gpu2npu.rulebook.expression import Expression, compile_problem, template_problem
from gpu2npu.rulebook.match import Evidence, Json, Match
from gpu2npu.rulebook.rule import Rule


class PatternMatch(Match, frozen=True):
    """A part of any string, by a regular expression of Python's `re`; a file in which one search takes more than 5
    seconds of a CPU is left unchanged, with the rule as its reason."""

    pattern: str

    key = "pattern"
    shape: ClassVar[Json] = {
        "pattern": {
            "description": "A regular expression for a part of a string; its groups may be used in rename as \\\\1.",
            "type": "string",
            "minLength": 1,
            "format": "regex",
        }
    }
    actions = ("rename", "imports")
    in_strings = True
    order = 6
    starter: ClassVar[Json] = {
        "$comment": "A part of any string, by a regular expression; \\1 in rename is its first group.",
        "why": "Our images are built for CANN under another tag.",
        "match": {"pattern": "team/train:cu\\d+"},
        "then": {"rename": "team/train:cann"},
        "examples": [{"before": "image = 'team/train:cu118'\n", "after": "image = 'team/train:cann'\n"}],
    }

    @property
    def evidence(self) -> Evidence:
        return Evidence(pattern=self.pattern)

    @property
    def text(self) -> str:
        return f"strings in which the regular expression `{self.pattern}` finds something"

    @property
    def subject(self) -> str:
        return f"/{self.pattern}/"

    def is_on(self, line: str) -> bool:
        return Expression(self.pattern, f"the pattern {self.pattern!r}").search(line) is not None

    def before(self, other: Match) -> str | None:
        text = getattr(other, "string", "") if getattr(other, "role", None) is not None else ""
        return "patterns come before strings with a role" if text and self.is_on(text) else None

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        pattern = entry["match"]["pattern"]
        problem = compile_problem(pattern)
        if problem is not None:
            yield "match.pattern", f"{pattern!r} {problem}"
        elif "rename" in entry["then"] and (problem := template_problem(pattern, entry["then"]["rename"])):
            yield "then.rename", f"{entry['then']['rename']!r} cannot stand for what the pattern finds ({problem})"

    @classmethod
    def in_text(cls, work: FileRules, ruled: RuledString) -> None:
        """A rule that keeps the text ends the search, and so does one that only reports."""
        string, new, lowered = ruled.string, ruled.text, ruled.text.lower()
        if not work.table.may_be_for(lowered):
            return
        for texts, (pattern, rule) in zip(work.table.pattern_texts, work.table.patterns, strict=True):
            for text in texts:  # no calls: this is done for each pattern
                if text in lowered:
                    break
            else:
                continue
            found = pattern.search(new)
            if found is None:
                continue
            ruled.rules.append(rule)
            ruled.is_handled = rule.then.keep
            if ruled.is_handled:
                return
            if rule.then.rename is None:
                if not is_spoken(work.file, string.node) and not is_own_name(work.file, string.node):
                    work.matches.note(rule, string.place, found[0].strip() if "\n" in string.raw else string.raw)
                break
            new = pattern.replaced(rule.then.rename, new)
            lowered = new.lower()
            work.matches.note(rule, string.place, string.raw)
        ruled.text = new

    @classmethod
    def place_handlers(cls, rules: Knowledge) -> PlaceHandlers:
        return {AnyText: lambda place: list(_marks(rules.table, place.text, place.start))}


def _may_match(table: RuleTable, lowered: str) -> Iterator[tuple[Expression, Rule]]:
    """Yield the patterns of which a text has a required text; it is given in small letters."""
    if table.may_be_for(lowered):
        for texts, each in zip(table.pattern_texts, table.patterns, strict=True):
            for text in texts:  # no calls: this is done for each pattern
                if text in lowered:
                    yield each
                    break


def _marks(table: RuleTable, text: str, start: int) -> Iterator[Mark]:
    """Yield the marks of patterns in the text of a configuration that is at `start`."""
    for pattern, rule in _may_match(table, text.lower()):
        for match in pattern.all_in(text):
            new = match.expand(rule.then.rename) if rule.then.rename is not None else None
            new = None if new == match[0] else new
            yield from applied(rule, start + match.start(), start + match.end(), match[0], new)
