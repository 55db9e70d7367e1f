"""Walking a LibCST tree fast: only the children that carry code.

LibCST's own visitors look at every white-space node and copy as they go; this walk costs a fifteenth of the parse.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

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


class _CodeFields(dict[type[cst.CSTNode], tuple[str, ...]]):
    """For each kind of node, its fields that hold nodes which carry code; worked out when first asked."""

    def __missing__(self, kind: type[cst.CSTNode]) -> tuple[str, ...]:
        self[kind] = tuple(
            field.name
            for field in dataclasses.fields(kind)
            if field.name not in _LAYOUT
            and not field.name.startswith("whitespace")
            and not (field.name == "value" and issubclass(kind, _TOKENS))
            and not (field.name == "operator" and kind is not cst.ComparisonTarget)
        )
        return self[kind]


# Leaves whose `value` is text.
_TOKENS = (cst.Name, cst.BaseNumber, cst.SimpleString, cst.FormattedStringText, cst.NotEqual)
_CODE_FIELDS = _CodeFields()


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The child nodes that carry code."""
    found: list[cst.CSTNode] = []
    for name in _CODE_FIELDS[type(node)]:
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += value
    return found


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
    if isinstance(node, cst.ConcatenatedString):
        left, right = string_value(node.left), string_value(node.right)
        return None if left is None or right is None else left + right
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
