"""The table of behaviour: outcomes of calls that an NPU has, by release, chip, dtype, shape and argument.

`data/behaviour/*.json` holds its rows, each with its source, and `data/behaviour.schema.json` what a row may state.
`check` and a migration report them, the emulator refuses by them, and `verify` names those that a run met: nothing
else states a limit.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from gpu2npu.support.chips import CHIPS, DEFAULT_CHIP
from gpu2npu.support.conditions import CallFacts, Condition, condition
from gpu2npu.support.releases import DATA, has_fact, known_version, release_of, version_key, versions_of, wheel_version

TABLE = DATA / "behaviour"
RAISES, HANGS = "raises", "hangs"
# Another result than PyTorch's, a result of another dtype, an argument without effect where PyTorch allows the result.
DIFFERS, OTHER_DTYPE, IGNORED = "differs", "other dtype", "ignored"
ON_CPU, SLOW, NEEDS = "on the CPU", "slow", "needs another call"
OUTCOMES = (RAISES, HANGS, DIFFERS, OTHER_DTYPE, IGNORED, ON_CPU, SLOW, NEEDS)


@dataclass(frozen=True)
class Row:
    """One row: calls of `apis`, and of `operators` ("aten::mm"), for which `when` holds, meet `outcome`.

    `chips` are the families that it is for. `releases` are those of torch_npu, each "2.1.0", a
    minor release ("2.2"), or a range of such ("2.1.0..2.1.0.post10", "2.6..", "..2.5"); none are all. `lacks` is a fact
    of support.releases that the release must not have. `unless` is a regular expression for the words of a program that
    does what the row asks for. `words` are the error of a real NPU; `{self}` is the dtype of an
    argument as CANN spells it. `fails` and `passes` are programs, one that meets the row and one beside it.
    `at_run_time`: a source does not show what it depends on.
    """

    id: str
    outcome: str
    evidence: str
    advice: str
    source: str
    apis: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    when: str = ""
    chips: frozenset[str] = frozenset(CHIPS)
    releases: tuple[str, ...] = ()
    lacks: str = ""
    unless: str = ""
    words: str = ""
    fails: str = ""
    passes: str = ""
    at_run_time: bool = False
    disagrees: str = ""

    @property
    def holds(self) -> Condition:
        """The condition that `when` is, which is parsed when it is first asked for."""
        return condition(self.when)

    def is_for(self, version: str, chip: str) -> bool:
        """Return whether it holds in a version (of PyTorch or of torch_npu), on a chip of a family."""
        return (
            chip in self.chips
            and not (self.lacks and has_fact(version, self.lacks))
            and (not self.releases or any(is_in(version, each) for each in self.releases))
        )

    def applies_to(self, given: CallFacts) -> bool:
        """Return whether a call is certainly one of those that it is about."""
        return self.holds.is_met(given)

    @property
    def depends_on_device(self) -> bool:
        """Return whether the device decides, which a source rarely shows."""
        return any(attribute == "device" for _, attribute in self.holds.uses)


def behaviour(name: str, given: CallFacts, version: str, chip: str = DEFAULT_CHIP) -> Row | None:
    """The row that a call of an API ("torch.nn.Linear") or operator ("aten::mm") meets; None where none is known.

    `version` is one of PyTorch or torch_npu, `chip` one of CHIPS. Raises ValueError for any other chip.
    """
    if chip not in CHIPS:
        raise ValueError(f"no chip family {chip!r}; there are {', '.join(CHIPS)}")
    return next((each for each in rows_of(name) if each.is_for(version, chip) and each.applies_to(given)), None)


def lifted(name: str, given: CallFacts, version: str, chip: str = DEFAULT_CHIP) -> tuple[Row, str] | None:
    """The row that a call met in an older post release of the same torch_npu, and the first release without it.

    None where there is none, or the release has it itself.
    """
    for each in rows_of(name):
        if (each.lacks or each.releases) and not each.is_for(version, chip) and each.applies_to(given):
            met = _older_with(each, version, chip)
            after = [one for one in _older(version) if met and version_key(one) > version_key(met[-1])]
            return (each, after[0]) if after else None
    return None


def _older(version: str) -> list[str]:
    """The finished post releases of the same torch_npu up to a version, itself last."""
    last = known_version(version) or version
    finished = (one for one in versions_of(release_of(last)) if "rc" not in one)
    return [one for one in finished if version_key(one) <= version_key(last)]


def _older_with(row: Row, version: str, chip: str) -> list[str]:
    """The releases among these that a row is for."""
    return [one for one in _older(version) if row.is_for(f"{one}.post0" if one.count(".") == 2 else one, chip)]


@cache
def rows_for(name: str, version: str, chips: tuple[str, ...]) -> tuple[Row, ...]:
    """The rows about an API or operator that hold on one of some chips, in a version or an older post release of it."""
    return tuple(
        each
        for each in rows_of(name)
        if any(each.is_for(version, chip) or _older_with(each, version, chip) for chip in chips)
    )


def rows_of(name: str) -> Sequence[Row]:
    """The rows about an API or operator, for any release and chip."""
    return _by_name().get(name, ())


def row(name: str) -> Row | None:
    """The row of that id."""
    return next((each for each in rows() if each.id == name), None)


@cache
def parameters(api: str) -> Mapping[str, Any]:
    """The names by which conditions know an API's parameters, in the order of positions, with the default of each, or
    `...` where it is not stated; a method's first is what it is called on."""
    for each in _parameters():
        if api in each:
            parts = (part.partition("=") for part in each[api].split())
            return {name: ast.literal_eval(default) if default else ... for name, _, default in parts}
    return {}


