"""The texts of string literals and of f-strings between their braces, as rules match and replace them."""

from __future__ import annotations

import ast

from msgspec import Struct

from gpu2npu.python.text.literals import Literal, LiteralError, literals
from gpu2npu.python.text.templates import plain
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import string_value
from gpu2npu.python.tree.syntax_tree import parse_expression
from gpu2npu.records import Bounds, NewText


class StringText(Struct, frozen=True):
    """The text of one literal, or one text between the braces of an f-string.

    `node` is the expression that it is part of, or is. `place` is what an edit replaces: `opening`, `raw` and
    `closing`, of which the first and last are a literal's quotes, and empty for a text of an f-string.
    """

    node: ast.expr
    place: Bounds
    raw: str
    opening: str = ""
    closing: str = ""

    @property
    def is_formatted(self) -> bool:
        """Return whether it is a text of an f-string."""
        return not self.closing

    @classmethod
    def of(cls, file: PythonFile, node: ast.AST) -> StringText | None:
        """The text of a string that is written as one literal; None for any other expression."""
        if string_value(node) is None or not isinstance(node, ast.Constant):
            return None
        found = written(file, node)
        return plain_text(file, node, found[0]) if len(found) == 1 else None

    def quoted(self, text: str) -> NewText:
        """Another text in the same quotes."""
        return plain(self.opening + text + self.closing)

    def replacements(self, text: str) -> list[tuple[Bounds, NewText]]:
        """The places and their new text, for another text: of a text of many lines only the lines that differ."""
        old, new = self.raw.split("\n"), text.split("\n")
        if len(old) == 1 or len(old) != len(new):
            return [(self.place, self.quoted(text))]
        start, found = self.place[0] + len(self.opening), []
        for before, after in zip(old, new, strict=True):
            if before != after:
                found.append(((start, start + len(before)), plain(after)))
            start += len(before) + 1
        return found

    def can_be(self, new: str) -> bool:
        """Return whether another text stays inside the quotes and says there what it says in a rule."""
        if self.is_formatted:
            return not any(character in new for character in "{}\"'\n\\")
        if new.count("\\") > self.raw.count("\\") and "r" not in self.opening.lower():
            return False
        return string_value(parse_expression(self.quoted(new))) is not None


def written(file: PythonFile, node: ast.expr) -> tuple[Literal, ...]:
    """The literals that a string or an f-string is written with; none where they cannot be read."""
    try:
        return literals(file.text, *file.bounds(node))
    except LiteralError:
        return ()


def plain_text(file: PythonFile, node: ast.expr, literal: Literal) -> StringText:
    """The text of a literal that is not an f-string."""
    return StringText(
        node,
        (literal.start, literal.end),
        file.text[literal.inner : literal.inner_end],
        file.text[literal.start : literal.inner],
        file.text[literal.inner_end : literal.end],
    )


def formatted_texts(file: PythonFile, node: ast.expr, literal: Literal) -> list[StringText]:
    """The texts of an f-string between its braces."""
    return [
        StringText(node, (part.start, part.end), file.text[part.start : part.end])
        for part in literal.parts
        if not part.is_code
    ]
