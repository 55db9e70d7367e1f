"""Rule files -> Rulebook, and the choice of its rules. Every error names the file, the place and the reason."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gpu2npu.builtin_rules import builtin_files
from gpu2npu.near_names import did_you_mean
from gpu2npu.rulebook.check import check_document
from gpu2npu.rulebook.document import read_document
from gpu2npu.rulebook.entries import decode_role, decode_rule, merge_roles
from gpu2npu.rulebook.packs import check_codemods
from gpu2npu.rulebook.rule import Role, Rule, Rulebook, RuleError
from gpu2npu.rulebook.vendor import is_vendor_file, vendor_rules


def load_rulebook(user_files: Sequence[Path] = ()) -> Rulebook:
    """The user's rule files, in the order given, then the built-in ones.

    A file of the user may also be a custom rule file of the vendor's tool. Examples are not run here (see
    project/rule_examples.py). A file that is given twice, or is a built-in one, is read once, where it is given first.
    Raises RuleError: a file cannot be read, is not JSON, does not fit the schema, or repeats a rule's id; a sentence
    for each place that is wrong, with the file and the JSON path.
    """
    rules: list[Rule] = []
    roles: dict[str, Role] = {}
    seen: dict[str, Rule] = {}
    builtin = {os.path.realpath(path): path for path in builtin_files()}
    given = {path: builtin.pop(os.path.realpath(path), None) for path in user_files}
    files = [_read_user_file(path, builtin=known is not None) for path, known in given.items()]
    for path, found, _ in files:
        check_codemods(path, found)
    for path, found, found_roles in (*files, *map(_read_builtin_file, builtin.values())):
        for index, rule in enumerate(found):
            if rule.id in seen:
                raise _taken(rule, path, index, seen[rule.id], rules)
            seen[rule.id] = rule
        rules += found
        for name, role in found_roles.items():
            roles[name] = merge_roles(roles[name], role) if name in roles else role
    _check_roles(rules, roles)
    return Rulebook(tuple(rules), roles)


def _taken(rule: Rule, path: Path, index: int, earlier: Rule, rules: list[Rule]) -> RuleError:
    """The error for an id that two rules have: of a built-in one and a user's it is the user's to change."""
    if replace(rule, file=earlier.file) == earlier and rule.file != earlier.file:
        both = f"the rule '{rule.id}' is in {earlier.file} too, the same"
        return RuleError(f"{path}: $.rules[{index}]: {both}; give one of the two files alone.")
    if not rule.builtin or earlier.builtin:
        return RuleError(f"{path}: $.rules[{index}].id: '{rule.id}' is taken (also in {earlier.file}); choose another.")
    place = [other.id for other in rules if other.file == earlier.file].index(rule.id)
    return RuleError(f"{earlier.file}: $.rules[{place}].id: '{rule.id}' is a built-in rule's id; choose another.")


_File = tuple[Path, list[Rule], dict[str, Role]]


def _read_user_file(path: Path, *, builtin: bool) -> _File:
    document = read_document(path)
    if is_vendor_file(document):
        return path, vendor_rules(document, path), {}
    check_document(document, path)
    return _decode(document, path, builtin=builtin, file=str(path))


@cache
def _read_builtin_file(path: Path) -> _File:
    # The built-in files are checked against the schema by the tests, not on every run: importing jsonschema takes
    # longer than migrating a small project. One that a contributor broke gets the sentences of the check.
    try:
        return _decode(json.loads(path.read_text(encoding="utf-8")), path, builtin=True, file=path.name)
    except (ValueError, TypeError, KeyError, AttributeError):
        check_document(read_document(path), path)
        raise


def _decode(document: dict[str, Any], path: Path, *, builtin: bool, file: str) -> _File:
    rules = [decode_rule(entry, builtin=builtin, file=file) for entry in document.get("rules", ())]
    return path, rules, {name: decode_role(entry) for name, entry in document.get("roles", {}).items()}


def _check_roles(rules: list[Rule], roles: dict[str, Role]) -> None:
    for rule in rules:
        for role in rule.match.roles - roles.keys():
            index = [other.id for other in rules if other.file == rule.file].index(rule.id)
            raise RuleError(
                f"{rule.file}: $.rules[{index}].match.role (rule '{rule.id}'): no role is called '{role}'; "
                f"known: {', '.join(sorted(roles))}."
            )


def select_rules(rulebook: Rulebook, only: Iterable[str] = (), skip: Iterable[str] = ()) -> Rulebook:
    """The rulebook with `only` the rules of some ids (all, if there are none), less those to `skip`. Raises RuleError:
    an id is unknown; the sentence names those nearest to it."""
    wanted, unwanted = frozenset(only), frozenset(skip)
    known = [rule.id for rule in rulebook.rules]
    for rule_id in sorted((wanted | unwanted).difference(known)):
        raise RuleError(unknown_rule(rule_id, known))
    if not wanted and not unwanted:
        return rulebook
    retained = (rule for rule in rulebook.rules if rule.id not in unwanted and (not wanted or rule.id in wanted))
    return dataclasses.replace(rulebook, rules=tuple(retained))


def unknown_rule(rule_id: str, known: Iterable[str]) -> str:
    """The sentence for an id that no rule has."""
    hint = did_you_mean(rule_id, known) or "`gpu2npu rules list` shows them all."
    return f"No rule is called {rule_id!r}; {hint}"