@cache
def _parameters() -> tuple[Mapping[str, str], ...]:
    return tuple(json.loads(path.read_text("utf-8")).get("parameters", {}) for path in sorted(TABLE.glob("*.json")))


@cache
def names() -> frozenset[str]:
    """The APIs and operators that the table is about."""
    return frozenset(_by_name())


@cache
def rows() -> tuple[Row, ...]:
    """All rows, in the order of the files and of each."""
    found = []
    for path in sorted(TABLE.glob("*.json")):
        found += [Row(**{key: _value(key, value) for key, value in each.items()}) for each in read_rows(path.name)]
    return tuple(found)


def read_rows(file: str) -> list[dict[str, Any]]:
    """The rows of one file as they are written, with what the file states for all of them."""
    content = json.loads((TABLE / file).read_text(encoding="utf-8"))
    sets = content.get("names", {})
    shared = content.get("all", {})
    return [{**shared, **{key: _named(value, sets) for key, value in each.items()}} for each in content["rows"]]


def _named(value: Any, sets: Mapping[str, list[str]]) -> Any:
    """A list in which "@cube" stands for the names of that list of the file."""
    if not isinstance(value, list):
        return value
    return [one for each in value for one in (sets[each[1:]] if each.startswith("@") else (each,))]


def _value(key: str, value: Any) -> Any:
    return frozenset(value) if key == "chips" else tuple(value) if isinstance(value, list) else value


@cache
def is_in(version: str, releases: str) -> bool:
    """Return whether a version, of PyTorch or of torch_npu, is in a range of releases, as rows write it."""
    known = version_key(wheel_version(known_version(version) or version))
    first, dots, last = releases.partition("..")
    if not dots:
        last = first
    return not (first and known < _bound(first, is_last=False)) and not (last and known > _bound(last, is_last=True))


def _bound(release: str, is_last: bool) -> tuple[int, ...]:
    """The key of the first or last version of a minor release ("2.2"); of any other version its own."""
    if release.count(".") > 1:
        return version_key(release)
    major, minor = map(int, release.split("."))
    return (major, minor, 999, 1, 999) if is_last else (major, minor, 0, -1, 0)


@cache
def _by_name() -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for each in rows():
        for name in (*each.apis, *each.operators):
            found.setdefault(name, []).append(each)
    return MappingProxyType(found)
