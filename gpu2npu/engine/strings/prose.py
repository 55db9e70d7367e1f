"""Finds the strings that are prose, for people, and not read by the program."""

from __future__ import annotations

import ast

from gpu2npu.engine.strings.text_methods import SEARCHES
from gpu2npu.engine.strings.words import TRANSPARENT
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import last_name

# Calls whose strings are read by people.
_SPOKEN = frozenset(
    {"print", "cprint", "eprint", "pprint", "rprint", "vprint", "warn", "info", "debug", "warning", "error",
     "exception", "critical", "log", "echo", "write", "fail", "skip", "set_description", "set_postfix", "set_title",
     "title", "add_scalar"}
)  # fmt: skip
# Functions whose second argument is a name as a string.
BY_STRING = frozenset({"getattr", "hasattr", "setattr", "delattr"})
# Functions that are given names in one string, "cpu,cuda", or in a list, with the position of that argument.
_NAMING = {"namedtuple": 1, "parametrize": 0}
# Arguments that hold texts for people.
PROSE_KEYWORDS = frozenset({"help", "description", "msg", "message", "metadata", "doc", "epilog", "prog", "title"})


def speaks(callee: str) -> bool:
    """Return whether people read what a function or class of such a name is given: `print`, `rank_print`,
    `ValueError`, but not `fingerprint`."""
    return callee in _SPOKEN or callee.endswith(("_print", "Error", "Exception", "Warning"))


def is_searched(file: PythonFile, string: ast.AST) -> bool:
    """Return whether a string is looked for in another text: `"Error: no GPU" in log`."""
    above = file.parents.get(string)
    if isinstance(above, (ast.Tuple, ast.List, ast.Set)):
        return is_searched(file, above)
    if isinstance(above, ast.Compare):
        return above.left is string and isinstance(above.ops[0], (ast.In, ast.NotIn))
    return isinstance(above, ast.Call) and last_name(above.func) in SEARCHES


def is_own_name(file: PythonFile, string: ast.AST) -> bool:
    """Return whether a string names something in the program: `getattr(kernels, "CUDA_IMPL")`, an item of `__all__`,
    the fields of a namedtuple."""
    node, above = string, file.parents.get(string)
    if isinstance(above, (ast.List, ast.Tuple)):
        node, above = above, file.parents[above]
    if isinstance(above, ast.Call):
        at = _NAMING.get(last_name(above.func) or "")
        if at is not None:
            return node in above.args[at : at + 1]
        return isinstance(above.func, ast.Name) and above.func.id in BY_STRING and node in above.args[1:2]
    targets = above.targets if isinstance(above, ast.Assign) else [getattr(above, "target", None)]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def is_spoken(file: PythonFile, string: ast.AST) -> bool:
    """Return whether a string is prose: a docstring, the text of an error, what is printed or logged."""
    below = string
    for node in file.above(string):
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Expr):
            return below is string
        if isinstance(node, ast.Compare) or (isinstance(node, ast.Subscript) and below is node.slice):
            return False  # print(os.environ["CUDA_VISIBLE_DEVICES"])
        if isinstance(node, ast.keyword) and node.arg in PROSE_KEYWORDS:
            return True
        if isinstance(node, ast.Call):
            callee = last_name(node.func) or ""
            if speaks(callee):
                return True
            if callee not in TRANSPARENT and callee != "join":  # what it does with the string is its own affair
                return False
        if isinstance(node, ast.stmt):
            return False
        below = node
    return False
