"""The syntax tree of Python's own parser, which takes a tenth of the time of LibCST's."""

from __future__ import annotations

import ast
import warnings
from functools import lru_cache


@lru_cache(maxsize=1)  # an analysis asks for the tree of the file that was just migrated
def python_tree(text: str) -> ast.Module:
    """Not to be changed: others are given the same.

    Raises:
        SyntaxError, ValueError: The text is no Python of this interpreter's version.
        RecursionError, MemoryError: The nesting is too deep.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the user's escapes and literals
        return ast.parse(text)
