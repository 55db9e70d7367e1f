"""Code that is built for NVIDIA's GPUs, and functions that capture graphs where the chosen torch_npu cannot."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpu2npu.engine.other_devices.choices import chooses_cuda
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import FUNCTIONS, Function, last_name, string_value
from gpu2npu.records import FindingKind

_ARCHITECTURES = "TORCH_CUDA_ARCH_LIST"


def is_source(value: ast.expr, names: Names, table: RuleTable) -> bool:
    """Return whether a value is, or a list has, a source for CUDA or what is built of some: `"nms.cu"`,
    `[("CUDAExecutionProvider", options)]`, a name of such texts, `CUDAExtension(name, files)`. What a name holds
    decides; of one that the file does not bind to a value, the name itself."""
    if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        return any(is_source(each, names, table) for each in value.elts)
    if not isinstance(value, ast.Name):
        return table.is_cuda_only("source", string_value(value), last_name(value))
    values = [each for each in names.file.scope_of(value).values(value) if each is not None]
    if not values:
        return table.is_cuda_only("source", value.id) or table.is_cuda_only("sources", value.id)
    return all(any(table.is_cuda_only("source", string_value(part)) for part in walk(each)) for each in values)


def sets_compiler(statement: ast.stmt, table: RuleTable) -> bool:
    """`compile_args["nvcc"] = flags`"""
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    keys = [string_value(each.slice) for each in targets if isinstance(each, ast.Subscript)]
    return table.is_cuda_only("sources", *keys)


def sets_architectures(node: ast.If) -> bool:
    """Return whether a branch sets what CUDA sources are compiled for, as without a GPU it has to be:
    `os.environ["TORCH_CUDA_ARCH_LIST"] = "8.0"`."""
    if chooses_cuda(node.orelse):
        return False
    targets = (target for part in walk(*node.body) if isinstance(part, ast.Assign) for target in part.targets)
    return any(isinstance(each, ast.Subscript) and string_value(each.slice) == _ARCHITECTURES for each in targets)


_DEPTH = 3


def is_capture(body: Sequence[ast.stmt], other: Sequence[ast.stmt], names: Names, table: RuleTable) -> bool:
    """Return whether a statement calls what captures a graph that the release lacks, and `other` gives the same
    without: both return, or both assign the same names."""
    if len(body) != 1 or not other or not _gives_the_same(body[0], other[-1]):
        return False
    value = getattr(body[0], "value", None)
    return isinstance(value, ast.Call) and _captures(value, names, table, _DEPTH)


def _gives_the_same(one: ast.stmt, other: ast.stmt) -> bool:
    if isinstance(one, ast.Assign) and isinstance(other, ast.Assign):
        return [ast.dump(target) for target in one.targets] == [ast.dump(target) for target in other.targets]
    return isinstance(one, ast.Return) and isinstance(other, ast.Return)


def _captures(call: ast.Call, names: Names, table: RuleTable, depth: int) -> bool:
    found = function_of(call.func, names)
    if found is None or not depth:
        return False
    function, home = found
    for node in walk(function):
        if isinstance(node, ast.Attribute) and _lacks(home.qualified(node, home.file.scope_of(node)) or "", table):
            return True
        if isinstance(node, ast.Call) and _captures(node, home, table, depth - 1):
            return True
    return False


def _lacks(qualified: str, table: RuleTable) -> bool:
    found = table.rule_for(qualified)
    report = found[0].then.report if found is not None and found[0].lacks is not None else None
    return report is not None and report.kind is FindingKind.UNSUPPORTED


def function_of(node: ast.expr, names: Names) -> tuple[Function, Names] | None:
    """The function or method of the project that an expression names, and the names of its file."""
    scope = names.file.scope_of(node)
    if isinstance(node, ast.Attribute) and (method := names.method(node, scope)) is not None:
        return method.function, method.names
    found = names.definition(node, scope)
    function = found.bound.node if found is not None else None
    return (function, found.names) if found is not None and isinstance(function, FUNCTIONS) else None


def is_build_step(statement: ast.stmt) -> bool:
    """`with_cuda = True`, `home = CUDA_HOME`, `command = {"build_ext": BuildExtension}`, `print(...)`, `pass`"""
    if isinstance(statement, ast.Assign):
        value = statement.value
        named = {last_name(part) for part in (value, *(value.values if isinstance(value, ast.Dict) else ()))}
        return isinstance(value, ast.Constant) or not named.isdisjoint({"BuildExtension", "CUDA_HOME"})
    if isinstance(statement, ast.Expr):
        call = statement.value
        return isinstance(call, ast.Constant) or (isinstance(call, ast.Call) and last_name(call.func) == "print")
    return isinstance(statement, ast.Pass)
