"""Makes the shipped tables from wheels: `python -m gpu2npu.support.extract WHEEL_DIR`.

WHEEL_DIR holds one or more wheels of torch_npu, and of torch for the names of torch.cuda (any platform: the Python
sources are the same). For each minor release of torch_npu its lowest version makes the table. Fetch them with

    pip download --no-deps --only-binary=:all: --python-version 3.10 --platform manylinux_2_28_x86_64 \\
        --platform manylinux_2_17_x86_64 torch-npu==2.1.0 -d WHEEL_DIR

Wheels are read as archives, never imported. PyYAML, of the dev extra, is needed here only.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpu2npu.support.surface import Surface, read_surface
from gpu2npu.support.tables import CUDA_TABLE, DATA

OPERATOR_FILES = (
    "torch_npu/csrc/aten/npu_native_functions.yaml",
    "torch_npu/csrc/aten/npu_native_functions_by_codegen.yaml",
)
# The parts of torch whose names are CUDA's, which programs written for GPUs use.
CUDA_PACKAGES = ("torch.cuda", "torch.backends.cuda", "torch.backends.cudnn")
# The parts of torch_npu that programs import besides torch_npu.npu.
TORCH_NPU_PACKAGES = ("contrib", "distributed", "optim", "profiler")
# The library that raises torch_npu's errors. An exception class it uses is named among its symbols.
LIBRARY = "torch_npu/lib/libtorch_npu.so"
# What the library does with an operator that it does not register: these names stand in it if it has the code for it.
FALLBACKS = ("npu_Sparse_fallback", "npu_cpu_fallback", "TORCH_NPU_FALLBACK_CPU_DISABLE")
# Functions that torch_npu replaces on import with ones that raise for what is on the NPU.
REFUSED = "torch_npu/utils/unsupport_api.py"
# torch_npu copies these operators from torch.ops.npu into its own namespace.
EXPOSED_OPERATORS = "torch_npu/utils/exposed_api.py"


class ExtractionError(Exception):
    """A wheel that lacks what every torch_npu or torch wheel has."""


def extract_npu_table(wheel: Path) -> dict[str, Any]:
    """The table of one torch_npu wheel, as it is written to JSON.

    Raises:
        ExtractionError: the wheel has no operator lists or no Python package where torch_npu keeps them.
    """
    with zipfile.ZipFile(wheel) as archive:
        operators = _read_operators(archive, wheel)
        sources = _python_sources(archive, "torch_npu/")
        library = archive.read(LIBRARY) if LIBRARY in archive.namelist() else b""
    return {
        "release": _release(wheel),
        "wheel": _provenance(wheel),
        "out_of_memory": "torch.OutOfMemoryError" if b"OutOfMemoryError" in library else "RuntimeError",
        "fallbacks": sorted(name for name in FALLBACKS if name.encode() in library),
        "refused": _refused(sources.get(REFUSED, "")),
        "operators": operators,
        "torch.npu": _as_lists(_surface(sources, "torch_npu.npu", wheel), "torch_npu.npu", "torch.npu"),
        "parameters": _parameters(sources, wheel),
        "torch_npu": _torch_npu_names(sources, wheel),
    }


def extract_cuda_table(wheels: Iterable[Path]) -> dict[str, Any]:
    """The table of CUDA_PACKAGES: every name of any of these torch wheels, as programs are written for old and new."""
    modules: dict[str, set[str]] = {package: set() for package in CUDA_PACKAGES}
    names: dict[str, set[str]] = {package: set() for package in CUDA_PACKAGES}
    parameters: dict[str, set[str]] = {}
    wheels = sorted(wheels, key=_version)
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
    return {"wheels": [_provenance(wheel) for wheel in wheels], **surfaces, "parameters": known}


def write_tables(wheel_dir: Path, data: Path = DATA) -> list[Path]:
    """Writes a table for each minor release of torch_npu in `wheel_dir` and, if torch wheels are there, torch.cuda's.

    Returns the written files. Raises ExtractionError when a wheel is not what its name says.
    """
    chosen: dict[str, Path] = {}
    for wheel in sorted(wheel_dir.glob("torch_npu-*.whl"), key=_version, reverse=True):
        chosen[_release(wheel)] = wheel
    tables = {data / f"torch_npu-{release}.json": extract_npu_table(wheel) for release, wheel in chosen.items()}
    if torch_wheels := list(wheel_dir.glob("torch-*.whl")):
        tables[data / CUDA_TABLE.name] = extract_cuda_table(torch_wheels)
    for path, table in tables.items():
        path.write_text(json.dumps(table, indent=0) + "\n", encoding="utf-8")
    return sorted(tables)


def _version(wheel: Path) -> tuple[int, ...]:
    """Numbers of a wheel's version, such that "2.1.0" < "2.1.0.post3" < "2.10.0"; a release candidate precedes all."""
    version = wheel.name.split("-")[1]
    numbers = tuple(int(number) for number in re.findall(r"\d+", version))
    return (-1, *numbers) if "rc" in version else numbers


