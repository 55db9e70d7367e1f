"""Joins the differences that one rule makes, and gives each rule an example that shows it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.project.learn.meaning import Observed, Sample
from gpu2npu.project.rule_examples import run_example
from gpu2npu.report.text import counted
from gpu2npu.rulebook import Rule, Rulebook, RuleError
from gpu2npu.rulebook.check import check_document
from gpu2npu.rulebook.entries import decode_rule, encode_rule
from gpu2npu.rulebook.rule import Example
from gpu2npu.support.releases import RELEASES

_MOST_EXAMPLES = 2
_LONGEST_ID = 60


class Proposal(Struct, frozen=True):
    """A rule, the differences that speak for it by their places, and texts that its examples can show."""

    rule: Rule
    places: tuple[tuple[str, int], ...]
    samples: tuple[tuple[Sample, ...], ...]


def candidates(observed: Iterable[Observed], known: Rulebook) -> Iterator[Proposal]:
    """The rules for differences, without examples, those with the most places first."""
    groups: dict[str, list[Observed]] = {}
    for each in _general_names(list(observed)):
        groups.setdefault(json.dumps([each.match, each.then], sort_keys=True), []).append(each)
    best: dict[str, list[Observed]] = {}  # of several things that became of one, the most frequent
    for group in sorted(groups.values(), key=len, reverse=True):
        best.setdefault(json.dumps(group[0].match, sort_keys=True), group)
    taken = {rule.id for rule in known.rules}
    for group in best.values():
        if "name" in group[0].match and group[0].match["name"] == group[0].then["rename"]:
            continue
        rule = _rule(group, taken)
        if rule is not None and not any(_does_it(each, rule) for each in known.rules):
            taken.add(rule.id)
            places = dict.fromkeys((each.path, each.line) for each in group)
            yield Proposal(rule, tuple(places), tuple(each.samples for each in group))


def _does_it(known: Rule, rule: Rule) -> bool:
    """Return whether a known rule makes the same of the same code."""
    one, other = known.then, rule.then
    is_same = (one.rename, one.replace, one.remove, one.add) == (other.rename, other.replace, other.remove, other.add)
    return is_same and type(known.match) is type(rule.match) and known.match.meets(rule.match)


def with_examples(proposals: Sequence[Proposal], known: Rulebook, version: str) -> tuple[Proposal, ...]:
    """Proposals with examples that their rules pass together, without those that have none or are not needed."""
    while True:
        rulebook = with_proposals(known, proposals)
        shown = [
            replace(each, rule=replace(each.rule, examples=_examples(each, rulebook, known, version)))
            for each in proposals
        ]
        fitting = tuple(each for each in shown if each.rule.examples)
        if len(fitting) == len(shown):
            return fitting
        proposals = fitting


def with_proposals(known: Rulebook, proposals: Iterable[Proposal]) -> Rulebook:
    """The known rules with the proposed ones before them."""
    return Rulebook((*(each.rule for each in proposals), *known.rules), known.roles)


def rule_file(proposals: Iterable[Proposal]) -> str:
    """The text of the rule file."""
    document = {"$schema": "./rule.schema.json", "rules": [encode_rule(each.rule) for each in proposals]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


# Names


def _general_names(observed: Sequence[Observed]) -> Iterator[Observed]:
    """The differences, with names cut to the part that differs where nothing speaks against a rule for all below it."""
    renames = {(each.match["name"], each.then["rename"]) for each in observed if "name" in each.match}
    renamed = {pair for pair in renames if pair[0] != pair[1]}
    support = Counter(_stem(*pair) for pair in renamed)
    for each in observed:
        if "name" not in each.match:
            yield each
            continue
        name, target = each.match["name"], each.then["rename"]
        stem = _stem(name, target)
        has_common_root = stem[0].partition(".")[0] == stem[1].partition(".")[0]
        is_contradicted = any(
            _is_below(other, stem[0]) and becomes != stem[1] + other[len(stem[0]) :] for other, becomes in renames
        )
        if name != target and not is_contradicted and (has_common_root or support[stem] > 1):
            yield replace(each, match={"name": stem[0]}, then={"rename": stem[1]})
        else:
            yield each


def _stem(name: str, target: str) -> tuple[str, str]:
    """Two names without the last parts that they share; a part is left of each."""
    old, new = name.split("."), target.split(".")
    while len(old) > 1 and len(new) > 1 and old[-1] == new[-1]:
        old.pop()
        new.pop()
    return ".".join(old), ".".join(new)


def _is_below(name: str, owner: str) -> bool:
    return name == owner or name.startswith(f"{owner}.")


# Rules


def _rule(group: Sequence[Observed], taken: set[str]) -> Rule | None:
    """The rule of some differences; None for one that a rule file cannot have."""
    match, then = group[0].match, group[0].then
    times = counted(len(group), "place")
    entry: dict[str, Any] = {
        "id": "proposed",
        "why": f"By hand it was written so in {times}.",
        "match": match,
        "then": then,
    }
    entry["examples"] = [{"before": "", "after": "\n"}]
    try:
        check_document({"rules": [entry]}, Path("proposed.json"))
    except RuleError:
        return None
    rule = decode_rule(entry, builtin=False, file="proposed.json")
    return replace(rule, id=_id(rule, taken), examples=())


def _id(rule: Rule, taken: set[str]) -> str:
    action = "remove" if rule.then.remove else "add" if rule.then.add is not None else ""
    text = re.sub(r"[^a-z0-9]+", "-", f"{rule.match.subject} {action}".lower())
    stem = text.strip("-")[:_LONGEST_ID].strip("-") or rule.match.key
    numbered = (f"{stem}-{number}" for number in count(2))
    return next(each for each in chain([stem], numbered) if each not in taken)


def _examples(proposal: Proposal, rulebook: Rulebook, known: Rulebook, version: str) -> tuple[Example, ...]:
    """The shortest samples that show a rule."""
    shown: dict[Example, None] = {}
    for samples in proposal.samples:
        found = (_shown(proposal.rule, sample, rulebook, known, version) for sample in samples)
        shown.update((each, None) for each in islice(filter(None, found), 1))
        if len(shown) == _MOST_EXAMPLES:
            break
    return tuple(shown)


def _shown(rule: Rule, sample: Sample, rulebook: Rulebook, known: Rulebook, version: str) -> Example | None:
    """The example that a sample makes: the rule changes it, and the known rules alone do not do so."""
    example = Example(sample.text, sample.text, None, version if version != RELEASES[0] else None, sample.file)
    after = run_example(rule, 0, example, rulebook).after
    if after in (sample.text, run_example(rule, 0, example, known).after):
        return None
    example = replace(example, after=after)
    return example if run_example(rule, 0, example, rulebook).problem is None else None
