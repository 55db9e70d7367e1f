"""The words that a report of a check has for rules."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gpu2npu.distributions import normalised
from gpu2npu.project.cache.store import Store, file_digests, name_of
from gpu2npu.project.errors import UsageError
from gpu2npu.report.check.result import RuleNote

if TYPE_CHECKING:
    from gpu2npu.rulebook.rule import Rule


class RuleNotes(Struct, frozen=True):
    """The notes on rules by their ids, and a sentence for each distribution that a plugin brings to Ascend."""

    rules: dict[str, RuleNote]
    plugins: dict[str, str]


def rule_notes(rules: tuple[Path, ...], store: Store | None = None) -> RuleNotes:
    """The notes on all rules that a check may report: those in rule files of the user's, the built-in
    ones, and those in code. They are stored, since loading rules imports the engine.

    Raises UsageError if a rule file cannot be used.
    """
    if store is None:
        return _loaded(rules)
    try:
        name = name_of("rules", [str(file) for file in rules], file_digests(rules))
    except OSError:  # loading them says what is wrong
        return _loaded(rules)
    notes = store.find(name, RuleNotes)
    if notes is None:
        notes = _loaded(rules)
        store.put({name: notes})
    return notes


def _loaded(files: tuple[Path, ...]) -> RuleNotes:
    from gpu2npu.rulebook.errors import RuleError
    from gpu2npu.rulebook.in_code import WHY
    from gpu2npu.rulebook.load import load_rulebook
    from gpu2npu.rulebook.reference import page_of, section_of

    try:
        rules = load_rulebook(files).rules
    except RuleError as error:
        raise UsageError(str(error)) from error
    others = {name: RuleNote(name, why, "api-facts.md") for name, why in WHY.items()}
    notes = others | {rule.id: RuleNote(rule.id, rule.why, page_of(rule), section_of(rule)) for rule in rules}
    return RuleNotes(notes, plugins(rules))


def plugins(rules: Iterable[Rule]) -> dict[str, str]:
    """The sentences about plugins that rules for packages name, by the normalised names of the distributions."""
    from gpu2npu.kinds.import_ import ImportMatch

    return {
        normalised(name): f"{name} runs on Ascend beside its plugin {rule.then.plugin}: install both ({rule.source})."
        for rule in rules
        if rule.then.plugin is not None and isinstance(rule.match, ImportMatch)
        for name in rule.match.distributions
    }