def _release(wheel: Path) -> str:
    """The minor release a wheel belongs to: "2.3.0" for torch_npu-2.3.1.post2."""
    major, minor = wheel.name.split("-")[1].split(".")[:2]
    return f"{major}.{minor}.0"


def _provenance(wheel: Path) -> dict[str, str]:
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


def _read_operators(archive: zipfile.ZipFile, wheel: Path) -> dict[str, list[str]]:
    """The operators that torch_npu registers for the NPU, by the lists of its code generator.

    `supported` and `autograd` are overloads of aten operators, `custom` are torch_npu's own. Operators that PyTorch
    composes of others (aten::linear) are in no list: the NPU runs their parts.
    """
    import yaml  # type: ignore[import-untyped]

    members = [member for member in OPERATOR_FILES if member in archive.namelist()]
    if not members:
        raise ExtractionError(f"{wheel.name}: the wheel has none of {', '.join(OPERATOR_FILES)}")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    listed: dict[str, set[str]] = {"supported": set(), "custom": set(), "autograd": set()}
    for member in members:
        content = yaml.load(archive.read(member), loader)
        for kind, names in listed.items():
            names.update(_operator_name(entry) for entry in content.get(kind) or ())
    # A few custom operators stand in both lists.
    listed["supported"] -= listed["custom"]
    return {
        kind: sorted(("npu::" if kind == "custom" else "aten::") + name for name in names)
        for kind, names in listed.items()
    }


def _operator_name(entry: str | dict[str, Any]) -> str:
    """`add.Tensor` of "add.Tensor", of "add.Tensor(Tensor self, ...) -> Tensor" and of {"func": either}."""
    schema = entry if isinstance(entry, str) else entry["func"]
    return str(schema).split("(")[0].strip()


def _parameters(sources: dict[str, str], wheel: Path) -> dict[str, list[str]]:
    """What the functions and classes that stand for torch.cuda's and torch.profiler's can be given by keyword."""
    npu = _surface(sources, "torch_npu.npu", wheel).parameters
    found = {name.replace("torch_npu.npu", "torch.npu", 1): given for name, given in npu.items()}
    if "torch_npu/profiler/__init__.py" in sources:
        found |= _surface(sources, "torch_npu.profiler", wheel).parameters
    return {name: sorted(found[name]) for name in sorted(found)}


def _torch_npu_names(sources: dict[str, str], wheel: Path) -> list[str]:
    exposed = re.findall(r"'(\w+)'", sources.get(EXPOSED_OPERATORS, ""))
    names = {f"torch_npu.{name}" for name in exposed}
    for package in TORCH_NPU_PACKAGES:
        if f"torch_npu/{package}/__init__.py" not in sources:
            continue
        surface = _surface(sources, f"torch_npu.{package}", wheel)
        # What the package itself offers, not the modules it is made of.
        names.update(name for name in surface.names if name.count(".") == 2 and "._" not in name)
    return sorted(names)


def _refused(source: str) -> list[str]:
    """Of dicts {"share_memory_": torch.Tensor} the qualified names; a class stands for its `__init__`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            for name, owner in zip(node.keys, node.values, strict=True):
                if isinstance(name, ast.Constant):
                    found.add(f"{ast.unparse(owner)}.{name.value!s}".removesuffix(".__init__"))
    return sorted(found)


def _as_lists(surface: Surface, package: str, spelling: str) -> dict[str, list[str]]:
    def respelt(names: frozenset[str]) -> list[str]:
        return sorted(spelling + name.removeprefix(package) for name in names)

    return {"modules": respelt(surface.modules), "names": respelt(surface.names), "inert": respelt(surface.inert)}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("usage: python -m gpu2npu.support.extract WHEEL_DIR (a folder with torch_npu wheels)", file=sys.stderr)
        return 2
    try:
        written = write_tables(Path(arguments[0]))
    except (ExtractionError, zipfile.BadZipFile) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in written:
        print(path)
    if not written:
        print(f"error: {arguments[0]} holds no wheel named torch_npu-*.whl or torch-*.whl", file=sys.stderr)
    return 0 if written else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
