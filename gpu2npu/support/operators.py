"""The way an aten operator runs on the NPU: torch_npu's kernel, PyTorch's composition of others, or a fallback.

PyTorch's dispatcher asks in this order, for a device as for any: a kernel that torch_npu registers; PyTorch's
composition below autograd ("explicit") or above it ("implicit"), or the kernel of the out= overload ("structured");
last, what torch_npu registers for all the rest, which runs the operator on the CPU. `data/torch_releases.json` says
what PyTorch has for each operator in each release, by its native_functions.yaml.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpu2npu.support.release_tables import SupportTable
from gpu2npu.support.releases import DATA, RELEASES

TORCH_RELEASES = DATA / "torch_releases.json"
EXPLICIT, IMPLICIT, _STRUCTURED = "explicit", "implicit", "structured "

# Parts of an operator that only make another view of a tensor, which no kernel computes.
_VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        *("as_strided", "view", "squeeze", "squeeze.dim", "unsqueeze", "unfold", "_reshape_alias", "alias", "detach"),
        *("lift_fresh", "broadcast_tensors"),
    )
)


@dataclass(frozen=True)
class Torch:
    """One release of PyTorch: its operators with how it composes them, and its public names."""

    release: str
    operators: dict[str, str] = field(repr=False)
    names: frozenset[str] = field(repr=False)
    modules: frozenset[str] = field(repr=False)

    def lacks_module(self, name: str) -> bool:
        """Return whether a module of a name, which has small letters, is not in this release."""
        parts = name.split(".")
        above = (".".join(parts[:end]) for end in range(2, len(parts)) if parts[end - 1].islower())
        return not self.modules.issuperset(above)


@cache
def torch_release(release: str) -> Torch:
    """PyTorch of a minor release, one of releases.RELEASES. Raises ValueError for any other."""
    if release not in RELEASES:
        raise ValueError(f"no facts about PyTorch {release}: there are {', '.join(RELEASES)}")
    operators: dict[str, str] = {}
    names: set[str] = set()
    for each in RELEASES[: RELEASES.index(release) + 1]:
        change = _changes()[each]
        operators.update(change["operators"])
        names.update(change["new"])
        names.difference_update(change["gone"])
    existing = {name: kind for name, kind in operators.items() if kind}
    modules = {name[: dot.start()] for name in names for dot in re.finditer(r"\.", name)}
    return Torch(release, existing, frozenset(names), frozenset(modules))


def first_release(name: str) -> str | None:
    """The first of RELEASES whose PyTorch has the public name; None when none has."""
    return _first_releases().get(name)


def exists(name: str) -> bool:
    """Return whether PyTorch has the name in some release, or a class it is an attribute of.

    True as well for packages whose names were not read, such as torch.fx.
    """
    everything = all_names()
    parts = name.split(".")
    if len(parts) > 2 and ".".join(parts[:2]) not in _packages():
        return True
    owners = (".".join(parts[:end]) for end in range(2, len(parts)) if parts[end - 1][0].isupper())
    return name in everything or any(owner in everything or owner == "torch.Tensor" for owner in owners)


@cache
def packages() -> frozenset[str]:
    """Everything that public names are read from: torch, torch.nn, torch.nn.Module, ..."""
    found: set[str] = set()
    for name in all_names():
        owner = name.rpartition(".")[0]
        while owner and owner not in found:
            found.add(owner)
            owner = owner.rpartition(".")[0]
    return frozenset(found)


@cache
def _first_releases() -> dict[str, str]:
    return {name: release for release in reversed(RELEASES) for name in _changes()[release]["new"]}


@cache
def all_names() -> frozenset[str]:
    """The public names that PyTorch has in some release."""
    return frozenset().union(*(change["new"] for change in _changes().values()))


@cache
def _packages() -> frozenset[str]:
    return frozenset(".".join(name.split(".")[:2]) for name in all_names() if name.count(".") > 1)


@cache
def _changes() -> dict[str, Any]:
    changes: dict[str, Any] = json.loads(TORCH_RELEASES.read_text(encoding="utf-8"))["changes"]
    for change in changes.values():
        change["new"] = frozenset(change["new"])
    return changes


class Reached(Struct, frozen=True):
    """An operator that a call reaches, and what PyTorch's composition of it reaches."""

    operator: str
    parts: tuple[Reached, ...] = ()


class Missing(Struct, frozen=True):
    """Operators that a call needs and the NPU has not: those that fall back, and those PyTorch has not either."""

    falls_back: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.falls_back or self.absent)


def has_kernel(operator: str, table: SupportTable, torch: Torch) -> bool:
    """Return whether the NPU computes an operator itself: it is in torch_npu's list, or its out= overload is."""
    delegate = torch.operators.get(operator, "").removeprefix(_STRUCTURED)
    return operator in table.supported or operator in table.custom or delegate in table.supported


def missing(nodes: Iterable[Reached], table: SupportTable, torch: Torch) -> Missing:
    """Return the operators that a call reaches and the NPU lacks, compositions resolved."""
    falls_back: set[str] = set()
    absent: set[str] = set()
    for node in nodes:
        kind = torch.operators.get(node.operator)
        if has_kernel(node.operator, table, torch):
            continue
        if kind in (EXPLICIT, IMPLICIT) or (kind is None and node.parts):
            parts = missing(node.parts, table, torch)
            falls_back |= parts.falls_back
            absent |= parts.absent
        elif kind is None:
            absent.add(node.operator)
        else:
            falls_back.add(node.operator)
    return Missing(frozenset(falls_back), frozenset(absent))


def is_view(node: Reached, table: SupportTable, torch: Torch) -> bool:
    """Return whether an operator only makes another view of a tensor: no kernel computes anything.

    A composition without parts is one too: it gives back what it was given (dropout with p=0).
    """
    if node.operator in _VIEWS:
        return True
    if has_kernel(node.operator, table, torch):
        return False
    kind = torch.operators.get(node.operator)
    composed = kind == IMPLICIT or (kind == EXPLICIT and bool(node.parts))
    return composed and all(is_view(part, table, torch) for part in node.parts)


TABLE = Path(__file__).parent / "data" / "torch_results.json"


class TorchResults(Struct, frozen=True):
    """Qualified names ("torch.cat", "torch.Tensor.view"). Those in both `tensor` and `tensors` give one or several
    tensors, by their arguments. `methods` are all public attributes of a Tensor."""

    tensor: frozenset[str]
    tensors: frozenset[str]
    methods: frozenset[str]


@cache
def torch_results() -> TorchResults:
    content = json.loads(TABLE.read_text(encoding="utf-8"))
    return TorchResults(*(frozenset(content[key]) for key in ("tensor", "tensors", "methods")))
