"""Code that chooses CUDA's device: where it never runs, all is computed on the CPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import FUNCTIONS, last_name, string_value

# Names that say whether the GPU is used: `use_gpu`, `has_cuda`.
_FLAG = re.compile(r"_*((use|has|have|is|with|enable)_)*(cuda|gpu)(_is)?(_(available|enabled|ok))?", re.IGNORECASE)


def chooses_cuda(body: Sequence[ast.AST]) -> bool:
    """Return whether code names CUDA's device or moves something there."""
    return any(_is_cuda(node) for node in walk(*body))


def decides_device(test: ast.BoolOp, names: Names) -> bool:
    """Return whether a condition, or a name that is bound to it, decides that a device is CUDA's."""
    file = names.file
    above = next(each for each in file.above(test) if not isinstance(each, (ast.BoolOp, ast.Compare, ast.UnaryOp)))
    guards: list[ast.If | ast.IfExp | ast.Assert] = []
    if isinstance(above, (ast.If, ast.IfExp, ast.Assert)):
        guards = [above]
    else:
        named = {each.id for each in _targets(above) if isinstance(each, ast.Name)}
        uses = [use for use, _ in file.uses if isinstance(use, ast.Name) and use.id in named]
        choices = [each for use in uses for each in file.above(use) if isinstance(each, (ast.If, ast.IfExp))]
        guards += [each for each in choices if any(part in uses for part in walk(each.test))]
    return _is_flag(above, file) or any(chooses_cuda(_under(each, file)) for each in guards)


def _is_flag(above: ast.AST, file: PythonFile) -> bool:
    """Return whether a value shows other code that the GPU is used: `self.use_gpu = ...`, `run(cuda=...)`, or as the
    answer of `def has_cuda()`."""
    if isinstance(above, ast.Return):
        named = [each.name for each in file.above(above) if isinstance(each, FUNCTIONS)][:1]
    elif isinstance(above, ast.keyword):
        named = [above.arg or ""]
    else:
        named = [last_name(each) or "" for each in _targets(above)]
    return any(map(_FLAG.fullmatch, named))


def _targets(node: ast.AST) -> Sequence[ast.expr]:
    if isinstance(node, ast.AnnAssign):
        return [node.target]
    return node.targets if isinstance(node, ast.Assign) else ()


def _under(guard: ast.If | ast.IfExp | ast.Assert, file: PythonFile) -> Sequence[ast.AST]:
    """The code that runs only where a condition holds: under `if a`, after `assert a`, in the `else` of `if not a`."""
    is_denied = isinstance(guard.test, ast.UnaryOp)
    if isinstance(guard, ast.IfExp):
        return [guard.orelse if is_denied else guard.body]
    if isinstance(guard, ast.If) and not is_denied:
        return guard.body
    if isinstance(guard, ast.If) and (guard.orelse or not isinstance(guard.body[-1], (ast.Raise, ast.Return))):
        return guard.orelse
    block = file.block(guard)
    return block[block.index(guard) + 1 :]


def _is_cuda(node: ast.AST) -> bool:
    """`"cuda"`, `"cuda:0"`, `model.cuda()`"""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "cuda"
    return (string_value(node) or "").partition(":")[0] == "cuda"
