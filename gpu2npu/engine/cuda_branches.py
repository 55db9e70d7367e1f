"""Conditions under which only code of CUDA's own runs: kernels, their sources, NVIDIA's libraries. They stay as they
are, and are false on an NPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.scopes import Assigned, Binding, Imported
from gpu2npu.python.tree.syntax import IMPORTS, dotted_name, last_name, string_value
from gpu2npu.records import Bounds

KEPT = (
    "What runs under this condition is CUDA's own, so the condition stays as it is and is false on an NPU: where the "
    "code has a counterpart for Ascend, add a branch for it."
)
KERNELS = "Only kernels for CUDA run under this condition: left as it is, check what an NPU's tensors meet instead."

_ASKED = re.compile(r"cuda\s*\.\s*is_available|CUDA_HOME|\bis_cuda|['\"]cuda['\"]")
# Each match of it has one of these, which are found faster.
_ASKED_WORDS = ("is_available", "CUDA_HOME", "is_cuda", "'cuda'", '"cuda"')
_DEVICE = re.compile(r"is_cuda|['\"]cuda")
# Modules and names, and texts, of code for NVIDIA's GPUs.
_NAME = re.compile(r"(^|_)(cuda|gpu|nvml|nvcc|cupy|pynvml|pycuda|nvidia)(_|$)", re.IGNORECASE)
_TEXT = re.compile(r".*\.cuh?|.*_(cuda|gpu)\.(c|cc|cpp|h|hpp)|(WITH|USE)_CUDA|-?-?nvcc.*", re.IGNORECASE)
_VENDOR = frozenset({"torch.version.cuda", "torch.version.hip"})
_TORCH = re.compile(r"torch(\.|$)")


def cuda_conditions(names: Names) -> list[Bounds]:
    """The places of conditions that ask for CUDA, and guard only what is CUDA's own."""
    file = names.file
    if not any(word in file.text for word in _ASKED_WORDS) or _ASKED.search(file.text) is None:
        return []
    found: list[Bounds] = []
    for node in file.parents:
        if isinstance(node, ast.If) and not _may_hold_without_cuda(node.test) and _is_own(node.body, names):
            found.append(file.bounds(node.test))
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) and _asks_for_vendor(node):
            found.append(file.bounds(node))
    return sorted(found)


def asks_for_device(place: Bounds, file: PythonFile) -> bool:
    """Return whether a place in a condition asks for the device of a tensor: `x.is_cuda`, `x.device.type == "cuda"`."""
    return _DEVICE.search(file.text, *place) is not None


def _asks_for_vendor(test: ast.BoolOp) -> bool:
    """`torch.cuda.is_available() and torch.version.hip is None`, but not `... and (torch.version.hip or big_card)`"""
    sure = [value for value in test.values if not isinstance(value, ast.BoolOp)]  # the others are alternatives
    return any(dotted_name(part) in _VENDOR for part in walk(*sure))


def _may_hold_without_cuda(test: ast.expr) -> bool:
    """`a or torch.cuda.is_available()`, `not torch.cuda.is_available()`"""
    return any(isinstance(part, (ast.Or, ast.Not)) for part in ast.walk(test))


def _is_own(body: Sequence[ast.stmt], names: Names) -> bool:
    """Return whether statements only import, list, set or call what is CUDA's own, and print."""
    marked = [_is_marked(statement, names) for statement in body]
    return any(marked) and all(is_marked or _is_beside(each) for each, is_marked in zip(body, marked, strict=True))


def _is_marked(statement: ast.stmt, names: Names) -> bool:
    if isinstance(statement, IMPORTS):
        module = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
        parts = [part for alias in statement.names for part in alias.name.split(".")]
        of_torch = _TORCH.match(module or statement.names[0].name) is not None
        return not of_torch and any(_NAME.search(part) for part in (*parts, *module.split(".")))
    value = statement.value if isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return)) else None
    if value is None:
        return False
    return _is_kernel(value, names) or any(_TEXT.fullmatch(string_value(part) or "") for part in walk(value))


def _is_kernel(value: ast.expr, names: Names) -> bool:
    """Return whether a value is a kernel for CUDA of a compiled module, or what a call of one gives."""
    function = value.func if isinstance(value, ast.Call) else value
    if not (isinstance(function, ast.Attribute) and function.attr.endswith("_cuda")):
        return False
    owner, scope = function.value, names.file.scope_of(value)
    found = scope.lookup(owner.id) if isinstance(owner, ast.Name) else None
    return found is not None and all(_is_compiled(binding, names) for binding in found[1])


def _is_compiled(binding: Binding, names: Names) -> bool:
    """`kernels = load_extension(...)`, `from . import _ext` where the project has no such file in Python"""
    if isinstance(binding, Assigned):
        return isinstance(binding.whole, ast.Call)
    if not isinstance(binding, Imported):
        return False
    top = binding.qualified.partition(".")[0]  # empty for a relative import
    is_own = not top or names.project.module_path(top, names.path) is not None
    return is_own and names.project.module_path(binding.qualified, names.path) is None


def _is_beside(statement: ast.stmt) -> bool:
    """`with_cuda = True`, `extension = CUDAExtension`, `print(...)`, `pass`"""
    if isinstance(statement, ast.Assign):
        value = statement.value
        return isinstance(value, ast.Constant) or (last_name(value) or "") in {"CUDAExtension", "CUDA_HOME"}
    if isinstance(statement, ast.Expr):
        call = statement.value
        return isinstance(call, ast.Constant) or (isinstance(call, ast.Call) and last_name(call.func) == "print")
    return isinstance(statement, ast.Pass)
