"""Uses of CUDA that the reference on the CPU cannot play, found in a program's text before it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu2npu.engine.torch_library import torch_project
from gpu2npu.python.meaning.names import Names

_GRAPHS = "CUDA graphs"
_KERNELS = "kernels of the project's own"
_MEMORY = "memory statistics, which are 0"
_SYNCHRONIZED = "SyncBatchNorm on several ranks"
_NAMES = {
    "torch.cuda.CUDAGraph": _GRAPHS,
    "torch.cuda.graph": _GRAPHS,
    "torch.cuda.make_graphed_callables": _GRAPHS,
    "torch.utils.cpp_extension.load": _KERNELS,
    "torch.utils.cpp_extension.load_inline": _KERNELS,
    "torch.cuda.memory_stats": _MEMORY,
    "torch.cuda.memory_allocated": _MEMORY,
    "torch.cuda.memory_reserved": _MEMORY,
    "torch.cuda.memory_summary": _MEMORY,
    "torch.cuda.max_memory_allocated": _MEMORY,
    "torch.cuda.max_memory_reserved": _MEMORY,
    "torch.nn.SyncBatchNorm": _SYNCHRONIZED,
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm": _SYNCHRONIZED,
}
_PACKAGES = ("triton", "cupy", "pycuda", "numba.cuda")
_WORDS = tuple({name.rpartition(".")[2].encode() for name in _NAMES} | {name.encode() for name in _PACKAGES})


@dataclass(frozen=True)
class Unplayed:
    """One thing that cannot be played, and its first use: a qualified name, a path in the project and a line."""

    what: str
    name: str
    path: str
    line: int

    @property
    def sentence(self) -> str:
        """The use in words."""
        return f"the CPU cannot play {self.what}: {self.name} at {self.path}, line {self.line}"


def unplayed(root: Path, sources: Mapping[str, bytes], cards: int) -> tuple[Unplayed, ...]:
    """Find the first use of each kind in the Python files of a project that runs on as many cards."""
    project = torch_project(sources, root)
    found: dict[str, Unplayed] = {}
    for path in sorted(sources):
        names = project.names(path) if any(word in sources[path] for word in _WORDS) else None
        for use in _in_file(names) if names is not None else ():
            if use.what != _SYNCHRONIZED or cards > 1:
                found.setdefault(use.what, use)
    return tuple(found.values())


def _in_file(names: Names) -> Iterator[Unplayed]:
    for node, scope in names.file.uses:
        if isinstance(node, ast.Name | ast.Attribute):
            name = names.qualified(node, scope)
            what = _NAMES.get(name or "") or (_KERNELS if _is_of_package(name) else None)
            if name is not None and what is not None:
                yield Unplayed(what, name, names.path, node.lineno)


def _is_of_package(name: str | None) -> bool:
    return name is not None and name.startswith(tuple(f"{package}." for package in _PACKAGES))
