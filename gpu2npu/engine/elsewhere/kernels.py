"""Modules of a project that build kernels for CUDA when they are imported."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import member_of, string_value

LOADERS = frozenset({"torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline"})


def begins_with_kernels(body: Sequence[ast.stmt], names: Names) -> bool:
    """Return whether statements, or those of a `try` that they begin with, first import from a module of the project
    that builds CUDA sources when it is imported: what follows uses the kernels."""
    first = body[0] if body else None
    if isinstance(first, ast.Try):
        first = first.body[0]
    if not isinstance(first, ast.ImportFrom):
        return False
    package = "." * first.level + (first.module or "")
    modules = (package, *(member_of(package, alias.name) for alias in first.names))
    return any(_builds_kernels(other) for each in modules if (other := names.module(each)) is not None)


def _builds_kernels(names: Names) -> bool:
    """Return whether a module gives CUDA sources to `torch.utils.cpp_extension.load` outside of functions."""
    file = names.file
    return ".cu" in file.text and any(
        names.qualified(call.func, file.module) in LOADERS and file.scope_of(call) is file.module and _has_source(call)
        for call in file.unordered().get(ast.Call, ())
    )


def _has_source(call: ast.Call) -> bool:
    """`load("nms", sources=[join(folder, "nms.cu")])`"""
    return any((string_value(part) or "").endswith((".cu", ".cuh")) for part in walk(call))
