"""Facts that no table of operators shows, from `data/known_facts.json`: each names the document it is from; and
torch_npu's own documentation of PyTorch's APIs, from `data/documented.json`: what it lists, and for which chips.

The documentation says of 3,381 names whether they are supported in the release for PyTorch 2.7, on which families of
chips ("910B", "910_93", "950"), which dtypes their tensor may have, and whether they may run on the CPU; and of the
names for which its pages for PyTorch 2.11 to 2.13 say something else, or that are new there, whether they are supported
from then on. What it lists as supported was verified; what it does not may work all the same, which the operators of a
wheel show better.
"""

from __future__ import annotations

import json
import re
from collections.abc import Set
from functools import cache
from typing import Any

from msgspec import Struct

from gpu2npu.support.releases import DATA, RELEASES

KNOWN_FACTS = DATA / "known_facts.json"
# The environment variable that makes falling back an error, in releases whose library has it.
FALLBACK_SWITCH = "TORCH_NPU_FALLBACK_CPU_DISABLE"


class Fact(Struct, frozen=True):
    """One fact about APIs in some releases of torch_npu.

    `apis` are qualified names, or patterns in which "*" stands for any characters. `since` and `until` are the first
    and the last of releases.RELEASES it holds for; `word` is one that the library or the Python of the wheel must have,
    "" for none. `verdict` is the value of a VerdictKind, or "" where operators decide and the fact only adds to the
    evidence. `assume` is the argument that decides which path operators take ("foreach=False"). `source` is a URL or a
    file of a wheel.
    """

    id: str
    apis: tuple[str, ...]
    since: str
    until: str
    verdict: str
    assume: str
    evidence: str
    advice: str
    source: str
    word: str = ""


def fact_for(api: str, release: str, words: Set[str] = frozenset()) -> Fact | None:
    """The fact for an API in one of releases.RELEASES: the first that names it, or else the first whose pattern fits.

    `words` are those of the wheel's library and Python.
    """
    now = RELEASES.index(release)
    fitting = _patterns() if _some_pattern().fullmatch(api) else []
    for names in (_named().get(api, ()), (fact for pattern, fact in fitting if pattern.fullmatch(api))):
        for fact in names:
            if RELEASES.index(fact.since) <= now <= RELEASES.index(fact.until) and fact.word in ("", *words):
                return fact
    return None


def is_named(api: str) -> bool:
    """Return whether some fact names an API itself, not by a pattern."""
    return api in _named()


@cache
def known_facts() -> tuple[Fact, ...]:
    """All facts, in the order of the file."""
    optional = {"since": RELEASES[0], "until": RELEASES[-1], "verdict": "", "assume": "", "advice": ""}
    entries = json.loads(KNOWN_FACTS.read_text(encoding="utf-8"))
    return tuple(Fact(**{**optional, **entry, "apis": tuple(entry["apis"])}) for entry in entries)


@cache
def _named() -> dict[str, list[Fact]]:
    named: dict[str, list[Fact]] = {}
    for fact in known_facts():
        for api in fact.apis:
            named.setdefault(api, []).append(fact)
    return named


@cache
def _patterns() -> list[tuple[re.Pattern[str], Fact]]:
    return [
        (re.compile(re.escape(api).replace(r"\*", ".*")), fact)
        for fact in known_facts()
        for api in fact.apis
        if "*" in api
    ]


@cache
def _some_pattern() -> re.Pattern[str]:
    """Return one pattern that fits what any of the patterns fits, tested first: few names are fitted by one."""
    return re.compile("|".join(pattern.pattern for pattern, _ in _patterns()) or "(?!)")


DOCUMENTED = DATA / "documented.json"


class Documented(Struct, frozen=True):
    """The facts of the documentation for PyTorch `release` about one name; `dtypes` may be empty."""

    supported: bool
    chips: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    falls_back: bool = False
    release: str = ""


def documented(api: str, release: str = "") -> Documented | None:
    """Return what the documentation says of a qualified name in a minor release of PyTorch ("2.13.0"), or else in the
    first that it is for; None where it does not list it."""
    for since, names in _later() if release else ():
        if api in names and RELEASES.index(since) <= RELEASES.index(release):
            return names[api]
    return _by_name().get(api)


def documented_names(is_later: bool = False) -> frozenset[str]:
    """Every name that the documentation lists, in its first edition or only later."""
    first = frozenset(_by_name())
    return frozenset().union(*(names for _, names in _later())) - first if is_later else first


@cache
def documented_release() -> str:
    """The minor release of PyTorch that the documentation is for."""
    return str(_content()["release"])


@cache
def _by_name() -> dict[str, Documented]:
    found = {}
    for group in _content()["groups"]:
        entry = Documented(
            group["supported"],
            tuple(group.get("chips", ())),
            tuple(group.get("dtypes", ())),
            group.get("falls_back", False),
            documented_release(),
        )
        for owner, members in group["names"].items():
            found.update(dict.fromkeys((f"{owner}.{member}" for member in members.split()), entry))
    return found


@cache
def _later() -> list[tuple[str, dict[str, Documented]]]:
    """The names that are new in the pages of each later release, or documented otherwise, the latest first."""
    found = []
    for release, groups in reversed(_content()["later"].items()):
        entries = {
            f"{owner}.{member}": Documented(group["supported"], release=release)
            for group in groups
            for owner, members in group["names"].items()
            for member in members.split()
        }
        found.append((release, entries))
    return found


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(DOCUMENTED.read_text(encoding="utf-8"))
    return content
