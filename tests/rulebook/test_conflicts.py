"""Tests of which of two rules counts at a place both match: what is reported is what a migration does."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.kinds.argument import ArgumentMatch
from gpu2npu.kinds.attribute import AttributeMatch
from gpu2npu.kinds.call import CallMatch
from gpu2npu.kinds.environment import EnvironmentMatch
from gpu2npu.kinds.import_ import ImportMatch
from gpu2npu.kinds.method import MethodMatch
from gpu2npu.kinds.name import NameMatch
from gpu2npu.kinds.pattern import PatternMatch
from gpu2npu.kinds.string import StringMatch
from gpu2npu.rulebook.check import find_conflicts
from gpu2npu.rulebook.match import Match
from gpu2npu.rulebook.rule import Role, Rule, Rulebook, Then, Where

ANY = frozenset({"tensor", "module", "unknown"})
DEVICE = {"device": Role(words=frozenset({"device"}))}


def rule(name: str, match: Match, *, builtin: bool = False, **limits: str) -> Rule:
    then = Then(rename=f"lib.{name}" if isinstance(match, NameMatch) else name)
    if isinstance(match, ArgumentMatch):
        then = Then(replace=f"'{name}'")
    return Rule(name, "So.", match, then, (), builtin=builtin, file="b.json" if builtin else "mine.json", **limits)  # type: ignore[arg-type]


def conflicts(*rules: Rule) -> list[tuple[str, str]]:
    book = Rulebook(rules, DEVICE)
    return [(found.first.id, found.second.id) for found in find_conflicts(book, frozenset({"mine.json"}))]


@pytest.mark.parametrize(
    ("one", "two", "code", "first"),
    [
        (NameMatch("lib.old"), NameMatch("lib.old"), "import lib\nlib.old()", "one"),
        (MethodMatch("old", ANY), MethodMatch("old", frozenset({"unknown"})), "x.old()", "one"),
        (AttributeMatch("old"), AttributeMatch("old"), "x.old", "one"),
        (StringMatch("old"), StringMatch("old"), "x = 'old'", "one"),
        (StringMatch("old", "device"), StringMatch("old"), "device = 'old'", "two"),
        (PatternMatch("old"), StringMatch("old"), "device = 'old'", "two"),
        (StringMatch("old", "device"), PatternMatch("o."), "device = 'old'", "two"),
        (CallMatch("lib.old"), CallMatch("*.old"), "import lib\nlib.old()", "one"),
        (NameMatch("lib.old"), CallMatch("lib.old"), "import lib\nlib.old()", "two"),
        (MethodMatch("old", ANY), CallMatch("*.old"), "x.old()", "two"),
        (ArgumentMatch("k", "*.f"), ArgumentMatch("k", "f", "v"), "x.f(k='v')", "one"),
    ],
)
def test_the_one_that_is_reported_is_the_one_that_counts(one: Match, two: Match, code: str, first: str) -> None:
    rules = (rule("one", one), rule("two", two))
    assert conflicts(*rules) == [("one", "two") if first == "one" else ("two", "one")]
    result = migrate_source(code.encode(), "a.py", Rulebook(rules, DEVICE), ProjectContext())
    assert {change.rule for change in result.changes} == {first}


def test_rules_for_one_import_whatever_it_is_installed_by() -> None:
    one, two = ImportMatch("lib"), ImportMatch("lib", frozenset({"lib-gpu"}))
    assert conflicts(rule("one", one), rule("two", two)) == [("one", "two")]


def test_a_users_rule_for_a_package_hides_built_in_ones_under_it() -> None:
    rules = (rule("mine", NameMatch("lib.part")), rule("theirs", NameMatch("lib.part.old"), builtin=True))
    assert conflicts(*rules) == [("mine", "theirs")]
    result = migrate_source(b"import lib\nlib.part.old()\n", "a.py", Rulebook(rules, {}), ProjectContext())
    assert {change.rule for change in result.changes} == {"mine"}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (NameMatch("lib.old"), NameMatch("lib.older")),
        (NameMatch("lib"), NameMatch("lib.old")),
        (AttributeMatch("old"), MethodMatch("old", ANY)),
        (StringMatch("old"), StringMatch("new")),
        (StringMatch("old"), PatternMatch("new")),
        (CallMatch("a.old"), CallMatch("b.old")),
        (CallMatch("*.old", 1), CallMatch("*.old", 2)),
        (ArgumentMatch("k", "f", "v"), ArgumentMatch("k", "f", "w")),
        (ArgumentMatch("k", "f"), ArgumentMatch(0, "f")),
        (EnvironmentMatch("LIB_*"), EnvironmentMatch("LIB_HOME")),
    ],
)
def test_no_conflict(one: Match, two: Match) -> None:
    assert conflicts(rule("one", one), rule("two", two)) == []


def test_rules_for_different_versions_do_not_meet() -> None:
    old, new = rule("one", NameMatch("lib.old"), until="2.3.0"), rule("two", NameMatch("lib.old"), since="2.4.0")
    assert conflicts(old, new) == []
    assert conflicts(old, replace(new, since="2.3.0")) == [("one", "two")]


def test_only_conflicts_of_the_requested_files_are_reported() -> None:
    built_in = [rule(name, NameMatch("lib.old"), builtin=True) for name in ("one", "two")]
    assert conflicts(*built_in) == []


def test_a_rule_for_functions_and_one_for_other_files_never_meet() -> None:
    function = rule("one", ArgumentMatch("gpus", of="lib.start"))
    anywhere = rule("two", ArgumentMatch("gpus", of="*"))
    assert conflicts(function, anywhere) == [("one", "two")]
    assert conflicts(function, replace(anywhere, where=Where(files=frozenset({"*.yaml", "*.yml"})))) == []
    assert conflicts(function, replace(anywhere, where=Where(files=frozenset({"*.yaml", "train*"})))) == [
        ("one", "two")
    ]


def test_a_pattern_and_a_string_in_which_it_finds_nothing_meet_nowhere() -> None:
    assert conflicts(rule("one", PatternMatch("other")), rule("two", StringMatch("old", "device"))) == []
