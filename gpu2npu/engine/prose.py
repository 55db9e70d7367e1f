"""What of a file is prose, for people, and what is code.

A file whose words that rules are for are all in docstrings and comments needs no migration.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from gpu2npu.engine.tree import last_name
from gpu2npu.engine.words import TRANSPARENT

# Calls whose strings are read by people.
SPOKEN = frozenset(
    {"print", "pprint", "warn", "info", "debug", "warning", "error", "exception", "critical", "log", "echo", "write",
     "fail", "skip", "set_description", "set_postfix", "set_title", "title", "add_scalar"}
)  # fmt: skip
# Arguments that hold texts for people.
PROSE_KEYWORDS = frozenset({"help", "description", "msg", "message", "metadata", "doc", "epilog", "prog", "title"})

_NEWLINE = re.compile(rb"\r\n?|\n")
_LONGEST = 12  # characters of a string that may be matched as a whole though it is written in parts: "cuda" ":0"
_TRIPLE_QUOTE = re.compile(rb"\"\"\"|'''|\\[\r\n]")


def without_prose(text: str, parsed: ast.Module, speaks: Callable[[str], bool] = lambda text: False) -> bytes:
    """The text, as UTF-8, without statements that are strings, assigned strings of several lines, and comment lines.

    No rule can match there: a string is matched as a whole, and none of the strings that rules know has two lines. But
    rules may be for a part of an assigned one, such as a command: `speaks` tells.
    LibCST's parse, which this can save, takes ten times as long as Python's own.
    """
    lines = _NEWLINE.split(text.encode())
    for value in _prose(parsed, speaks):
        first, last = value.lineno - 1, (value.end_lineno or value.lineno) - 1
        head, tail = lines[first][: value.col_offset], lines[last][value.end_col_offset :]
        lines[first : last + 1] = [head + tail] + [b""] * (last - first)  # what is before it keeps its columns
    code = b"\n".join(lines)
    if _TRIPLE_QUOTE.search(code) is None:  # else a line that starts with # may be inside a string
        code = b"\n".join(line for line in lines if not line.lstrip().startswith(b"#"))
    return code


def _prose(parsed: ast.Module, speaks: Callable[[str], bool]) -> Iterator[ast.Constant]:
    """The string constants that are statements or, over several lines, the values of assignments; last ones first."""
    found: list[ast.Constant] = []
    blocks: list[list[ast.AST]] = [list(parsed.body)]
    while blocks:
        for node in blocks.pop():
            value = getattr(node, "value", None)
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                several = value.lineno != value.end_lineno and len(value.value) > _LONGEST
                if isinstance(node, ast.Expr) or (several and not speaks(value.value)):
                    found.append(value)
            for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                inner = getattr(node, name, None)
                if isinstance(inner, list):
                    blocks.append(inner)
    return iter(sorted(found, key=lambda value: (value.lineno, value.col_offset), reverse=True))


def is_spoken(above: Sequence[cst.CSTNode]) -> bool:
    """Whether a string under these nodes is prose: a docstring, the text of an error, what is printed or logged."""
    for depth in range(len(above) - 1, -1, -1):
        node = above[depth]
        if isinstance(node, (cst.Raise, cst.Expr)):
            return depth == len(above) - 1 or isinstance(node, cst.Raise)
        if isinstance(node, (cst.Index, cst.Comparison)):  # print(os.environ["CUDA_VISIBLE_DEVICES"])
            return False
        if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value in PROSE_KEYWORDS:
            return True
        if isinstance(node, cst.Call):
            callee = last_name(node.func) or ""
            if callee in SPOKEN or callee.endswith(("Error", "Exception", "Warning")):
                return True
            if callee not in TRANSPARENT and callee != "join":  # what it does with the string is its own affair
                return False
        if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            return False
    return False
