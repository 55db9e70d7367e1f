"""Every example of every built-in rule is executed."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.engine.table import rule_table
from gpu2npu.rulebook import Rule, load_rulebook
from gpu2npu.rulebook.builtin import builtin_files, schema
from gpu2npu.rulebook.check import check_document
from gpu2npu.rulebook.rule import Example
from gpu2npu.support.tables import VERSIONS

RULEBOOK = load_rulebook()
EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.id}-{index}")
    for rule in RULEBOOK.rules
    for index, example in enumerate(rule.examples)
]
RULE_FILES = builtin_files()


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_example(rule: Rule, example: Example) -> None:
    context = ProjectContext(version=example.version or rule.since or "2.1.0")
    result = migrate_source(example.before.encode(), example.file, RULEBOOK, context)
    after = example.before if result.content is None else result.content.decode()
    assert (result.failure, after) == (None, example.after)
    reported = {finding.kind for finding in result.findings if finding.rule == rule.id}
    assert reported == ({example.reports} if example.reports else set())
    if example.before != example.after:
        # An edit of the owner's name may carry out the renaming; the rule then shows by its finding.
        assert rule.id in {change.rule for change in result.changes} | {finding.rule for finding in result.findings}


@pytest.mark.parametrize("rule", RULEBOOK.rules, ids=lambda rule: rule.id)
def test_every_rule_shows_what_it_does(rule: Rule) -> None:
    changes = any(example.before != example.after for example in rule.examples)
    reports = any(example.reports for example in rule.examples)
    assert rule.why.endswith(".")
    assert changes or rule.then.rename is None
    assert changes or reports or rule.then.trait is not None


@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.name)
def test_built_in_files_fit_the_schema(path) -> None:
    check_document(json.loads(path.read_text(encoding="utf-8")), path)


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_roles_have_patterns_that_compile() -> None:
    assert RULEBOOK.roles.keys() == {"device", "backend", "reference"}
    for role in RULEBOOK.roles.values():
        re.compile((role.prefix or "") + (role.suffix or ""))


@pytest.mark.parametrize("version", VERSIONS)
def test_no_two_rules_match_the_same_name(version: str) -> None:
    counts = {name: len(rules) for name, rules in rule_table(RULEBOOK, version).names.items()}
    assert set(counts.values()) == {1}, [name for name, count in counts.items() if count > 1]
