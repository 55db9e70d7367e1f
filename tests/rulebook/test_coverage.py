"""The examples of every built-in rule show all that it does, and a release that it is not for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpu2npu.cli.rules.check import unshown_acts, unshown_limits
from gpu2npu.kinds.name import NameMatch
from gpu2npu.records import FindingKind, Severity
from gpu2npu.rulebook import Rule, load_rulebook
from gpu2npu.rulebook.rule import Example, Report, Then

RULES = load_rulebook().rules
LIMITED = [rule for rule in RULES if any((rule.since, rule.until, rule.needs, rule.lacks))]


def test_the_examples_of_the_built_in_rules_show_all() -> None:
    assert [rule.id for rule in RULES if [*unshown_acts(rule), *unshown_limits(rule)]] == []


@pytest.mark.parametrize("rule", LIMITED, ids=lambda rule: rule.id)
def test_a_rule_without_an_example_outside_of_its_releases_is_named(rule: Rule) -> None:
    inside = tuple(each for each in rule.examples if each.version is None or rule.applies_to(each.version))
    assert list(unshown_limits(replace(rule, examples=inside))) == ["a release that it is not for"]


@pytest.mark.parametrize(
    ("then", "missing"),
    [
        (Then(rename="torch.npu"), "its edit"),
        (Then(report=Report(FindingKind.REVIEW, "Look.", Severity.NOTE)), "its finding"),
    ],
)
def test_an_action_that_no_example_shows_is_named(then: Then, missing: str) -> None:
    rule = Rule("a", "Why.", NameMatch("lib.gpu"), then, (Example("import lib\n", "import lib\n"),))
    assert list(unshown_acts(rule)) == [missing]


def test_the_limited_rules_are_many() -> None:
    assert len(LIMITED) > 100


@pytest.mark.parametrize(("version", "is_for"), [("2.7.1.post1", True), ("2.7.1.post2", False), ("2.9.0", False)])
def test_a_rule_that_needs_a_row_is_for_its_releases(version: str, is_for: bool) -> None:
    rule = Rule("a", "Why.", NameMatch("lib.gpu"), Then(), (), needs="limit device-properties-uuid")
    assert rule.applies_to(version) is is_for
