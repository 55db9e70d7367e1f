"""What each torch_npu release supports, read from the tables in `data/` that `extract` makes from its wheels."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
CUDA_TABLE = DATA / "torch_cuda.json"

RELEASES = tuple(f"2.{minor}.0" for minor in range(1, 15))
# PyTorch versions that a source project may state. torch_npu for 1.11.0 was never on PyPI.
VERSIONS = ("1.11.0", *RELEASES)

# What `from torch import torch` makes of a name, and modules of torch that code takes torch itself from. What follows
# torch.ops is the name of a library.
_TORCH_IN_TORCH = re.compile(r"^torch\.(?!(?:ops|classes)\.)(?:\w+\.)*torch(?=\.|$)")


def without_repeats(name: str) -> str:
    """A qualified name without what repeats torch in it: "torch.relu" for "torch.nn.functional.torch.relu"."""
    return _TORCH_IN_TORCH.sub("torch", name) if ".torch" in name else name


def known_version(version: str) -> str | None:
    """The one of VERSIONS that stands for a PyTorch release "X.Y.Z": that of its minor release, whose names a patch
    release keeps. None where there is none."""
    match = re.fullmatch(r"(\d+\.\d+)\.\d+", version)
    return f"{match[1]}.0" if match is not None and f"{match[1]}.0" in VERSIONS else None


def unknown_version(version: str) -> str:
    """What to tell of a version for which `known_version` has none."""
    return f"PyTorch version {version!r} is not known; use one of {', '.join(VERSIONS)}, or a patch release of one"


@dataclass(frozen=True)
class SupportTable:
    """One release of torch_npu.

    `version` is the PyTorch version that was asked for; `release` the minor release whose `wheel` (a file name on PyPI)
    the facts come from. `npu_names` are qualified ("torch.npu.amp.autocast") and include `npu_modules`; `inert` are
    those of them that do nothing but warn and return a constant. `parameters` are what the functions and classes of
    torch.npu and torch_npu.profiler can be given by keyword, with "**" for any others. `out_of_memory` is the exception
    that is raised when the device's memory runs out. Operators are overloads: "aten::add.Tensor" in `supported`,
    "npu::npu_format_cast" in `custom`, and in `autograd` the aten ones with a backward of torch_npu's own. `fallbacks`
    name what torch_npu's library has for operators it does not register: "npu_cpu_fallback" computes them on the CPU,
    "npu_Sparse_fallback" raises for sparse tensors. `refused` are torch's functions that torch_npu makes raise.
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
    fallbacks: frozenset[str]
    refused: frozenset[str]

    @property
    def evidence(self) -> str:
        """Where the facts come from, as reports state it."""
        wheel = "-".join(self.wheel.split("-")[:2])
        if self.version == self.release:
            return wheel
        return f"{wheel}, the oldest on PyPI (there is none for PyTorch {self.version})"


def table_path(version: str) -> Path:
    """The JSON table for a PyTorch version; its `operators.supported` lists the aten overloads.

    Raises:
        ValueError: `version` is not one of VERSIONS.
    """
    if version not in VERSIONS:
        raise ValueError(f"no table for PyTorch {version!r}; known versions: {', '.join(VERSIONS)}")
    return DATA / f"torch_npu-{version if version in RELEASES else RELEASES[0]}.json"


@cache
def table_for(version: str) -> SupportTable:
    """The facts for a PyTorch version. Raises ValueError when it is not one of VERSIONS."""
    content = _read(table_path(version))
    modules = frozenset(content["torch.npu"]["modules"])
    operators = content["operators"]
    return SupportTable(
        version=version,
        release=content["release"],
        wheel=content["wheel"]["filename"],
        npu_modules=modules,
        npu_names=modules.union(content["torch.npu"]["names"]),
        inert=frozenset(content["torch.npu"]["inert"]),
        torch_npu_names=frozenset(content["torch_npu"]),
        out_of_memory=content["out_of_memory"],
        parameters={name: frozenset(given) for name, given in content["parameters"].items()},
        supported=frozenset(operators["supported"]),
        custom=frozenset(operators["custom"]),
        autograd=frozenset(operators["autograd"]),
        fallbacks=frozenset(content["fallbacks"]),
        refused=frozenset(content["refused"]),
    )


def cuda_names() -> frozenset[str]:
    """torch.cuda, torch.backends.cuda and cudnn, their submodules and names, in PyTorch 1.11 to 2.14.

    CUDA_TABLE lists the wheels they are read from.
    """
    return _cuda()[1]


def cuda_parameters() -> Mapping[str, frozenset[str]]:
    """What torch.cuda's functions and classes can be given by keyword in some release; "**" stands for any others."""
    return {name: frozenset(given) for name, given in _read(CUDA_TABLE)["parameters"].items()}


def has_npu_name(table: SupportTable, name: str) -> bool:
    """Whether `name` ("torch.npu.amp.autocast", "torch_npu.profiler.profile") can be read in this release.

    Modules count, and so does every attribute of a name that is no module, such as a method of a class: tables do
    not look inside objects. torch_npu.npu is torch.npu.
    """
    if name == "torch_npu.npu" or name.startswith("torch_npu.npu."):
        name = f"torch.npu{name.removeprefix('torch_npu.npu')}"
    if name.startswith("torch_npu."):
        modules = frozenset(each.rpartition(".")[0] for each in table.torch_npu_names)
        return _can_read(name, table.torch_npu_names | modules, modules)
    return _can_read(name, table.npu_names, table.npu_modules)


def has_cuda_name(name: str) -> bool:
    """Whether `name` ("torch.cuda.Stream.wait_event") is CUDA API of PyTorch, by the rules of `has_npu_name`."""
    modules, names = _cuda()
    return _can_read(name, names, modules)


def _can_read(name: str, names: frozenset[str], modules: frozenset[str]) -> bool:
    while name not in names:
        name, dot, _ = name.rpartition(".")
        if not dot or name in modules:
            return False
    return True


@cache
def _cuda() -> tuple[frozenset[str], frozenset[str]]:
    surfaces = [value for key, value in _read(CUDA_TABLE).items() if key.startswith("torch.")]
    modules = frozenset(name for surface in surfaces for name in surface["modules"])
    return modules, modules.union(*(surface["names"] for surface in surfaces))


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
