"""C++ source with what is not code taken out, every line and column where it was."""

from __future__ import annotations

import re

_NOT_CODE = re.compile(
    r"""
    (?P<comment> //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z) )
  | (?P<raw> (?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)" )
  | (?P<string> "(?:\\.|[^"\\\n])*" )
  | (?P<character> (?<![\da-fA-F])'(?:\\.|[^'\\\n])+' )
    """,
    re.VERBOSE | re.DOTALL,
)
_VISIBLE = re.compile(r"[^\n]")


def without_comments(source: str) -> str:
    """Comments become blanks; string literals stay."""
    return _NOT_CODE.sub(lambda match: _blank(match[0]) if match["comment"] is not None else match[0], source)


def without_strings(source: str) -> str:
    """String and character literals become blanks between their quotes' places, and so do comments."""
    return _NOT_CODE.sub(lambda match: _blank(match[0]), source)


def code_lines(source: str) -> int:
    """The number of lines that hold code: more than blanks and comments."""
    return sum(1 for line in without_comments(source).split("\n") if line.strip())


def _blank(text: str) -> str:
    return _VISIBLE.sub(" ", text)
