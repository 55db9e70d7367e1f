"""What of a file is code: one whose words that rules are for are all in docstrings and comments needs no migration."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

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
