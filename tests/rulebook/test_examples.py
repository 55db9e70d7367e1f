"""Every example of every built-in rule is executed."""

from __future__ import annotations

import json
import re
from itertools import combinations

import jsonschema
import pytest

from gpu2npu.builtin_rules import builtin_files, schema_path
from gpu2npu.engine.table import rule_table
from gpu2npu.project.rule_examples import run_example
from gpu2npu.rulebook import Rule, load_rulebook
from gpu2npu.rulebook.check import check_document, find_conflicts, share_a_file
from gpu2npu.rulebook.document import schema, schema_text
from gpu2npu.rulebook.entries import decode_rule, encode_rule
from gpu2npu.rulebook.rule import Example
from gpu2npu.support.releases import VERSIONS

RULEBOOK = load_rulebook()
EXAMPLES = [
    pytest.param(rule, index, example, id=f"{rule.id}-{index}")
    for rule in RULEBOOK.rules
    for index, example in enumerate(rule.examples)
]
RULE_FILES = builtin_files()


@pytest.mark.parametrize(("rule", "index", "example"), EXAMPLES)
def test_example(rule: Rule, index: int, example: Example) -> None:
    run = run_example(rule, index, example, RULEBOOK)
    assert (run.problem, run.after) == (None, example.after)


def test_every_rule_says_why_and_shows_what_it_does() -> None:
    def shows(rule: Rule) -> bool:
        acts = any(example.before != example.after or example.reports for example in rule.examples)
        return acts or rule.then.trait is not None or rule.then.keep

    assert [rule.id for rule in RULEBOOK.rules if not rule.why.endswith(".") or not shows(rule)] == []


@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.name)
def test_built_in_files_fit_the_schema(path) -> None:
    check_document(json.loads(path.read_text(encoding="utf-8")), path)


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_the_published_schema_is_that_of_the_kinds() -> None:
    assert schema_path().read_text(encoding="utf-8") == schema_text()  # make docs


def test_roles_have_patterns_that_compile() -> None:
    assert RULEBOOK.roles.keys() == {
        "accelerator",
        "device",
        "backend",
        "dispatch-key",
        "reference",
        "distributed-type",
        "ray-resource",
    }
    for role in RULEBOOK.roles.values():
        re.compile((role.prefix or "") + (role.suffix or ""))


@pytest.mark.parametrize("version", VERSIONS)
def test_no_two_rules_match_the_same_name(version: str) -> None:
    rules = rule_table(RULEBOOK, version).names
    assert [name for name, some in rules.items() if any(share_a_file(*pair) for pair in combinations(some, 2))] == []


def test_no_two_built_in_rules_conflict() -> None:
    conflicts = find_conflicts(RULEBOOK, frozenset(rule.file for rule in RULEBOOK.rules))
    pairs = [(each.first, each.second) for each in conflicts]
    # A rule for some files or projects comes before that for any of them.
    limits = {rule.id: rule.where.without | rule.where.imports for pair in pairs for rule in pair}
    assert [(one.id, other.id) for one, other in pairs if not limits[one.id] or limits[other.id]] == []


def test_what_is_listed_of_a_rule_is_the_rule() -> None:
    read = [decode_rule(encode_rule(rule), builtin=rule.builtin, file=rule.file) for rule in RULEBOOK.rules]
    assert [rule.id for rule, again in zip(RULEBOOK.rules, read, strict=True) if again != rule] == []
