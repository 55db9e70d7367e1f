"""The facts of one wheel: of torch_npu, or of torch for the names of torch.cuda. Wheels are read, never imported."""

from __future__ import annotations

import ast
import hashlib
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.program import ParsedFile
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.tree.syntax import string_value
from gpu2npu.support.releases import Facts, version_key
from tools.wheel_facts.surface import Surface, read_surface

OPERATOR_FILES = (
    "torch_npu/csrc/aten/npu_native_functions.yaml",
    "torch_npu/csrc/aten/npu_native_functions_by_codegen.yaml",
)
# The parts of torch whose names are CUDA's, which programs written for GPUs use.
CUDA_PACKAGES = ("torch.cuda", "torch.backends.cuda", "torch.backends.cudnn")
# The parts of torch_npu that programs import besides torch_npu.npu.
TORCH_NPU_PACKAGES = ("contrib", "distributed", "distributed.tensor.experimental", "optim", "profiler")
# The library that raises torch_npu's errors. An exception class it uses is named among its symbols.
LIBRARY = "torch_npu/lib/libtorch_npu.so"
# Words of the library: what it does with an operator that it does not register, a key of the memory allocator's
# settings, and the environment variables of torch_npu's own, which its Python reads too.
FALLBACKS = ("npu_Sparse_fallback", "npu_cpu_fallback")
ALLOCATOR_KEYS = ("roundup_power2_divisions",)
# torch_npu's own exchange by DLPack: what is on the NPU cannot be exchanged without.
DLPACK = "_npu_from_dlpack"
VARIABLES = re.compile(rb"\b(?:TORCH_HCCL|TORCH_NPU|PYTORCH_NPU|PYTORCH_NO_NPU)_[A-Z0-9_]*[A-Z0-9]\b")
# Functions that torch_npu replaces on import with ones that raise for what is on the NPU.
REFUSED = "torch_npu/utils/unsupport_api.py"
# torch_npu copies these operators from torch.ops.npu into its own namespace.
EXPOSED_OPERATORS = "torch_npu/utils/exposed_api.py"


class ExtractionError(Exception):
    """A wheel that lacks what every torch_npu or torch wheel has."""


def npu_facts(wheel: Path) -> Facts:
    """The facts of a torch_npu wheel, by the sections that support.releases describes.

    Raises:
        ExtractionError: the wheel has no operator lists or no Python package where torch_npu keeps them.
    """
    with zipfile.ZipFile(wheel) as archive:
        operators = _read_operators(archive, wheel)
        sources = _python_sources(archive, "torch_npu/")
        library = archive.read(LIBRARY) if LIBRARY in archive.namelist() else b""
    npu = _surface(sources, "torch_npu.npu", wheel)
    raised = "torch.OutOfMemoryError" if b"OutOfMemoryError" in library else "RuntimeError"
    found = {
        **operators,
        "modules": _respelt(npu.modules),
        "names": _respelt(npu.names),
        "inert": _respelt(npu.inert),
        "parameters": _parameters(sources, wheel),
        "torch_npu": _torch_npu_names(sources, wheel),
        "refused": _refused(sources.get(REFUSED, "")),
        "library": _words(library, sources),
        "out_of_memory": {raised},
    }
    return {section: frozenset(facts) for section, facts in found.items()}


def extract_cuda_table(wheels: Iterable[Path]) -> dict[str, Any]:
    """The table of CUDA_PACKAGES: every name of any of these torch wheels, as programs are written for old and new."""
    modules: dict[str, set[str]] = {package: set() for package in CUDA_PACKAGES}
    names: dict[str, set[str]] = {package: set() for package in CUDA_PACKAGES}
    parameters: dict[str, set[str]] = {}
    wheels = sorted(wheels, key=lambda wheel: version_key(wheel.name.split("-")[1]))
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for package in CUDA_PACKAGES:
                surface = _surface(_python_sources(archive, package.replace(".", "/") + "/"), package, wheel)
                modules[package] |= surface.modules
                names[package] |= surface.names
                for name, given in surface.parameters.items():
                    parameters.setdefault(name, set()).update(given)
    surfaces = {
        package: {"modules": sorted(modules[package]), "names": sorted(names[package] - modules[package])}
        for package in CUDA_PACKAGES
    }
    known = {name: sorted(parameters[name]) for name in sorted(parameters)}
    return {"wheels": [provenance(wheel) for wheel in wheels], **surfaces, "parameters": known}


def provenance(wheel: Path) -> dict[str, str]:
    """The wheel's file name, version and SHA-256."""
    with wheel.open("rb") as stream:
        digest = hashlib.sha256()
        while block := stream.read(1 << 20):
            digest.update(block)
    return {"filename": wheel.name, "version": wheel.name.split("-")[1], "sha256": digest.hexdigest()}


