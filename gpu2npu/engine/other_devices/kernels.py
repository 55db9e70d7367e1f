"""Modules of a project that build kernels for CUDA when they are imported."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import takewhile

from gpu2npu.engine.other_devices.choices import chooses_cuda, may_be_move
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import DEFINITIONS, FORS, member_of, string_value

LOADERS = frozenset({"torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline"})
_SETTINGS = frozenset({"cuda_sources", "extra_cuda_cflags"})
# Where questions about a GPU are; in a file that was migrated before, they have their new names.
QUESTIONED = frozenset({"torch.cuda", "torch.npu"})
_QUESTIONS = ("get_", "is_", "device_count", "current_device")  # functions of torch.cuda that only ask
# What may leave out the code in it, or run it later.
_NESTING = (*DEFINITIONS, *FORS, ast.While, ast.Match)
_CHOICES = (ast.IfExp, ast.BoolOp, ast.Lambda)


def begins_with_kernels(body: Sequence[ast.stmt], names: Names) -> bool:
    """Return whether statements, or those of a `try` that they begin with, first import from a module of the project
    that builds CUDA sources when it is imported, or call a function that does: what follows uses the kernels."""
    first = body[0] if body else None
    if isinstance(first, ast.Try):
        first = first.body[0]
    if isinstance(first, (ast.Return, ast.Assign, ast.Expr)) and isinstance(first.value, ast.Call):
        made = names.definition(first.value.func, names.file.scope_of(first))
        loads = _loads(made.bound.node, made.names) if made is not None else []
        return any(map(_has_source, loads))
    if not isinstance(first, ast.ImportFrom):
        return False
    package = "." * first.level + (first.module or "")
    if chooses_cuda(body[1:]):
        return False
    modules = (package, *(member_of(package, alias.name) for alias in first.names))
    return any(_builds_kernels(other) for each in modules if (other := names.module(each)) is not None)


def builds_kernels(refusal: ast.If, names: Names) -> bool:
    """Return whether the code after a statement gives CUDA sources, or settings of their compiler, to
    `torch.utils.cpp_extension.load`: always, and with no use of a device before it in the same block."""
    block = names.file.block(refusal)
    after = block[block.index(refusal) + 1 :]
    first = next((each for each in after if _loads_always(each, names)), None)
    if first is None:
        return False
    loads, seen = _loads(first, names), set[ast.AST]()
    within = takewhile(lambda node: node not in loads, walk(first))
    before = (each for each in block[: block.index(first)] if each is not refusal)
    if any(_uses_device(each, names, seen) for each in before) or any(is_use(node, names, seen) for node in within):
        return False
    settings = {keyword.arg for call in loads for keyword in call.keywords}
    return not settings.isdisjoint(_SETTINGS) or any(map(_is_source, walk(*after)))


def _loads(statement: ast.AST, names: Names) -> list[ast.Call]:
    """The calls of `torch.utils.cpp_extension.load` in a statement."""
    calls = [node for node in walk(statement) if isinstance(node, ast.Call)]
    return [call for call in calls if names.qualified(call.func, names.file.scope_of(call)) in LOADERS]


def _loads_always(statement: ast.stmt, names: Names) -> bool:
    """Return whether a statement builds under no condition, and the program ends where that fails."""
    if isinstance(statement, ast.With):
        return any(_loads_always(each, names) for each in statement.body)
    if isinstance(statement, ast.Try):
        ends = all(isinstance(handler.body[-1], ast.Raise) for handler in statement.handlers)
        return ends and any(_loads_always(each, names) for each in statement.body)
    if isinstance(statement, ast.If):
        both = (statement.body, statement.orelse)
        return all(any(_loads_always(each, names) for each in block) for block in both)
    if isinstance(statement, _NESTING):
        return False
    file = names.file
    return any(not any(isinstance(each, _CHOICES) for each in file.above(call)) for call in _loads(statement, names))


def _uses_device(statement: ast.stmt, names: Names, seen: set[ast.AST]) -> bool:
    """Return whether a statement, or a function of the project that it calls, moves something to a device, names one,
    or does more with `torch.cuda` than ask about the GPU. A definition alone runs nothing."""
    return not isinstance(statement, DEFINITIONS) and any(is_use(each, names, seen) for each in walk(statement))


def tests_torch_cuda(call: ast.Call, names: Names) -> bool:
    """`torch.cuda.current_device()`"""
    package, _, function = (names.qualified(call.func, names.file.scope_of(call)) or "").rpartition(".")
    return package in QUESTIONED and function.startswith(_QUESTIONS)


def is_use(node: ast.AST, names: Names, seen: set[ast.AST]) -> bool:
    """Return whether a node moves something to a device, names one, or does more with `torch.cuda` than ask about the
    GPU, or calls a function of the project that does; `seen` are those that were looked at."""
    if not isinstance(node, ast.Call):
        return (string_value(node) or "").partition(":")[0] in ("cuda", "gpu", "nccl")
    scope = names.file.scope_of(node)
    if (names.qualified(node.func, scope) or "").rpartition(".")[0] in QUESTIONED:
        return not tests_torch_cuda(node, names)
    if may_be_move(names, node):
        return True
    made = names.definition(node.func, scope)
    if made is None or made.bound.node in seen:
        return False
    seen.add(made.bound.node)
    return any(is_use(each, made.names, seen) for each in walk(made.bound.node))


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
