"""Kernels for CUDA that a project has compiled, and functions that run some by a library of NVIDIA's GPUs."""

from __future__ import annotations

import ast
import re

from gpu2npu.engine.elsewhere.kernels import LOADERS
from gpu2npu.engine.imports import is_compiled
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.scopes import Assigned, Binding, Imported, Scope
from gpu2npu.python.tree.syntax import FUNCTIONS, IMPORTS, import_module

OF_TORCH = re.compile(r"torch(\.|$)")
# Names of modules and functions, and of libraries, for NVIDIA's GPUs.
CUDA_NAME = re.compile(r"(^|_)(cuda|gpu|nvml|nvcc|cupy|pynvml|pycuda|nvidia)(_|$)", re.IGNORECASE)
LIBRARY = re.compile(r"(^|_)(cupy|pycuda|pynvml|nvml|nvcc|tensorrt)(_|$)|^cuda\w*(builder|extension)$", re.IGNORECASE)
# Modules of these names, imported by themselves, may be extensions that the project builds; `torch` and `time` are not.
_EXTENSION = re.compile(r"(^|_)(c|ext|extensions?|ops?|kernels?|backend)(_|$)", re.IGNORECASE)
_COMPILED = re.compile(r"_cuda$")  # modules of this name are compiled, unless the project has them in Python


def is_extension(binding: Binding, names: Names) -> bool:
    """`_C` of `from . import _C`, or what `torch.utils.cpp_extension.load` gives"""
    if isinstance(binding, Imported):
        return is_compiled_binding(binding, names)
    call = binding.whole if isinstance(binding, Assigned) else None
    made = names.qualified(call.func, names.file.scope_of(call)) if isinstance(call, ast.Call) else None
    return made in LOADERS


def is_compiled_member(binding: Imported, names: Names) -> bool:
    """`from ._ext import nms_cuda`, where the project has no such file in Python"""
    module, _, member = binding.qualified.rpartition(".")
    is_named = isinstance(binding.statement, ast.ImportFrom) and bool(module.strip("."))
    return (
        is_named
        and CUDA_NAME.search(member) is not None
        and is_compiled_binding(binding._replace(qualified=module), names)
    )


def is_compiled_binding(binding: Binding, names: Names) -> bool:
    """`kernels = load_extension(...)`, `from . import _ext` where the project has no such file in Python"""
    if isinstance(binding, Assigned):
        return isinstance(binding.whole, ast.Call)
    if not isinstance(binding, Imported):
        return False
    if _COMPILED.search(binding.qualified) and not OF_TORCH.match(binding.qualified):
        return names.project.module_path(binding.qualified, names.path) is None
    name = binding.qualified.rpartition(".")[2]
    package = binding.qualified.removesuffix(name)
    here = binding.alias.asname or name
    if not package and not (_EXTENSION.search(name) or CUDA_NAME.search(name) or CUDA_NAME.search(here)):
        return False
    return is_compiled(names, package.removesuffix(".") if package.strip(".") else package, name)


def runs_library(function: ast.expr, names: Names, scope: Scope) -> bool:
    """Return whether a function of the project always imports a library of NVIDIA's GPUs first, perhaps in a `try`:
    PyCUDA, CuPy."""
    made = names.definition(function, scope)
    if made is None or not isinstance(made.bound.node, FUNCTIONS):
        return False
    body = made.bound.node.body
    first = body[1] if ast.get_docstring(made.bound.node, clean=False) is not None and len(body) > 1 else body[0]
    if isinstance(first, ast.Try):
        first = first.body[0] if all(isinstance(each.body[-1], ast.Raise) for each in first.handlers) else first
    if not isinstance(first, IMPORTS):
        return False
    modules = [import_module(first)] if isinstance(first, ast.ImportFrom) else [each.name for each in first.names]
    return any(LIBRARY.search(each.partition(".")[0]) for each in modules)


def applies_kernels(function: ast.expr, names: Names, scope: Scope) -> bool:
    """Return whether a function is the `apply` of a class of the project, a torch.autograd.Function, whose methods call
    a compiled module."""
    is_apply = isinstance(function, ast.Attribute) and function.attr == "apply"
    made = names.definition(function.value, scope) if isinstance(function, ast.Attribute) and is_apply else None
    if made is None or not isinstance(made.bound.node, ast.ClassDef):
        return False
    called = (node.func for node in walk(made.bound.node) if isinstance(node, ast.Call))
    return any(_is_of_extension(each, made.names) for each in called)


def _is_of_extension(function: ast.expr, names: Names) -> bool:
    """`_C.forward`, where all that binds the name is a compiled module"""
    owner = function.value if isinstance(function, ast.Attribute) else None
    found = names.file.scope_of(owner).lookup(owner.id) if isinstance(owner, ast.Name) else None
    return found is not None and all(is_extension(each, names) for each in found[1])
