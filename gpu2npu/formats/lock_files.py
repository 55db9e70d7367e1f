"""Packages built for CUDA in the lock files of uv, Poetry and PDM, by what their own metadata says there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu2npu.distributions import normalised
from gpu2npu.engine.knowledge import Knowledge
from gpu2npu.engine.marks import Mark
from gpu2npu.formats.nodes import Items, Mapping, Node, Scalar, entry
from gpu2npu.formats.required_packages import BUILT_FOR_CUDA, FOR_CUDA
from gpu2npu.records import FindingKind, Found, Severity
from gpu2npu.rulebook.in_code import CUDA_BUILD

# Libraries of CUDA, which nothing but code for NVIDIA's GPUs links; not those that ask for the state of a GPU.
_LIBRARY = re.compile(r"nvidia-(?!ml-)[\w-]+")
_LOCAL_BUILD = re.compile(r"\+cu\d")  # faster-conv 1.0+cu121
# They come with PyTorch itself, whose own requirement says what to do.
_WITH_TORCH = re.compile(r"torch|torchvision|torchaudio|triton|(?:nvidia|cuda)-.*")


def lock_marks(root: Node, knowledge: Knowledge) -> Iterator[Mark]:
    """Yield a finding for each locked package that is built for CUDA and that no rule is about."""
    packages = root.entries if isinstance(root, Mapping) else ()
    for key, package in packages:
        name = entry(package, "name")
        if key.value != "package" or not isinstance(name, Scalar) or not name.value:
            continue
        known = normalised(name.value)
        reason = None if known in knowledge.distributions or _WITH_TORCH.fullmatch(known) else _reason(known, package)
        if reason is not None:
            place, kind = (name.start, name.end), FindingKind.UNSUPPORTED
            message = f"{reason}. {FOR_CUDA}"
            yield Found(place, CUDA_BUILD, kind, known, message, Severity.ENVIRONMENT, FOR_CUDA)


def _reason(name: str, package: Node) -> str | None:
    """Return what says that a package is built for CUDA; None where nothing does."""
    if BUILT_FOR_CUDA.fullmatch(name):
        return "Its name says so"
    version = entry(package, "version")
    if isinstance(version, Scalar) and _LOCAL_BUILD.search(version.value or ""):
        return f"Version {version.value} says so"
    library = next((each for each in _required(package) if _LIBRARY.fullmatch(each)), None)
    return f"It requires {library}" if library is not None else None


def _required(package: Node) -> Iterator[str]:
    """The names that a locked package requires: a table of Poetry's, inline tables of uv's, strings of PDM's."""
    dependencies = entry(package, "dependencies")
    if isinstance(dependencies, Mapping):
        names: list[Node | None] = [key for key, _ in dependencies.entries]
    else:
        items = dependencies.items if isinstance(dependencies, Items) else ()
        names = [entry(item, "name") if isinstance(item, Mapping) else item for item in items]
    for name in names:
        if isinstance(name, Scalar) and name.value:
            yield normalised(re.split(r"[\s;<>=!~\[]", name.value)[0])
