"""The files that may hold C++ or CUDA code or build it, by their names."""

from __future__ import annotations

import posixpath

_SUFFIXES = (".cpp", ".cc", ".cxx", ".c++", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".inc")


def is_native(path: str) -> bool:
    """Return whether a file of this name may hold C++ or CUDA code, or build it, besides Python files."""
    return may_export(path) or is_cmake(path)


def may_export(path: str) -> bool:
    """Return whether a file of this name may be a C++ or CUDA source."""
    return path.lower().endswith(_SUFFIXES)


def is_cmake(path: str) -> bool:
    return posixpath.basename(path) == "CMakeLists.txt" or path.endswith(".cmake")
