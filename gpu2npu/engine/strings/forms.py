"""Forms of Python that strings are in."""

from __future__ import annotations

import ast

from gpu2npu.python.tree.syntax import last_name, string_value

CLICK = "option"  # of click and typer
FLAGS = frozenset({"add_argument", "add_option", CLICK})  # of argparse and optparse

_EXPORTS = frozenset({"__all__", "__slots__", "__match_args__"})  # lists of names


def is_glued(whole: ast.JoinedStr, index: int) -> bool:
    """Return whether more than a device's number is beside the braces that the string is in: f"{'cuda'}_time"."""
    after = whole.values[index + 1] if index + 1 < len(whole.values) else None
    return index > 0 or (after is not None and string_value(after) != ":")


def is_list_of_names(assignment: ast.Assign | ast.AugAssign | ast.AnnAssign) -> bool:
    targets = assignment.targets if isinstance(assignment, ast.Assign) else [assignment.target]
    return any(last_name(target) in _EXPORTS for target in targets)


def indexes(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def is_flag(call: ast.Call) -> bool:
    """Return whether a call names a flag, as ConfigArgParse's `group.add("--backend", default="nccl")` does."""
    return bool(call.args) and (string_value(call.args[0]) or "").startswith("-")


def is_cut(side: ast.AST) -> bool:
    """`str(device)[:4]`, whose length is that of the text it is compared with, and of no other"""
    upper = side.slice.upper if isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Slice) else None
    return isinstance(upper, ast.Constant)


def chooses_column(call: ast.AST | None) -> bool:
    """Return whether an option is for the column that a profiler's table is sorted by: `--profile_sort`."""
    names = map(string_value, call.args) if isinstance(call, ast.Call) and last_name(call.func) in FLAGS else ()
    return any("sort" in name.lower().replace("-", "_").split("_") for name in names if name)
