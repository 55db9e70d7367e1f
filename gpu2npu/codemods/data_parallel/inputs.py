"""Moves the inputs of a model on one NPU to that NPU, as DataParallel moved them to the card."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.codemods.data_parallel.wrapping import is_move
from gpu2npu.codemods.places import NPU, Step, inserted
from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import function_above
from gpu2npu.python.tree.syntax import FORS, elements, last_name, own_nodes

_MESSAGE = "DataParallel moved what it was given to the card."
_DEPTH = 4


def moved_inputs(file: ParsedFile, call: ast.Call) -> Iterator[Step]:
    """`model(images)` -> `model(images.npu())`, for a batch or a tensor that nothing moves before."""
    for given in call.args:
        if isinstance(given, ast.Name) and _is_on_cpu(file, given, given.id):
            yield inserted(file, file.bounds(given)[1], ".npu()", _MESSAGE, NPU)


def _is_on_cpu(file: ParsedFile, use: ast.expr, name: str, depth: int = _DEPTH) -> bool:
    """Return whether a name at its use is what a loader gave or torch drew, and perhaps never moved to a card."""
    function = function_above(file, use)
    code = list(own_nodes((function or file.tree).body))
    before = [node for node in code if isinstance(node, ast.Assign) and _binds(node, name)]
    above = {file.statement(use), *file.above(use)}
    start = file.bounds(use)[0]
    last = [node for node in before if file.bounds(node)[1] < start]
    sure = [node for node in last if file.parents[node] in above]
    if sure:
        value = _value_of(sure[-1], name)
        if any(is_move(file, node) or _is_placed(node) for node in walk(value)):
            return False
        if isinstance(value, ast.Name) and depth:
            return _is_on_cpu(file, value, value.id, depth - 1)
        return isinstance(value, ast.Call) and _makes_tensor(file, value)
    return any(isinstance(node, FORS) and node in above and _is_batch(node, name) for node in code)


def _binds(node: ast.Assign, name: str) -> bool:
    targets = [part for target in node.targets for part in (target, *elements(target))]
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _value_of(assigned: ast.Assign, name: str) -> ast.expr:
    """Return the expression that an assignment gives a name: its own part of `a, b = x, y`."""
    for target in assigned.targets:
        parts, values = elements(target), elements(assigned.value)
        if len(parts) == len(values):
            return next(
                (
                    value
                    for part, value in zip(parts, values, strict=True)
                    if isinstance(part, ast.Name) and part.id == name
                ),
                assigned.value,
            )
    return assigned.value


def _is_placed(node: ast.AST) -> bool:
    """`torch.ones(3, device=device)`"""
    return isinstance(node, ast.keyword) and node.arg == "device"


def _makes_tensor(file: ParsedFile, call: ast.Call) -> bool:
    name = file.qualified(call.func) or ""
    return name in {f"torch.{made}" for made in ("arange", "ones", "rand", "randint", "randn", "tensor", "zeros")}


def _is_batch(loop: ast.For | ast.AsyncFor, name: str) -> bool:
    """Return whether a name is one of several that a loop gives: `for images, labels in loader`, or with enumerate."""
    parts = elements(loop.target)
    if isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "enumerate" and parts:
        parts = (parts[-1], *elements(parts[-1]))
    return any(isinstance(part, ast.Name) and part.id == name for part in parts)
