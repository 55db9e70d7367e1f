"""The choice of the rules of a rulebook that are applied: all, only some, or all but some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpu2npu.near_names import did_you_mean
from gpu2npu.rulebook.errors import RuleError
from gpu2npu.rulebook.rule import Rulebook


def select_rules(rulebook: Rulebook, only: Iterable[str] = (), skip: Iterable[str] = ()) -> Rulebook:
    """The rulebook with `only` the rules of some ids (all, if there are none), less those to `skip`.

    Raises:
        RuleError: An id is unknown; the sentence names those nearest to it.
    """
    wanted, unwanted = frozenset(only), frozenset(skip)
    known = [rule.id for rule in rulebook.rules]
    for rule_id in sorted((wanted | unwanted).difference(known)):
        raise RuleError(unknown_rule(rule_id, known))
    if not wanted and not unwanted:
        return rulebook
    retained = (rule for rule in rulebook.rules if rule.id not in unwanted and (not wanted or rule.id in wanted))
    return replace(rulebook, rules=tuple(retained))


def unknown_rule(rule_id: str, known: Iterable[str]) -> str:
    """The sentence for an id that no rule has."""
    hint = did_you_mean(rule_id, known) or "`gpu2npu rules list` shows them all."
    return f"No rule is called {rule_id!r}; {hint}"
