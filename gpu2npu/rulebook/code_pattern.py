"""Patterns of code with metavariables, `lib.norm($X, eps=$EPS, ...)`, and the code that takes their place."""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from gpu2npu.python.text.templates import Piece
from gpu2npu.python.tree.syntax import dotted_name
from gpu2npu.rulebook.template import ARGS

_MARK = "_gpu2npu_"
_REST = f"*{_MARK}{ARGS}"
_TOKEN = re.compile(
    r"(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|\$(?P<name>[A-Z_][A-Z0-9_]*)|(?P<stray>\$)"
    r"|(?P<before>[(\[,]\s*)\.\.\.(?=\s*[,)\]])"
)
_ALLOWED = (
    ast.Expression, ast.Call, ast.Attribute, ast.Name, ast.Constant, ast.keyword, ast.Starred, ast.BinOp, ast.UnaryOp,
    ast.Compare, ast.BoolOp, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Dict, ast.IfExp, ast.operator,
    ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context,
)  # fmt: skip
ANYTHING = "_"  # `$_` stands for something else at each place


class PatternError(ValueError):
    """A pattern that cannot be used; the text is one sentence for the author of the rule."""


class CodePattern(Struct, frozen=True):
    """An expression in which some names are metavariables: `pieces` is its text with them as fields, `tree` its tree.

    `names` are the nodes that stand for themselves: qualified names, builtins and members of a metavariable's value,
    the outermost first. `leaf` is the last part of the first of them: each place that matches has it.
    """

    pieces: tuple[Piece, ...]
    tree: ast.expr
    names: tuple[ast.Name | ast.Attribute, ...]

    @property
    def source(self) -> str:
        """The text that `tree` is parsed from."""
        return _source(self.pieces)

    @property
    def leaf(self) -> str:
        return _last(self.names[0])

    @property
    def words(self) -> frozenset[str]:
        """The last parts of all names: a file without one of them has no match."""
        return frozenset(map(_last, self.names))

    @property
    def metavariables(self) -> Counter[str]:
        """The metavariables, with how often each is there."""
        return Counter(str(piece.field) for piece in self.pieces if piece.field not in (None, ARGS))

    @property
    def has_rest(self) -> bool:
        """Return whether `...` is in it."""
        return any(piece.field == ARGS for piece in self.pieces)


def metavariable(node: ast.AST) -> str | None:
    """The name of the metavariable that a node of a pattern is, without its dollar; else None."""
    return node.id[len(_MARK) :] if isinstance(node, ast.Name) and node.id.startswith(_MARK) else None


def is_rest(node: ast.AST) -> bool:
    """Return whether a node of a pattern stands for any further arguments or elements."""
    return isinstance(node, ast.Starred) and metavariable(node.value) == ARGS


@lru_cache(maxsize=4096)
def parse_code(text: str) -> CodePattern:
    """Parse a pattern, or the code that replaces one. Raises PatternError: it is not one expression, or has what cannot
    be matched."""
    pieces = tuple(_pieces(text))
    try:
        tree = ast.parse(_source(pieces), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "nested too deeply"
        raise PatternError(f"{text!r} is not one expression of Python ({reason})") from error
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED) or (isinstance(node, ast.Starred) and not is_rest(node)):
            raise PatternError(f"{text!r} has what a pattern cannot have: {type(node).__name__}")
        if isinstance(node, ast.Call) and any(map(is_rest, node.args[:-1])):
            raise PatternError(f"in {text!r} arguments by position are behind `...`, where no one can count")
    return CodePattern(pieces, tree.body, tuple(_names(tree.body)))


def check_pattern(text: str) -> CodePattern:
    """Parse a pattern that is looked for. Raises PatternError: it cannot be looked for."""
    pattern = parse_code(text)
    if not pattern.names:
        raise PatternError(f"{text!r} has no name that code would have to contain")
    for node in pattern.names:
        if isinstance(node, ast.Name) and not hasattr(builtins, node.id):
            raise PatternError(
                f"{node.id!r} in {text!r} is not a builtin; write a qualified name (lib.{node.id}), or "
                f"${node.id.upper()} for any expression"
            )
    return pattern


def code_problem(text: str) -> str | None:
    """Return why a text is not the code of one expression; None where it is."""
    try:
        parse_code(text)
    except PatternError as error:
        return str(error)
    return None


def _source(pieces: Sequence[Piece]) -> str:
    marked = (_REST if piece.field == ARGS else f"{_MARK}{piece.field}" for piece in pieces)
    return "".join(
        piece.text if piece.text is not None else mark for piece, mark in zip(pieces, marked, strict=True)
    ).strip()


def _pieces(text: str) -> Iterator[Piece]:
    at = 0
    for token in _TOKEN.finditer(text):
        if token["stray"]:
            raise PatternError(
                f"{text!r} has a dollar without a name at character {token.start() + 1}; write $X, in capital letters"
            )
        if token["string"]:
            continue
        yield Piece(text=text[at : token.start()] + (token["before"] or ""))
        yield Piece(field=token["name"] or ARGS)
        at = token.end()
    yield Piece(text=text[at:])


def _names(tree: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
    """The names of code in a pattern, those of the function that is called before those in its arguments."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.Attribute):
            yield node
            root: ast.AST = node
            while isinstance(root, ast.Attribute):
                root = root.value
            if not isinstance(root, ast.Name):
                pending.append(root)
        elif isinstance(node, ast.Name):
            if metavariable(node) is None:
                yield node
        else:
            pending += ast.iter_child_nodes(node)


def qualified_name(node: ast.AST) -> str | None:
    """The qualified name that a node of a pattern spells; None where it begins with a metavariable."""
    name = dotted_name(node)
    return name if name is not None and not name.startswith(_MARK) else None


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id
