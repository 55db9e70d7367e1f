"""Code that is built for NVIDIA's GPUs: texts and names of its sources, its extension, its compiler's settings."""

from __future__ import annotations

import ast

from gpu2npu.engine.elsewhere.choices import chooses_cuda
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.scopes import Assigned
from gpu2npu.python.tree.syntax import last_name, string_value

_ARCHITECTURES = "TORCH_CUDA_ARCH_LIST"


def is_source(value: ast.expr, names: Names, table: RuleTable) -> bool:
    """Return whether a value is, or a list has, a source for CUDA or what is built of some: `"nms.cu"`,
    `[("CUDAExecutionProvider", options)]`, a name of such texts, `CUDAExtension(name, files)`. What a name holds
    decides; of one that the file does not bind to a value, the name itself."""
    if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        return any(is_source(each, names, table) for each in value.elts)
    if not isinstance(value, ast.Name):
        return table.is_cuda_alone("source", string_value(value), last_name(value))
    found = names.file.scope_of(value).lookup(value.id)
    values = [each.whole for each in found[1] if isinstance(each, Assigned) and each.whole] if found else []
    if not values:
        return table.is_cuda_alone("source", value.id) or table.is_cuda_alone("sources", value.id)
    return all(any(table.is_cuda_alone("source", string_value(part)) for part in walk(each)) for each in values)


def sets_compiler(statement: ast.stmt, table: RuleTable) -> bool:
    """`compile_args["nvcc"] = flags`"""
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    keys = [string_value(each.slice) for each in targets if isinstance(each, ast.Subscript)]
    return table.is_cuda_alone("sources", *keys)


def sets_architectures(node: ast.If) -> bool:
    """Return whether a branch sets what CUDA sources are compiled for, as without a GPU it has to be:
    `os.environ["TORCH_CUDA_ARCH_LIST"] = "8.0"`."""
    if chooses_cuda(node.orelse):
        return False
    targets = (target for part in walk(*node.body) if isinstance(part, ast.Assign) for target in part.targets)
    return any(isinstance(each, ast.Subscript) and string_value(each.slice) == _ARCHITECTURES for each in targets)
