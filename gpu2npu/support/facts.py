"""Facts that no table of operators shows, from `data/known_facts.json`: each names the document it is from."""

from __future__ import annotations

import json
import re
from collections.abc import Set
from functools import cache

from msgspec import Struct

from gpu2npu.support.releases import DATA, RELEASES

KNOWN_FACTS = DATA / "known_facts.json"
# The environment variable that makes falling back an error, in releases whose library has it.
FALLBACK_SWITCH = "TORCH_NPU_FALLBACK_CPU_DISABLE"


class Fact(Struct, frozen=True):
    """One fact about APIs in some releases of torch_npu.

    `apis` are qualified names, or patterns in which "*" stands for any characters. `since` and `until` are the first
    and the last of tables.RELEASES it holds for; `word` is one that the library or the Python of the wheel must have,
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
    """The fact for an API in one of tables.RELEASES: the first that names it, or else the first whose pattern fits.

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