def _python_sources(archive: zipfile.ZipFile, folder: str) -> dict[str, str]:
    return {
        name: archive.read(name).decode("utf-8")
        for name in archive.namelist()
        if name.startswith(folder) and name.endswith(".py")
    }


def _surface(sources: dict[str, str], package: str, wheel: Path) -> Surface:
    try:
        return read_surface(sources, package)
    except KeyError:
        raise ExtractionError(f"{wheel.name}: the wheel has no Python package {package}") from None


def _read_operators(archive: zipfile.ZipFile, wheel: Path) -> dict[str, set[str]]:
    """The operators that torch_npu registers for the NPU, by the lists of its code generator.

    `supported` and `autograd` are overloads of aten operators, `custom` are torch_npu's own; `sparse` are those of
    `supported` with a kernel for sparse tensors. Operators that PyTorch composes of others (aten::linear) are in no
    list: the NPU runs their parts.
    """
    import yaml  # type: ignore[import-untyped]

    members = [member for member in OPERATOR_FILES if member in archive.namelist()]
    if not members:
        raise ExtractionError(f"{wheel.name}: the wheel has none of {', '.join(OPERATOR_FILES)}")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    listed: dict[str, set[str]] = {"supported": set(), "custom": set(), "autograd": set()}
    sparse: set[str] = set()
    for member in members:
        content = yaml.load(archive.read(member), loader)
        for kind, names in listed.items():
            names.update(_operator_name(entry) for entry in content.get(kind) or ())
        entries = content.get("supported") or ()
        sparse.update(_operator_name(entry) for entry in entries if isinstance(entry, dict) and "sparse" in entry)
    listed["sparse"] = sparse
    # A few custom operators are in both lists.
    listed["supported"] -= listed["custom"]
    return {
        kind: {("npu::" if kind == "custom" else "aten::") + name for name in names} for kind, names in listed.items()
    }


def _operator_name(entry: str | dict[str, Any]) -> str:
    """`add.Tensor` of "add.Tensor", of "add.Tensor(Tensor self, ...) -> Tensor" and of {"func": either}."""
    schema = entry if isinstance(entry, str) else entry["func"]
    return str(schema).split("(")[0].strip()


def _parameters(sources: dict[str, str], wheel: Path) -> set[str]:
    """Each function or class that stands for one of torch.cuda or torch.profiler, alone and with each parameter that it
    can be given by keyword: "torch.npu.Event", "torch.npu.Event blocking"."""
    npu = _surface(sources, "torch_npu.npu", wheel).parameters
    found = {name.replace("torch_npu.npu", "torch.npu", 1): given for name, given in npu.items()}
    if "torch_npu/profiler/__init__.py" in sources:
        found |= _surface(sources, "torch_npu.profiler", wheel).parameters
    return {*found, *(f"{name} {each}" for name, given in found.items() for each in given)}


def _torch_npu_names(sources: dict[str, str], wheel: Path) -> set[str]:
    exposed = re.findall(r"'(\w+)'", sources.get(EXPOSED_OPERATORS, ""))
    names = {f"torch_npu.{name}" for name in exposed}
    for package in TORCH_NPU_PACKAGES:
        if f"torch_npu/{package.replace('.', '/')}/__init__.py" not in sources:
            continue
        surface = _surface(sources, f"torch_npu.{package}", wheel)
        # What the package itself offers, not the modules it is made of.
        depth = package.count(".") + 2
        names.update(name for name in surface.names if name.count(".") == depth and "._" not in name)
    return names


def _words(library: bytes, sources: dict[str, str]) -> set[str]:
    there = {word for word in (*FALLBACKS, *ALLOCATOR_KEYS) if word.encode() in library}
    there |= {DLPACK for text in sources.values() if DLPACK in text}
    read = (VARIABLES.findall(content) for content in (library, *map(str.encode, sources.values())))
    return there.union(word.decode() for words in read for word in words)


def _refused(source: str) -> set[str]:
    """The qualified names in dicts {"share_memory_": torch.Tensor}; a class stands for its `__init__`."""
    file = ParsedFile.of(Names.of(SourceFile(REFUSED, source, "utf-8", b""), Project()))
    pairs = (pair for node in file.nodes(ast.Dict) for pair in zip(node.keys, node.values, strict=True))
    found = ((string_value(name), file.qualified(owner)) for name, owner in pairs)
    return {f"{owner}.{name}".removesuffix(".__init__") for name, owner in found if name is not None and owner}


def _respelt(names: Iterable[str]) -> set[str]:
    """Names of torch_npu.npu as programs spell them."""
    return {"torch.npu" + name.removeprefix("torch_npu.npu") for name in names}
