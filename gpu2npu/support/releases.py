"""The releases of torch_npu on PyPI, and the facts of each: a release and what each post release of it changed.

`data/torch_npu/2.1.json` holds the releases of torch_npu for PyTorch 2.1, in order, as tools/wheel_facts makes it from
their wheels. Each states what it has that another, `from`, has not ("new") and what it lacks of that one ("gone"). The
facts are names, in these sections:

    supported, autograd    overloads of aten operators that have a kernel for the NPU, and a gradient of torch_npu's own
    sparse                 overloads of aten operators with a kernel of torch_npu's own for sparse tensors
    custom                 torch_npu's own operators
    modules, names, inert  torch.npu: its modules, its names, and those of them that only warn and return a constant
    parameters             functions and classes of torch.npu and torch_npu.profiler, alone and with each parameter
    torch_npu              the names of torch_npu itself
    refused                functions of torch that torch_npu makes raise
    library                words in torch_npu's library: its fallbacks for operators that it does not register, its
                           environment variables, and keys of PYTORCH_NPU_ALLOC_CONF
    out_of_memory          the exception that is raised when the device's memory runs out
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

DATA = Path(__file__).parent / "data"
TORCH_NPU = DATA / "torch_npu"

# The minor releases of PyTorch that torch_npu is made for, and the versions that a source project may state besides:
# torch_npu for 1.11.0 was never on PyPI.
RELEASES = tuple(f"2.{minor}.0" for minor in range(1, 15))
VERSIONS = ("1.11.0", *RELEASES)

SECTIONS = (
    *("supported", "autograd", "sparse", "custom", "modules", "names", "inert", "parameters", "torch_npu", "refused"),
    *("library", "out_of_memory"),
)
# The names of each section.
Facts = Mapping[str, frozenset[str]]

_NEAREST = 3  # versions that a sentence about an unknown one names
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:(rc|\.post)(\d+))?")


class TorchNpu(Struct, frozen=True):
    """One release of torch_npu on PyPI: its version, and the wheel that its facts come from. `digest` is that of the
    facts, by `facts_digest`; `base` the version that the data say the difference from."""

    version: str
    wheel: str
    sha256: str
    digest: str
    base: str


def version_key(version: str) -> tuple[int, ...]:
    """The order of versions: 2.1.0rc1, 2.1.0, 2.1.0.post3, 2.1.0.post10, 2.2.0. Raises ValueError for what is none."""
    match = _VERSION.fullmatch(version.partition("+")[0])
    if match is None:
        raise ValueError(f"{version!r} is not a version such as 2.1.0, 2.1.0rc1 or 2.1.0.post3")
    major, minor, patch, kind, number = match.groups()
    return int(major), int(minor), int(patch), {"rc": -1, None: 0, ".post": 1}[kind], int(number or 0)


def autoloads(version: str) -> bool:
    """Return whether PyTorch loads torch_npu by itself: from 2.5 on
    (https://pytorch.org/docs/stable/torch.html, "Device backend autoloading")."""
    return tuple(map(int, re.findall(r"\d+", version)[:2])) >= (2, 5)


def release_of(version: str) -> str:
    """The minor release of a version: "2.3.0" for "2.3.1.post2"."""
    return "{}.{}.0".format(*version.split(".")[:2])


def pytorch_of(version: str) -> str:
    """The version of PyTorch that a version of torch_npu is for: "2.1.0" for "2.1.0.post3" and "2.1.0rc1". A minor
    release is its newest one: "2.7.1" for "2.7"."""
    match = _VERSION.fullmatch(version) or _VERSION.fullmatch(known_version(version) or "")
    return f"{match[1]}.{match[2]}.{match[3]}" if match is not None else version


@cache
def torch_npu_releases() -> tuple[TorchNpu, ...]:
    """Every release of torch_npu that there are facts of, in the order of versions."""
    found = (_entry(each) for release in RELEASES for each in _content(release))
    return tuple(sorted(found, key=lambda each: version_key(each.version)))


@cache
def torch_npu_versions() -> tuple[str, ...]:
    """Every release of torch_npu as a version that `known_version` takes for just that one, in order."""
    return tuple(known_torch_npu(each.version) or each.version for each in torch_npu_releases())


@cache
def versions_of(release: str) -> tuple[str, ...]:
    """The versions of torch_npu for one of RELEASES, in order."""
    return tuple(each.version for each in torch_npu_releases() if release_of(each.version) == release)


@cache
def known_version(version: str) -> str | None:
    """The version of torch_npu that a PyTorch version, or one of torch_npu, stands for; None where there is none.

    "2.1.0" is its newest post release, as a project would install it; "2.1.0.post3" is that one, and "2.1.0.post0" the
    wheel 2.1.0 itself. A minor release ("2.7") is the newest there is of it, and so is a patch release that torch_npu
    skipped ("2.7.0"). "1.11.0" is itself, without a torch_npu on PyPI. What this gives stands for itself.
    """
    if re.fullmatch(r"1\.11(\.\d+)?", version):
        return VERSIONS[0]
    match = _VERSION.fullmatch(f"{version}.0" if re.fullmatch(r"\d+\.\d+", version) else version)
    if match is None:
        return None
    versions = versions_of(f"{match[1]}.{match[2]}.0")
    if match[4] is not None:
        return version if wheel_version(version) in versions else None
    finished = [each for each in versions if "rc" not in each] or list(versions)
    same = [each for each in finished if re.fullmatch(rf"{re.escape(version)}(\.post\d+)?", each)]
    return (same or finished)[-1] if finished else None


def known_torch_npu(version: str) -> str | None:
    """The same for a version of torch_npu alone: "2.1.0" is the wheel 2.1.0 itself, not a post release of it."""
    if known_version(version) == version or version not in (each.version for each in torch_npu_releases()):
        return known_version(version)
    return f"{version}.post0"


def wheel_version(version: str) -> str:
    """The version of the wheel that a version of `known_version` names: "2.1.0" for "2.1.0.post0"."""
    return version.removesuffix(".post0")


def unknown_version(version: str) -> str:
    """The sentence about a version for which `known_version` has none."""
    try:
        release = release_of(version)
    except IndexError:
        release = ""
    if release in RELEASES and re.fullmatch(r"\d+\.\d+\.\d+(rc|\.post)\d+", version):
        return f"there is no torch_npu {version}; of this release there are {', '.join(versions_of(release))}"
    return f"PyTorch version {version!r} is not known; use one of {', '.join(VERSIONS)}, or a patch release of one"


def unknown_torch_npu(version: str) -> str:
    """The sentence about a version of torch_npu for which `known_torch_npu` has none, with the nearest there are."""
    there = [each.version for each in torch_npu_releases() if "rc" not in each.version]
    numbers = re.findall(r"\d+", version)
    if not numbers:
        return f"{version!r} is not a version of torch-npu, such as {', '.join(there[-_NEAREST:])}"
    release = ".".join((*numbers, "0", "0")[:2]) + ".0"
    if release in RELEASES:
        return f"there is no torch-npu {version}; of this release there are {', '.join(versions_of(release))}"
    later = [each for each in there if version_key(each) > tuple(map(int, numbers))]
    near = later[:_NEAREST] or there[-_NEAREST:]
    return f"there is no torch-npu {version}; the nearest are {', '.join(near)}"


@cache
def facts_of(version: str) -> Facts:
    """The facts of a version of `torch_npu_releases`. Raises KeyError for any other."""
    chain = []
    while version:
        entry = _entries()[version]
        chain.append(entry)
        version = entry["from"]
    facts: dict[str, set[str]] = {section: set() for section in SECTIONS}
    for entry in reversed(chain):
        for section, names in entry["new"].items():
            facts[section].update(names)
        for section, names in entry["gone"].items():
            facts[section].difference_update(names)
    return {section: frozenset(names) for section, names in facts.items()}


def facts_digest(facts: Facts) -> str:
    """A SHA-256 of facts, the same for the same names."""
    lines = (f"{section}\t{name}\n" for section in sorted(facts) for name in sorted(facts[section]))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def has_fact(version: str, fact: str) -> bool:
    """Return whether a version, as `known_version` understands it, has a name of some section.

    Such names are "torch.npu.mem_get_info", "torch.npu.MemPool use_on_oom" and "aten::_fused_adam_". A section may be
    before one: "inert torch.npu.cudart".

    "1.11.0" has those of the first release. False for a version that is not known.
    """
    known = known_version(version)
    if known == VERSIONS[0]:
        known = first_release().version
    wheel = wheel_version(known) if known is not None else ""
    return wheel in _entries() and _wheel_has(wheel, fact)


def _wheel_has(wheel: str, fact: str) -> bool:
    section, _, name = fact.partition(" ")
    sections, wanted = ((section,), name) if section in SECTIONS else (SECTIONS, fact)
    facts = facts_of(wheel)
    return any(wanted in facts[each] for each in sections)


@cache
def released_with(fact: str) -> tuple[str, ...]:
    """The versions of torch_npu, in order, that have a fact, which is written as for `has_fact`."""
    return tuple(each.version for each in torch_npu_releases() if _wheel_has(each.version, fact))


@cache
def custom_operator(name: str) -> str | None:
    """An operator of torch_npu's own that some release has by this name, with its overload: "npu::npu_min.dim"."""
    return _custom_operators().get(name)


@cache
def _custom_operators() -> dict[str, str]:
    every = frozenset[str]().union(*(facts_of(each.version)["custom"] for each in torch_npu_releases()))
    return {operator.rpartition("::")[2].partition(".")[0]: operator for operator in sorted(every)}


def first_with(fact: str, version: str) -> str | None:
    """The first release after `version` that has a fact `version` lacks, and keeps it in its minor release: a post
    release of the same, or else that of a later PyTorch. None where there is none."""
    known = wheel_version(known_version(version) or version)
    if known == VERSIONS[0]:
        known = first_release().version
    having = frozenset(released_with(fact))
    return next((each for each, rest in _later_than(known) if having.issuperset(rest)), None)


@cache
def _later_than(version: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The later releases that are not candidates, in order, each with those that follow it in its minor release."""
    after = [each.version for each in torch_npu_releases() if version_key(each.version) > version_key(version)]
    return tuple(
        (each, tuple(other for other in after[index:] if release_of(other) == release_of(each)))
        for index, each in enumerate(after)
        if "rc" not in each
    )


def from_on(facts: Iterable[str], version: str) -> str:
    """The wheel of a minor release from which on all `facts` are there, up to that of `version`: "2.1.0.post12".

    "" where every wheel of that minor release has them, or `version` is not on PyPI.
    """
    known = wheel_version(known_version(version) or version)
    versions = [each for each in versions_of(release_of(known)) if "rc" not in each]
    if known not in versions:
        return ""
    older = versions[: versions.index(known)]
    wanted = tuple(facts)
    lacking = [each for each in older if not all(each in released_with(fact) for fact in wanted)]
    return versions[versions.index(lacking[-1]) + 1] if lacking else ""


def since_when(fact: str, version: str) -> str:
    """The beginning of a sentence about a name that `version` lacks: "torch.npu.graph is new in torch_npu 2.5.1: "; ""
    where no later release has it."""
    first = first_with(fact, version)
    if first is None:
        return ""
    name, _, parameter = fact.partition(" ")
    return f"{f'{parameter} of {name}' if parameter else name} is new in torch_npu {first}: "


@cache
def first_release() -> TorchNpu:
    """The oldest torch_npu on PyPI that is not a release candidate."""
    return next(each for each in torch_npu_releases() if "rc" not in each.version)


def _entry(content: Mapping[str, Any]) -> TorchNpu:
    return TorchNpu(content["version"], content["wheel"], content["sha256"], content["digest"], content["from"])


@cache
def _entries() -> dict[str, dict[str, Any]]:
    return {each["version"]: each for release in RELEASES for each in _content(release)}


@cache
def _content(release: str) -> list[dict[str, Any]]:
    path = TORCH_NPU / f"{release.removesuffix('.0')}.json"
    content: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["releases"] if path.exists() else []
    return content
