"""torch_npu's own documentation of PyTorch's APIs, from `data/documented.json`: what it lists, and for which chips.

It says of 3,381 names whether they are supported in the release for PyTorch 2.7, on which families of chips ("910B",
"910_93", "950"), which dtypes their tensor may have, and whether they may run on the CPU. What it lists as supported
was verified; what it does not may work all the same, which the operators of a wheel show better.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from msgspec import Struct

from gpu2npu.support.releases import DATA

DOCUMENTED = DATA / "documented.json"


class Documented(Struct, frozen=True):
    """The facts that the documentation states about one name. `dtypes` is empty where it states none."""

    supported: bool
    chips: tuple[str, ...]
    dtypes: tuple[str, ...]
    falls_back: bool


def documented(api: str) -> Documented | None:
    """Return what the documentation says of a qualified name; None where it does not list it."""
    return _by_name().get(api)


def documented_names() -> frozenset[str]:
    """Every name that the documentation lists."""
    return frozenset(_by_name())


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
        )
        for owner, members in group["names"].items():
            found.update(dict.fromkeys((f"{owner}.{member}" for member in members.split()), entry))
    return found


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(DOCUMENTED.read_text(encoding="utf-8"))
    return content
