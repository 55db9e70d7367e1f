"""The names whose verdict, or whose rules, may differ between two releases of torch_npu."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from functools import cache
from itertools import chain

from gpu2npu.kinds.name import NameMatch
from gpu2npu.rulebook import load_rulebook
from gpu2npu.support.facts import documented_names, documented_release, known_facts
from gpu2npu.support.operators import Reached, all_names, torch_release
from gpu2npu.support.release_tables import cuda_names, npu_spelling, table_for
from gpu2npu.support.releases import RELEASES, SECTIONS, facts_of, release_of, torch_npu_releases, wheel_version
from gpu2npu.support.spellings import api_variants, public_spellings, same_operators, spellings


@cache
def names() -> tuple[str, ...]:
    """Every public name of torch, torch.cuda, torch.npu and torch_npu that a table of some release has, sorted."""
    found = set(documented_names() | all_names() | cuda_names())
    for table in (table_for(each.version) for each in torch_npu_releases()):
        found |= table.npu_names | table.torch_npu_names | table.refused
        found |= {f"torch_npu.{operator.removeprefix('npu::').partition('.')[0]}" for operator in table.custom}
    return tuple(sorted(name for name in found if re.fullmatch(r"[A-Za-z]\w*(\.[A-Za-z]\w*)+", name)))


def touched(version: str, other: str) -> frozenset[str]:
    """The members of `names` that something is said of that one of two wheels has and the other has not."""
    changed = set(_facts(version) ^ _facts(other))
    found = set().union(*(_by_fact().get(fact, frozenset()) for fact in changed))
    here, there = release_of(version), release_of(other)
    if here != there:
        found |= torch_release(here).names ^ torch_release(there).names
        found.update(_bounded(here, there))
    return frozenset(found) & frozenset(names())


def _bounded(*releases: str) -> Iterator[str]:
    """The names that facts, rules and the documentation speak of in one of two minor releases only."""
    low, high = sorted(map(RELEASES.index, releases))
    for fact in known_facts():
        bounds = RELEASES.index(fact.since), RELEASES.index(fact.until) + 1
        if any(low < bound <= high for bound in bounds):
            yield from _fitting(fact.apis)
    for rule in load_rulebook().rules:
        if isinstance(rule.match, NameMatch) and len({rule.applies_to(release) for release in releases}) > 1:
            yield from _fitting((rule.match.name, f"{rule.match.name}.*"))
    if low < RELEASES.index(documented_release()) <= high:
        listed = documented_names()
        yield from (name for name in names() if not listed.isdisjoint((name, *public_spellings(name))))


@cache
def _facts(version: str) -> frozenset[str]:
    """The facts of a wheel and the operators of PyTorch, without overloads: "aten::add", "torch.npu.graph"."""
    sections = facts_of(wheel_version(version))
    composed = (f"{name} {kind}" for name, kind in torch_release(release_of(version)).operators.items())
    return frozenset(f"{section} {name}" for section in sections for name in sections[section]).union(composed)


@cache
def _by_fact() -> dict[str, frozenset[str]]:
    """The names that a fact of `_facts` of some wheel is about."""
    by_key = defaultdict(set)
    for name in names():
        for key in _keys(name):
            by_key[key].add(name)
    for fact in known_facts():
        by_key[fact.word].update(_fitting(fact.apis) if fact.word else ())
    for rule in load_rulebook().rules:
        if isinstance(rule.match, NameMatch):
            for fact in filter(None, (rule.needs, rule.lacks)):
                by_key[_key(fact)].update(_fitting((rule.match.name, f"{rule.match.name}.*")))
    everything = set().union(*(_facts(each.version) for each in torch_npu_releases()))
    return {fact: frozenset(by_key[key]) for fact in everything if (key := _key(fact)) in by_key}


def _key(fact: str) -> str:
    section, _, name = fact.partition(" ")
    first = name.partition(" ")[0] if section in SECTIONS else section
    return first.partition(".")[0] if "::" in first else first


def _keys(name: str) -> Iterator[str]:
    """All that decides about a name: other spellings of it, its owners, and the operators that they reach."""
    parts = name.split(".")
    owners = {".".join(parts[:end]) for end in range(2, len(parts) + 1)}
    owners |= {f"{base}.{parts[-1]}" for base in ("torch.nn.Module", "torch.optim.Optimizer")}
    for each in {*owners, *public_spellings(name)}:
        moved = npu_spelling(each).split(".")
        yield from (".".join(moved[:end]) for end in range(3, len(moved) + 1))
        yield f"npu::{each.removeprefix('torch_npu.')}"
        for spelling in {*spellings(each), *chain.from_iterable(map(same_operators, spellings(each)))}:
            yield spelling
            for variant in api_variants().get(spelling, ()):
                yield from _operators((*variant.nodes, *variant.gradient))


def _operators(nodes: Iterable[Reached]) -> Set[str]:
    found: set[str] = set()
    for node in nodes:
        found |= {node.operator.partition(".")[0], *_operators(node.parts)}
    return found


def _fitting(patterns: Iterable[str]) -> list[str]:
    written = re.compile("|".join(re.escape(each).replace(r"\*", ".*") for each in patterns))
    return [name for name in names() if written.fullmatch(name)]
