"""torch_npu's own documentation of PyTorch's APIs, from `data/documented.json`: what it lists, and for which chips.

It says of 3,381 names whether they are supported in the release for PyTorch 2.7, on which families of chips ("910B",
"910_93", "950"), which dtypes their tensor may have, and whether they may run on the CPU; and of the names for which
its pages for PyTorch 2.11 to 2.13 say something else, or that are new there, whether they are supported from then on.
What it lists as supported was verified; what it does not may work all the same, which the operators of a wheel show
better.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from msgspec import Struct

from gpu2npu.support.releases import DATA, RELEASES

DOCUMENTED = DATA / "documented.json"


class Documented(Struct, frozen=True):
    """The facts that the documentation for PyTorch `release` states about one name. `dtypes` is empty where it states
    none."""

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
