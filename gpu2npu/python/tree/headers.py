"""The headers of methods in a text, each parsed by itself: a file need not be parsed to know their parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from gpu2npu.python.tree.syntax_tree import parse_statement

# What may be the header of a function with `self`, with parentheses in parentheses in its defaults and types. A pattern
# that begins with a word is searched for several times as fast as one that begins with \b.
_HEADER = re.compile(
    rb"def(?<!\wdef)[ \t]+(\w+)[ \t]*\([ \t\r\n]*self\b[^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\)"
)


def method_headers(source: bytes) -> Iterator[tuple[str, bytes]]:
    """The names of methods in a text, each with the text of its header."""
    for found in _HEADER.finditer(source):
        yield found[1].decode("utf-8", "replace"), found[0]


@lru_cache(maxsize=20_000)  # a project repeats many of its headers
def positional(header: bytes) -> tuple[str, ...]:
    """The names of the parameters behind `self` that can be given by position; none where the text is no header."""
    function = parse_statement(header.decode("utf-8", "replace") + ": pass")
    if not isinstance(function, ast.FunctionDef):
        return ()
    return tuple(each.arg for each in (*function.args.posonlyargs, *function.args.args))[1:]
