"""The operators and public names of each release of torch, read from its wheels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from zipfile import ZipFile

from tools.wheel_facts.surface import read_surface

NATIVE_FUNCTIONS = "torchgen/packaged/ATen/native/native_functions.yaml"

# How a device without a kernel for an operator runs it. A composite above autograd and one below differ only in who
# differentiates; a structured operator runs the kernel of its out= overload, which is named.
IMPLICIT, EXPLICIT, KERNEL, STRUCTURED = "implicit", "explicit", "kernel", "structured "


def operator_kinds(native_functions: str) -> dict[str, str]:
    """Overload ("aten::add.Tensor") -> IMPLICIT, EXPLICIT, KERNEL or STRUCTURED with the overload it delegates to.

    `native_functions` is torch's native_functions.yaml.
    """
    import yaml  # type: ignore[import-untyped]

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    kinds = {}
    for entry in yaml.load(native_functions, loader):
        kinds["aten::" + entry["func"].split("(")[0].strip()] = _kind(entry)
    return kinds


def _kind(entry: Mapping[str, Any]) -> str:
    keys = {key.strip() for keys in entry.get("dispatch") or () for key in keys.split(",")}
    if "CompositeExplicitAutograd" in keys or "CompositeExplicitAutogradNonFunctional" in keys:
        return EXPLICIT
    if "structured_delegate" in entry:
        return f"{STRUCTURED}aten::{entry['structured_delegate']}"
    if "dispatch" not in entry or "CompositeImplicitAutograd" in keys:
        return IMPLICIT
    return KERNEL


def change(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return what is new or other in `after`, and "" for what is gone, in order of name."""
    names = sorted({*before, *after})
    return {name: after.get(name, "") for name in names if before.get(name, "") != after.get(name, "")}


def public_names(archive: ZipFile) -> set[str]:
    """The public functions and classes of torch that wheels list: torch.X, torch.Tensor.X and what packages export."""
    names = {f"torch.{name}" for name in _stub(archive, "torch/_C/_VariableFunctions.pyi", "")}
    names |= read_surface({"torch/__init__.py": _text(archive, "torch/__init__.py")}, "torch").names
    names |= {f"torch.{name}" for name in _exported(_text(archive, "torch/__init__.py"))}
    names |= {f"torch.{name}" for name in _exported(_text(archive, "torch/functional.py"))}
    names |= {f"torch.{name}" for name in _stub(archive, "torch/_C/__init__.pyi", "")}  # torch takes them from there
    stub = _text(archive, "torch/_C/__init__.pyi")
    names |= {f"torch.{name}" for name in re.findall(r"^(\w+): (?:dtype|layout|memory_format)\b", stub, re.MULTILINE)}
    names |= {f"torch.{name}" for name in re.findall(r"^class ([a-z]\w+|Size|Generator)\b", stub, re.MULTILINE)}
    for member, owner in (("torch/_C/__init__.pyi", ("_TensorBase", "TensorBase")), ("torch/_tensor.py", ("Tensor",))):
        names |= {f"torch.Tensor.{name}" for name in _methods(_text(archive, member), owner)}
    for package in PACKAGES:
        folder = package.replace(".", "/") + "/"
        members = [each for each in archive.namelist() if each.startswith(folder) and each.endswith(".py")]
        sources = {each: _text(archive, each) for each in members}
        if f"{folder}__init__.py" not in sources and f"{folder[:-1]}.py" in archive.namelist():
            sources = {f"{folder}__init__.py": _text(archive, f"{folder[:-1]}.py")}
        if sources:
            names |= read_surface(sources, package).names
    names |= {"torch.chalf"} if "torch.Tensor.chalf" in names else set()  # there before the stubs of 2.2 name it
    modules = {member.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for member in archive.namelist()}
    return {name for name in names - modules if not any(part.startswith("_") for part in name.split("."))}


# The packages of torch whose names count, and `random`, a module.
PACKAGES = [
    f"torch.{each}"
    for each in (
        *("nn", "optim", "fft", "linalg", "special", "autograd", "utils", "distributed", "distributions", "jit", "amp"),
        *("func", "nested", "sparse", "random", "multiprocessing", "profiler", "quantization", "ao.quantization"),
        *("export", "onnx", "hub", "backends", "library", "accelerator", "masked", "signal", "compiler", "futures"),
    )
]


def _text(archive: ZipFile, member: str) -> str:
    return archive.read(member).decode("utf-8") if member in archive.namelist() else ""


def _stub(archive: ZipFile, member: str, indent: str) -> set[str]:
    return set(re.findall(rf"^{indent}def (\w+)\(", _text(archive, member), re.MULTILINE))


def _exported(text: str) -> set[str]:
    lists = re.findall(r"^__all__(?:\s*:[^=]*)?\s*\+?=\s*[\[(](.*?)[\])]", text, re.MULTILINE | re.DOTALL)
    lists += re.findall(r"^__all__\.extend\(\s*[\[(](.*?)[\])]", text, re.MULTILINE | re.DOTALL)
    return {name for each in lists for name in re.findall(r"""["'](\w+)["']""", each)}


def _methods(text: str, classes: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for name in classes:
        body = re.search(rf"^class {name}\b.*?:\n(.*?)(?=^\S)", text + "\n.", re.MULTILINE | re.DOTALL)
        if body is not None:
            found |= set(re.findall(r"^    def (\w+)\(", body[1], re.MULTILINE))
            found |= set(re.findall(r"^    (\w+): ", body[1], re.MULTILINE))
            found |= set(re.findall(r"^    (\w+) = ", body[1], re.MULTILINE))
    return found
