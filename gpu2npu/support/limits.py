"""The conditions under which an operator that exists still fails on the NPU: dtypes, arguments, layouts, by chip.

`data/limits.json` states each with its source. What no entry knows, torch_npu's documentation may: it lists the dtypes
that a tensor may have. One function answers for both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gpu2npu.support.documented import documented
from gpu2npu.support.releases import DATA, from_on, has_fact, release_of, version_key

LIMITS = DATA / "limits.json"
# Families of chips, as torch_npu's documentation distinguishes them; 910_93 is the A3, 310P an inference card.
CHIPS = ("910A", "910B", "910_93", "310P", "950")
DEFAULT_CHIP = "910B"
# What the name of a chip begins with, as torch_npu's socVersionMap and `npu-smi` have it, and its family.
_PREFIXES = {
    "910_93": "910_93",
    "910C": "910_93",
    "910B": "910B",
    "910A": "910A",
    "910PRO": "910A",
    "910PREMIUM": "910A",
    "310P": "310P",
    "950": "950",
}
_PRODUCTS = {"A2": "910B", "A3": "910_93"}  # Atlas A2, Atlas A3
RAISES, DIFFERS, IGNORED, NOT_LISTED = "raises", "differs", "ignored", "not listed"


@dataclass(frozen=True)
class Limit:
    """One condition. It holds for calls of `apis`, and for `operators` ("aten::mm"), where all that it states is so.

    `dtypes`, `layouts`, `devices`: the tensor, or the argument `dtype`, is one of these ("float64"). `arguments`: each
    is written as one of the texts; `unless`: each is given, and written as none of the texts. `chips` are the families
    it is for; `lacks` is a fact of support.releases that a release must not have; `since` and `until` are minor
    releases. `outcome` is RAISES, DIFFERS (another result than PyTorch's), IGNORED (an argument has no effect,
    and the result is one that PyTorch allows) or NOT_LISTED (the documentation does not name the dtype).
    """

    id: str
    outcome: str
    evidence: str
    advice: str
    source: str
    apis: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    dtypes: frozenset[str] = frozenset()
    layouts: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()
    arguments: Mapping[str, frozenset[str]] | None = None
    unless: Mapping[str, frozenset[str]] | None = None
    chips: frozenset[str] = frozenset(CHIPS)
    lacks: str = ""
    since: str = ""
    until: str = ""

    def is_for(self, version: str, chip: str) -> bool:
        """Return whether it holds in a version (of PyTorch or of torch_npu), on a chip of a family."""
        release = version_key(release_of(version))
        return (
            chip in self.chips
            and not (self.lacks and has_fact(version, self.lacks))
            and not (self.since and release < version_key(self.since))
            and not (self.until and release > version_key(self.until))
        )

    def applies_to(self, given: CallFacts) -> bool:
        """Return whether a call is one of those that it is about."""
        return (
            (not self.dtypes or not self.dtypes.isdisjoint(given.dtypes))
            and (not self.layouts or not given.layouts or not self.layouts.isdisjoint(given.layouts))
            and (not self.devices or not self.devices.isdisjoint(given.devices))
            and all(given.arguments.get(name) in texts for name, texts in (self.arguments or {}).items())
            and all(
                name in given.arguments and given.arguments[name] not in texts
                for name, texts in (self.unless or {}).items()
            )
        )


@dataclass(frozen=True)
class CallFacts:
    """The facts known of one call: the dtypes, layouts and devices of its tensors, and arguments by keyword, as they
    are written ("torch.channels_last", "True")."""

    dtypes: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)


def limit(name: str, given: CallFacts, version: str, chip: str = DEFAULT_CHIP) -> Limit | None:
    """The limit that a call of an API ("torch.nn.Linear") or operator ("aten::mm") meets; None where none is known.

    `version` is one of PyTorch or torch_npu, `chip` one of CHIPS. Raises ValueError for any other chip.
    """
    if chip not in CHIPS:
        raise ValueError(f"no chip family {chip!r}; there are {', '.join(CHIPS)}")
    for each in _by_name().get(name, ()):
        if each.is_for(version, chip) and each.applies_to(given):
            return each
    return _of_documentation(name, given)


def lifted(name: str, given: CallFacts, version: str) -> tuple[Limit, str] | None:
    """The limit that a call met in an older post release of the same torch_npu, and the first without it.

    None where there is none, or the release has it itself.
    """
    for each in _by_name().get(name, ()):
        if each.lacks and each.applies_to(given):
            first = from_on((each.lacks,), version) if has_fact(version, each.lacks) else ""
            return (each, first) if first else None
    return None


def chip_family(name: str) -> str:
    """Find the member of CHIPS that a chip's name is for: "Ascend910B2" and "910b" for "910B", "A3" for "910_93".

    Raises ValueError where no family has the name.
    """
    bare = name.strip().upper().removeprefix("ASCEND")
    of_prefix = (family for prefix, family in _PREFIXES.items() if bare.startswith(prefix))
    family = _PRODUCTS.get(bare) or next(of_prefix, None)
    if family is None:
        raise ValueError(f"no chip is called {name!r}; there are {', '.join(CHIPS)}, and names such as Ascend910B2")
    return family


def chip_families(names: Sequence[str]) -> tuple[str, ...]:
    """The families that chips are of, each once. Raises ValueError where no family has a name."""
    return tuple(dict.fromkeys(map(chip_family, names)))


def limits_of(name: str) -> Sequence[Limit]:
    """The limits that are about an API or operator, for any release and chip, without those of the documentation."""
    return _by_name().get(name, ())


@cache
def limited_names() -> frozenset[str]:
    """The APIs and operators that limits.json is about."""
    return frozenset(_by_name())


@cache
def known_limits() -> tuple[Limit, ...]:
    """All limits, in the order of the file."""
    entries = json.loads(LIMITS.read_text(encoding="utf-8"))["limits"]
    return tuple(Limit(**{key: _value(value) for key, value in entry.items()}) for entry in entries)


def _of_documentation(name: str, given: CallFacts) -> Limit | None:
    entry = documented(name)
    unlisted = set(given.dtypes) - set(entry.dtypes) if entry is not None and entry.dtypes else set()
    if entry is None or not unlisted:
        return None
    evidence = f"torch_npu's documentation lists {', '.join(entry.dtypes)} for it, not {', '.join(sorted(unlisted))}"
    source = "https://github.com/Ascend/pytorch/tree/master/docs/en/native_apis/pytorch_2-7-1"
    return Limit("documented-dtypes", NOT_LISTED, evidence, f"use {entry.dtypes[-1]}, or try it on an NPU", source)


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: frozenset(texts) for name, texts in value.items()}
    return frozenset(value) if isinstance(value, list) else value


@cache
def _by_name() -> dict[str, list[Limit]]:
    found: dict[str, list[Limit]] = {}
    for each in known_limits():
        for name in (*each.apis, *each.operators):
            found.setdefault(name, []).append(each)
    return found
