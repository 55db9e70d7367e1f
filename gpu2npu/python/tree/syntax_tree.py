"""Python's own syntax tree of a text, with exact places in f-strings on every version of Python."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterator, Sequence

from gpu2npu.python.text.literals import LiteralError, LiteralPart, literals
from gpu2npu.python.text.offsets import Lines, line_starts
from gpu2npu.python.tree.syntax import last_name, string_value

# A long chain of `elif` or a sum of thousands of terms is that deep a tree.
RECURSION_LIMIT = 10_000


class TreeError(ValueError):
    """A text that cannot be parsed; the message is for the user."""


def parse(text: str) -> ast.Module:
    """The syntax tree of a text. Raises TreeError: the text is not Python of this interpreter's version, or is nested
    too deeply."""
    null = text.find("\0")
    if null >= 0:
        raise TreeError(f"syntax error at line {len(line_starts(text[:null]))}: a null byte")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        return _parsed(text)
    except SyntaxError as error:
        if "too many nested" in str(error.msg):
            raise TreeError(_TOO_DEEP) from error
        raise TreeError(_syntax_error(text, error)) from error
    except (RecursionError, MemoryError) as error:
        raise TreeError(_TOO_DEEP) from error
    finally:
        sys.setrecursionlimit(limit)


# Statements that only Python 2 has: `print x`, `except E, e:`, `raise E, "text"`, `exec "code"`, `a <> b`.
_PYTHON_2 = re.compile(
    r"^[ \t]*(?P<is>print[ \t]+(?:>>|[\w\"'])(?!.*=[^=])|except[ \t]+[\w.]+[ \t]*,[ \t]*[a-z_]\w*[ \t]*:|"
    r"raise[ \t]+[\w.]+[ \t]*,|exec[ \t]+[\"'])",
    re.MULTILINE,
)


# `x.cuda(async=True)`, of PyTorch before 0.4: a name until Python 3.6.
_ASYNC = re.compile(r"[(,]\s*(?P<is>async)\s*=[^=]")


def _syntax_error(text: str, error: SyntaxError) -> str:
    """The sentence for a syntax error: LibCST knows the syntax of later versions of Python too."""
    import libcst as cst  # slow to import, and only to explain a failure

    if (old := _PYTHON_2.search(text)) is not None:
        line = text.count("\n", 0, old.start("is")) + 1
        return f"line {line} is Python 2, which PyTorch has not run on since 1.5: translate the file with 2to3 first"
    line = error.lineno or 1
    if any(text.count("\n", 0, old.start("is")) + 1 == line for old in _ASYNC.finditer(text)):  # not one in a string
        return (
            f"line {line} has async=, which Python 3.7 made a keyword: write non_blocking=, as PyTorch does since 0.4"
        )
    try:
        if text.startswith("\ufeff"):  # a second byte order mark, which LibCST skips
            raise error
        cst.parse_module(text)
    except Exception:  # LibCST raises several kinds for what it cannot parse
        return f"syntax error at line {line}: {error.msg}"
    here = ".".join(map(str, sys.version_info[:2]))
    return f"the syntax in line {line} is newer than Python {here}: run gpu2npu with a later Python"


_TOO_DEEP = "its expressions are nested too deeply to be parsed"


def parse_expression(text: str) -> ast.expr | None:
    """The tree of an expression, such as the text of an annotation; None where it is not one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def alternatives(annotation: ast.expr | None) -> list[ast.expr]:
    """The annotations of which one fits a value: those in `Optional`, in `Union`, beside `|` and in quotes."""
    text = string_value(annotation)
    node = annotation if text is None else parse_expression(text) or annotation
    parts: Sequence[ast.expr] = ()
    if isinstance(node, ast.BinOp):
        parts = (node.left, node.right)
    elif isinstance(node, ast.Subscript) and last_name(node.value) in ("Optional", "Union"):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else (node.slice,)
    elif node is not None:
        return [node]
    return [each for part in parts for each in alternatives(part)]


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the user's escapes and literals
        return ast.parse(text)


def relocate(joined: ast.JoinedStr, lines: Lines) -> None:
    """Parse the expressions inside an f-string anew that are not where Python says: before Python 3.12 their places are
    wrong in strings of several lines or literals. Those of f-strings inside it stay to be done."""
    if sys.version_info >= (3, 12):
        return
    try:
        found = literals(lines.text, *lines.bounds(joined))
    except LiteralError:  # not as it is written: its parts stay where Python puts them
        return
    parts = [part for literal in found for part in literal.parts if part.is_code]
    _relocate_values(joined, parts, lines)


def _relocate_values(joined: ast.JoinedStr, parts: list[LiteralPart], lines: Lines) -> None:
    values = [value for value in joined.values if isinstance(value, ast.FormattedValue)]
    if len(values) != len(parts):
        return
    for value, part in zip(values, parts, strict=True):
        if not _is_placed(value.value, part, lines):
            value.value = _expression(part, lines) or value.value
        if isinstance(value.format_spec, ast.JoinedStr):
            _relocate_values(value.format_spec, [inner for inner in part.format if inner.is_code], lines)


def _expression(part: LiteralPart, lines: Lines) -> ast.expr | None:
    code = lines.text[part.start : part.end]
    try:
        inner = ast.parse(f"({code})", mode="eval").body
    except SyntaxError:
        return None
    place = lines.span(part.start, part.start)
    column = len(lines.text[part.start - place.start_column : part.start].encode())
    for node in _with_places(inner):
        if node.lineno == 1:
            node.col_offset += column - 1
        if node.end_lineno == 1:
            node.end_col_offset = (node.end_col_offset or 0) + column - 1
        node.end_lineno = (node.end_lineno or node.lineno) + place.start_line - 1
        node.lineno += place.start_line - 1
    return inner


def _is_placed(node: ast.expr, part: LiteralPart, lines: Lines) -> bool:
    """Return whether an expression on one line has the place that it is written at."""
    try:
        return node.lineno == node.end_lineno and lines.bounds(node) == (part.start, part.end)
    except (IndexError, UnicodeDecodeError):  # there is no such place
        return False


def _with_places(node: ast.AST) -> Iterator[ast.expr]:
    for each in ast.walk(node):
        if hasattr(each, "lineno"):
            yield each  # type: ignore[misc]  # arguments and keywords have the same four numbers
