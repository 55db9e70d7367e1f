"""Code that is built for NVIDIA's GPUs: texts and names of its sources, its extension, its compiler's settings."""

from __future__ import annotations

import ast
import re

from gpu2npu.engine.elsewhere.choices import chooses_cuda
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.scopes import Assigned
from gpu2npu.python.tree.syntax import last_name, string_value

# Texts of code for NVIDIA's GPUs.
_TEXT = re.compile(
    r".*\.cuh?|.*_(cuda|gpu)\.(c|cc|cpp|h|hpp)|(WITH|USE)_CUDA|-?-?nvcc.*|(cuda|\w*tensorrt\w*)executionprovider"
    r"|(onnx|onnxruntime|faiss|tensorflow)-(cuda|gpu).*|-[DU]_*CUDA_\w+(=.*)?",
    re.IGNORECASE,
)
_SOURCES = re.compile(r"(^|_)((cuda|cu)_(sources?|srcs?|files?)|(sources?|srcs?|files?)_(cuda|cu))$", re.IGNORECASE)
_EXTENSION = "CUDAExtension"  # of torch.utils.cpp_extension
_COMPILER = "nvcc"
_ARCHITECTURES = "TORCH_CUDA_ARCH_LIST"


def is_source(value: ast.expr, names: Names) -> bool:
    """Return whether a value is, or a list has, a source for CUDA or what is built of some: `"nms.cu"`,
    `[("CUDAExecutionProvider", options)]`, a name of such a text, `cuda_sources`, `CUDAExtension(name, files)`."""
    if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        return any(is_source(each, names) for each in value.elts)
    if last_name(value) == _EXTENSION:
        return True
    if isinstance(value, ast.Name):
        found = names.file.scope_of(value).lookup(value.id)
        values = [each.whole for each in found[1] if isinstance(each, Assigned)] if found is not None else []
        is_text = len(values) == 1 and _TEXT.fullmatch(string_value(values[0]) or "") is not None
        return is_text or _SOURCES.search(value.id) is not None
    return _TEXT.fullmatch(string_value(value) or "") is not None


def sets_compiler(statement: ast.stmt) -> bool:
    """`compile_args["nvcc"] = flags`, `nvcc_flags = shlex.split(flags)`"""
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    keys = (string_value(each.slice) if isinstance(each, ast.Subscript) else last_name(each) for each in targets)
    return any((key or "").lower().startswith(_COMPILER) for key in keys)


def sets_architectures(node: ast.If) -> bool:
    """Return whether a branch sets what CUDA sources are compiled for, as without a GPU it has to be:
    `os.environ["TORCH_CUDA_ARCH_LIST"] = "8.0"`."""
    if chooses_cuda(node.orelse):
        return False
    targets = (target for part in walk(*node.body) if isinstance(part, ast.Assign) for target in part.targets)
    return any(isinstance(each, ast.Subscript) and string_value(each.slice) == _ARCHITECTURES for each in targets)
