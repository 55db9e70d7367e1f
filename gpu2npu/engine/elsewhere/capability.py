"""Code that finds out how capable a GPU is: an NPU has no compute capability, and gives None for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gpu2npu.engine.elsewhere.kernels import QUESTIONED, asks_torch_cuda, is_use
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.nodes import child_nodes, walk
from gpu2npu.python.tree.syntax import DEFINITIONS, FORS

_CAPABILITIES = frozenset(f"{package}.get_device_capability" for package in QUESTIONED)
_PROPERTIES = frozenset(f"{package}.get_device_properties" for package in QUESTIONED)
_OF_VERSION = frozenset({"major", "minor"})
# What may leave out the code in it, or catches what it raises.
_NESTING = (*DEFINITIONS, ast.Try, ast.While, ast.Match)


def finds_capability(body: Sequence[ast.AST], names: Names) -> bool:
    """Return whether code asks for the compute capability of a GPU, or counts its multiprocessors, under no condition,
    and uses no device: it does not run on an NPU, and nothing for the NPU is lost where it never runs."""
    if not any(_asks_always(each, names) for each in body):
        return False
    seen = set[ast.AST]()
    return not any(is_use(node, names, seen) for each in body for node in _beside_questions(each, names))


def asks_capability(value: ast.AST, names: Names) -> bool:
    """Return whether a part of a value asks for what only a GPU has."""
    return any(_is_capability(node, names) for node in walk(value))


def _asks_always(node: ast.AST, names: Names) -> bool:
    if isinstance(node, ast.If):
        return asks_capability(node.test, names)
    if isinstance(node, (*FORS, ast.With)):
        return any(_asks_always(each, names) for each in node.body)
    return not isinstance(node, _NESTING) and asks_capability(node, names)


def _is_capability(node: ast.AST, names: Names) -> bool:
    """`torch.cuda.get_device_capability()`, `torch.cuda.get_device_properties(0).major`, `p.multi_processor_count`"""
    if isinstance(node, ast.Call):
        return names.qualified(node.func, names.file.scope_of(node)) in _CAPABILITIES
    if not isinstance(node, ast.Attribute):
        return False
    if node.attr == "multi_processor_count":
        return True
    of = node.value.func if node.attr in _OF_VERSION and isinstance(node.value, ast.Call) else None
    return of is not None and names.qualified(of, names.file.scope_of(node)) in _PROPERTIES


def _beside_questions(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    """The nodes of a piece of code, without questions about a GPU and the devices that they are given."""
    if isinstance(node, ast.Call) and asks_torch_cuda(node, names):
        return
    yield node
    for child in child_nodes(node):
        yield from _beside_questions(child, names)
