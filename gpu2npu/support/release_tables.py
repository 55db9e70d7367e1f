"""The names and operators that a release of torch_npu supports, and the names of torch.cuda."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from msgspec import Struct

from gpu2npu.support.releases import (
    DATA,
    facts_of,
    first_release,
    from_on,
    known_version,
    release_of,
    released_with,
    torch_npu_releases,
    unknown_version,
    wheel_version,
)

CUDA_TABLE = DATA / "torch_cuda.json"

_NAMES = json.loads((DATA / "torch_npu_names.json").read_bytes())
# What torch_npu calls otherwise than torch.cuda with another prefix; the rules rename these likewise.
NPU_SPELLINGS: Mapping[str, str] = _NAMES["spellings"]

# What `from torch import torch` makes of a name, and modules of torch that code takes torch itself from. What follows
# torch.ops is the name of a library.
_TORCH_IN_TORCH = re.compile(r"^torch\.(?!(?:ops|classes)\.)(?:\w+\.)*torch(?=\.|$)")


def without_repeats(name: str) -> str:
    """A qualified name without what repeats torch in it: "torch.relu" for "torch.nn.functional.torch.relu"."""
    return _TORCH_IN_TORCH.sub("torch", name) if ".torch" in name else name


class SupportTable(Struct, frozen=True):
    """One release of torch_npu.

    `version` is its version ("2.1.0.post17"), or the PyTorch version that was asked for where PyPI has none for it;
    `release` the minor release ("2.1.0") of its `wheel` (a file name on PyPI), which the facts come from. `npu_names`
    are qualified ("torch.npu.amp.autocast") and include `npu_modules`; `inert` are those of them that do nothing but
    warn and return a constant. `parameters` are what the functions and classes of torch.npu and torch_npu.profiler can
    be given by keyword, with "**" for any others. `out_of_memory` is the exception that is raised when the device's
    memory runs out. Operators are overloads: "aten::add.Tensor" in `supported`, "npu::npu_format_cast" in `custom`, and
    in `autograd` the aten ones with a backward of torch_npu's own, in `sparse` those with a kernel of its own for
    sparse tensors. `library` are words that torch_npu's library holds: environment variables, and what it has for
    operators that it does not register: "npu_cpu_fallback" computes them on the CPU, "npu_Sparse_fallback" raises for
    sparse tensors. `refused` are functions of torch that it makes raise.
    """

    version: str
    release: str
    wheel: str
    npu_modules: frozenset[str]
    npu_names: frozenset[str]
    inert: frozenset[str]
    torch_npu_names: frozenset[str]
    out_of_memory: str
    parameters: Mapping[str, frozenset[str]]
    supported: frozenset[str]
    custom: frozenset[str]
    autograd: frozenset[str]
    sparse: frozenset[str]
    library: frozenset[str]
    refused: frozenset[str]

    @property
    def evidence(self) -> str:
        """The source of the facts, as reports state it."""
        wheel = "-".join(self.wheel.split("-")[:2])
        if wheel_version(self.version) in wheel:
            return wheel
        return f"{wheel}, the oldest on PyPI (there is none for PyTorch {self.version})"

    def has_operator(self, name: str) -> bool:
        """Return whether the release has an operator, or an overload of it: "aten::add", "npu::npu_rms_norm"."""
        operators = self.custom if name.startswith("npu::") else self.supported
        return any(each == name or each.startswith(f"{name}.") for each in operators)


def table_for(version: str) -> SupportTable:
    """The facts for a version, of PyTorch or of torch_npu, as `known_version` understands it.

    Raises ValueError when it is not known.
    """
    known = known_version(version)
    if known is None:
        raise ValueError(f"no table for it: {unknown_version(version)}")
    return _table(known)


@cache
def _table(version: str) -> SupportTable:
    there = [each for each in torch_npu_releases() if each.version == wheel_version(version)]
    entry = there[0] if there else first_release()
    facts = facts_of(entry.version)
    parameters: dict[str, set[str]] = {}
    for given in facts["parameters"]:
        function, _, parameter = given.partition(" ")
        parameters.setdefault(function, set()).update([parameter] if parameter else [])
    return SupportTable(
        version=version,
        release=release_of(entry.version),
        wheel=entry.wheel,
        npu_modules=facts["modules"],
        npu_names=facts["modules"] | facts["names"],
        inert=facts["inert"],
        torch_npu_names=facts["torch_npu"],
        out_of_memory=min(facts["out_of_memory"]),
        parameters={name: frozenset(given) for name, given in parameters.items()},
        supported=facts["supported"],
        custom=facts["custom"],
        autograd=facts["autograd"],
        sparse=facts["sparse"],
        library=facts["library"],
        refused=facts["refused"],
    )


def has_npu_name(table: SupportTable, name: str) -> bool:
    """Return whether `name` ("torch.npu.amp.autocast", "torch_npu.profiler.profile") can be read in this release.

    Modules count, and so does every attribute of a name that is not a module, such as a method of a class: tables do
    not look inside objects. But what another release lists by itself (torch.npu.mstx.mark) has to be listed here too.
    torch_npu.npu is torch.npu.
    """
    name = in_torch(name)
    if name not in table.npu_names and name not in table.torch_npu_names and released_with(name):
        return False
    if name.startswith("torch_npu."):
        modules = frozenset(each.rpartition(".")[0] for each in table.torch_npu_names)
        return _can_read(name, table.torch_npu_names | modules, modules)
    return _can_read(name, table.npu_names, table.npu_modules)


def has_custom(table: SupportTable, name: str) -> bool:
    """Return whether torch_npu adds an operator called so, in some overload: "npu_min" for npu::npu_min.dim."""
    return name in _bare_names(table.custom)


@cache
def _bare_names(operators: frozenset[str]) -> frozenset[str]:
    """The names of operators without library and overload."""
    return frozenset(operator.rpartition("::")[2].partition(".")[0] for operator in operators)


def of_torch_npu(name: str) -> bool:
    """Return whether a qualified name is a member of torch_npu, or of torch.npu, which torch_npu adds to torch."""
    return name.startswith(("torch.npu.", "torch_npu."))


def in_torch(name: str) -> str:
    """The name in torch for what is in torch_npu.npu, which is torch.npu; any other name as it is."""
    return name.replace("torch_npu.npu", "torch.npu", 1) if f"{name}.".startswith("torch_npu.npu.") else name


@cache
def npu_name_from(name: str, version: str) -> str:
    """The wheel from which on torch_npu has a name of torch.npu that `version` has: "2.1.0.post12" for torch.npu.graph.

    "" where all wheels for that minor release have it. An attribute of a class is there since the class is.
    """
    table = table_for(version)
    name = in_torch(name)
    if not has_npu_name(table, name):
        return ""
    while name not in table.npu_names:
        name = name.rpartition(".")[0]
    return from_on((name,), version)


# What torch_npu's folder holds, master of 2026-08; only names of `torch.npu`, of `profiler`, and operators are listed.
_PACKAGES = frozenset(_NAMES["packages"])
# What these have besides, of the wheel of 2.7.1 and of op-plugin's pages of all releases.
_PLAIN = frozenset(_NAMES["others"])
# Modules of contrib, by the package that they are in, and what these have that contrib itself has not.
_MODULES_OF_CONTRIB: Mapping[str, list[str]] = _NAMES["contrib"]
_OF_CONTRIB = frozenset({*_MODULES_OF_CONTRIB, "transfer_to_npu", "fuse_add_softmax_dropout"})
_SWITCH = "torch_npu.contrib.transfer_to_npu."  # importing it is all that it is for


def _never_had(name: str) -> bool:
    """Return whether no release of torch_npu has a name of torch.npu or torch_npu: code half migrated, or invented."""
    name = in_torch(name)
    if name.startswith("torch.npu."):
        return not _can_read(name, _every("names") | _every("modules"), _every("modules"))
    parts = name.split(".")
    if name.startswith("torch_npu.profiler."):
        functions = frozenset(each.partition(" ")[0] for each in _every("parameters"))
        is_module = any(each.startswith(f"torch_npu.profiler.{parts[2]}.") for each in functions)
        if is_module or parts[2] in _NAMES["profiler"] or parts[2].startswith("_"):
            return False
        return not _can_read(name, functions | _every("torch_npu"), frozenset({"torch_npu.profiler"}))
    if name.startswith(_SWITCH):
        return True
    if name.startswith("torch_npu.contrib.") and len(parts) > 2:
        inside = parts[3:4] if parts[2] in _MODULES_OF_CONTRIB else parts[2:3]
        known = _OF_CONTRIB.union(_MODULES_OF_CONTRIB.get(parts[2], ()))
        listed = _every("torch_npu")
        return not all(each in known or each[0] == "_" or f"torch_npu.contrib.{each}" in listed for each in inside)
    is_known = (
        parts[1] in _PACKAGES | _PLAIN
        or parts[1].startswith("_")
        or any(each.split(".")[1] == parts[1] for each in _every("torch_npu"))
    )
    is_operator = any(each.rpartition("::")[2].partition(".")[0] == parts[1] for each in _every("custom"))
    return not is_known and not is_operator


def advice_for_none(name: str) -> str:
    """The advice for a name of torch.npu or torch_npu that no release has: which name is spelled most like it. "" where
    some release has it, or that is not known."""
    if not (of_torch_npu(name) and _never_had(name)):
        return ""
    name = in_torch(name)
    if name.startswith("torch_npu.contrib.") and not name.startswith(_SWITCH):
        parts = name.split(".")
        name = ".".join(parts[: 4 if parts[2] in _MODULES_OF_CONTRIB else 3])
    last = name.rpartition(".")[2].lower()
    operators = (f"torch_npu.{each.rpartition('::')[2].partition('.')[0]}" for each in _every("custom"))
    inside = (f"contrib.{owner}.{each}" for owner, some in _MODULES_OF_CONTRIB.items() for each in some)
    of_contrib = (f"contrib.{each}" for each in _OF_CONTRIB)
    others = (f"torch_npu.{each}" for each in (*_PACKAGES, *_PLAIN, *of_contrib, *inside))
    functions = (each.partition(" ")[0] for each in _every("parameters"))
    known = {*_every("names"), *_every("torch_npu"), *functions, *operators, *others}
    by_last: dict[str, list[str]] = {}
    for each in sorted((each for each in known if "._" not in each), key=lambda each: (len(each), each)):
        by_last.setdefault(each.rpartition(".")[2].lower(), []).append(each)
    words = sorted(last.split("_"))
    turned = [each for each in by_last if sorted(each.split("_")) == words]
    spelled = turned or get_close_matches(last, by_last, n=1, cutoff=0.8)
    near = _NAMES["meant"].get(last) or (by_last[spelled[0]][0] if spelled else "another name")
    return f"no release has it: look whether {near} is meant"


@cache
def _every(section: str) -> frozenset[str]:
    """The facts of a section of any release."""
    return frozenset(each for release in torch_npu_releases() for each in facts_of(release.version)[section])


def npu_spelling(name: str) -> str:
    """Return what torch_npu calls a name of torch.cuda, whether a release has it or not: torch.npu.NPUGraph."""
    for cuda in (name, name.rpartition(".")[0]):
        if cuda in NPU_SPELLINGS:
            return NPU_SPELLINGS[cuda] + name[len(cuda) :]
    return name.replace("torch.cuda", "torch.npu", 1)


def has_cuda_name(name: str) -> bool:
    """Return whether `name` ("torch.cuda.Stream.wait_event") is CUDA API of PyTorch, by the rules of `has_npu_name`."""
    return _can_read(name, cuda_names(), _cuda_modules())


def _can_read(name: str, names: frozenset[str], modules: frozenset[str]) -> bool:
    while name not in names:
        name, dot, _ = name.rpartition(".")
        if not dot or name in modules:
            return False
    return True


@cache
def cuda_names() -> frozenset[str]:
    """torch.cuda, torch.backends.cuda and cudnn, their submodules and names, in PyTorch 1.11 to 2.14.

    CUDA_TABLE lists the wheels they are read from.
    """
    return _cuda_modules().union(*(surface["names"] for surface in _cuda_surfaces()))


@cache
def _cuda_modules() -> frozenset[str]:
    return frozenset(name for surface in _cuda_surfaces() for name in surface["modules"])


@cache
def _cuda_surfaces() -> tuple[Mapping[str, Any], ...]:
    content = json.loads(CUDA_TABLE.read_text(encoding="utf-8"))
    return tuple(value for key, value in content.items() if key.startswith("torch."))
