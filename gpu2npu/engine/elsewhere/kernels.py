"""Modules of a project that build kernels for CUDA when they are imported."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import member_of, string_value

LOADERS = frozenset({"torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline"})
_SETTINGS = frozenset({"cuda_sources", "extra_cuda_cflags"})


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


def builds_kernels(body: Sequence[ast.stmt], names: Names) -> bool:
    """Return whether statements give CUDA sources, or settings of their compiler, to
    `torch.utils.cpp_extension.load`."""
    file = names.file
    calls = [node for node in walk(*body) if isinstance(node, ast.Call)]
    loads = [call for call in calls if names.qualified(call.func, file.scope_of(call)) in LOADERS]
    settings = {keyword.arg for call in loads for keyword in call.keywords}
    return bool(loads) and (not settings.isdisjoint(_SETTINGS) or any(map(_is_source, walk(*body))))


def _builds_kernels(names: Names) -> bool:
    """Return whether a module gives CUDA sources to `torch.utils.cpp_extension.load` outside of functions."""
    file = names.file
    return ".cu" in file.text and any(
        names.qualified(call.func, file.module) in LOADERS and file.scope_of(call) is file.module and _has_source(call)
        for call in file.unordered().get(ast.Call, ())
    )


def _has_source(call: ast.Call) -> bool:
    """`load("nms", sources=[join(folder, "nms.cu")])`"""
    return any(map(_is_source, walk(call)))


def _is_source(node: ast.AST) -> bool:
    return (string_value(node) or "").endswith((".cu", ".cuh"))
