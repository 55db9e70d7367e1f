"""New code for a file: templates, which are Python with names in braces, filled with names and parts of the file.

Only this module makes the text of an edit, and mypy holds it: `NewText` is made nowhere else. A template is parsed once
by `ast`, with a name in each field, so that its fields have parentheses where they need some. `python/text/changes.py`
parses with LibCST what is written.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from string import Formatter
from typing import Any, NamedTuple, overload

from msgspec import Struct

from gpu2npu.python.text.blocks import indent_step
from gpu2npu.python.text.concrete import argument_bounds, outer_bounds
from gpu2npu.python.text.offsets import indentation, newline_of
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import arguments, has_effects
from gpu2npu.records import Bounds, NewText, Text

# Expressions that need no parentheses wherever they are put.
ATOMS = (
    ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.JoinedStr, ast.List, ast.Dict, ast.Set,
    ast.ListComp, ast.DictComp, ast.SetComp,
)  # fmt: skip
# What new code may be, with the code that it is then a part of; the first that Python parses is taken.
_PLACES = ("({}\n)", "f({}\n)", "{}", "{} pass", "x{}", "f(x{}\n)", "def f({}\n): pass", "def f(x{}\n): pass",
           "{}\n pass", "{}\ndef f(): pass", "import {}", "import x{}", "f({}lambda: 0\n)")  # fmt: skip
# Operators, from those that bind least: an operand of one needs parentheses where it binds less.
_LEAST: tuple[Any, ...] = (ast.NamedExpr, (ast.Lambda, ast.IfExp), ast.Or, ast.And, ast.Not, ast.Compare, ast.BinOp)
_ATOM = len(_LEAST)


class NewCodeError(ValueError):
    """A template is not Python; the text is what it would be."""


class Piece(Struct, frozen=True):
    """A part of the template of a rule: text of the code, or a field: a position counted from 0, or a name."""

    text: str | None = None
    field: str | int | None = None


# What a field of a rule's template stands for: an expression, or arguments of a call.
Filling = ast.expr | Sequence[ast.expr | ast.keyword]
_COMMA = re.compile(r"\s*,\s*")
_SUBSCRIPT = re.compile(r"[\w\])]\[$")  # not the bracket of a list


class Operand(NamedTuple):
    """An expression of the file; `is_whole` means that no operator beside it can take a part of it."""

    bounds: Bounds
    is_whole: bool


# What a field stands for.
Part = str | Bounds | Operand | Sequence[NewText | Bounds]


class _Template(NamedTuple):
    """The text before each field, the field, and how much what is in its place has to bind (0: anything may be)."""

    pieces: Sequence[tuple[str, str | None]]
    fields: Mapping[str, int]


@overload
def code(template: str, /, **parts: str) -> NewText: ...


@overload
def code(template: str, /, **parts: Part) -> Text: ...


def code(template: str, /, **parts: Part) -> Text:
    """Fill a template: an expression, arguments, parameters, a statement or its head, or what is behind one of these.
    A part that is text is an expression or a name; one in the field `space` is white space of the file.

    Raises:
        NewCodeError: It is none of them.
    """
    parsed = _parsed(template)
    found: list[NewText | Bounds] = []
    for text, field in parsed.pieces:
        if text:
            found.append(NewText(text))
        if field is not None:
            found += _filled(parts[field], parsed.fields.get(field, 0))
    return joined(found)


def _filled(part: Part, least: int) -> Iterable[NewText | Bounds]:
    if isinstance(part, Operand):
        inside: Sequence[NewText | Bounds] = (part.bounds,)
        is_whole = part.is_whole or not least
    elif isinstance(part, str):
        inside = (NewText(part),)
        is_whole = not least or part.isidentifier() or _binding(part) >= least
    elif len(part) == 2 and isinstance(part[0], int):
        return (part,)  # type: ignore[return-value]
    else:
        inside = part  # type: ignore[assignment]
        is_whole = not least or _binding(_skeleton(inside)) >= least
    return inside if is_whole else (NewText("("), *inside, NewText(")"))


def joined(pieces: Iterable[NewText | Bounds]) -> Text:
    """New text of several pieces, each whole by itself."""
    found: list[NewText | Bounds] = []
    for piece in pieces:
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] = NewText(found[-1] + piece)
        elif piece != "":
            found.append(piece)
    return found[0] if len(found) == 1 and isinstance(found[0], str) else tuple(found)


def parsed(text: Text) -> Text:
    """New code that is Python, whatever its parts are.

    Raises:
        NewCodeError: It is not.
    """
    _tree(_skeleton(pieces_of(text)))
    return text


def generated(pieces: Iterable[str | Bounds]) -> Text:
    """Code that LibCST gives for a node, and parts of the file."""
    return joined(NewText(each) if isinstance(each, str) else each for each in pieces)


def parenthesized(text: Text) -> Text:
    return joined((NewText("("), *pieces_of(text), NewText(")")))


def changed(text: Text, change: Callable[[str], str]) -> Text:
    """New code with a change of the spelling of names or quotes in what is not of the file."""
    return joined(NewText(change(each)) if isinstance(each, str) else each for each in pieces_of(text))


def plain(text: str) -> NewText:
    """Text that is not code: a name, a part of a string, a value of a configuration."""
    return NewText(text)


def operand(file: PythonFile, node: ast.expr) -> Operand:
    """An expression of the file, with the parentheses around it."""
    bounds = outer_bounds(file, node)
    is_bracketed = isinstance(node, (ast.GeneratorExp, ast.Tuple)) and file.text[bounds[0]] == "("
    return Operand(bounds, is_bracketed or isinstance(node, ATOMS) or bounds != file.bounds(node))


def bare_operand(file: PythonFile, node: ast.expr) -> Operand:
    """An expression of the file, without the parentheses around it."""
    return Operand(file.bounds(node), isinstance(node, ATOMS))


def followed(text: Text, *parts: Text | Bounds) -> Text:
    """New text, and behind it others and parts of the file, such as the lines below the head of a statement."""
    more = (each if isinstance(each, tuple) and not isinstance(each[0], int) else (each,) for each in parts)
    return joined((*pieces_of(text), *(piece for each in more for piece in each)))


def call(function: str, *given: Text | Bounds) -> Text:
    """A call of a function, or its name where nothing is given."""
    return joined((NewText(function), *pieces_of(bracketed(given)))) if given else NewText(function)


def bracketed(given: Iterable[Text | Bounds]) -> Text:
    """Arguments or elements in parentheses."""
    first, *others = given
    return followed(NewText("("), first, *(code(", {other}", other=each) for each in others), NewText(")"))


# Lines.


def under(file: PythonFile, head: NewText, *lines: NewText) -> list[NewText]:
    """The lines of a compound statement with some in its block."""
    step = indent_step(file)
    return [head, *(NewText(f"{step}{line}") for line in lines)]


def lines_at(file: PythonFile, offset: int, indent: str, lines: Iterable[Text]) -> Text:
    """Lines at the start of a line, or at the end of a text that lacks its last line end."""
    newline = NewText(newline_of(file.text))
    missing = newline if offset and not file.text[:offset].endswith(("\n", "\r")) else NewText("")
    whole = [piece for line in lines for piece in (NewText(indent if line else ""), *pieces_of(line), newline)]
    return joined((missing, *whole))


def line_below(file: PythonFile, offset: int, indent: str, line: Text) -> Text:
    """A line where one begins, or behind the last of a text that lacks its line end, which then lacks it too."""
    if file.text[:offset].endswith(("\n", "\r")):
        return lines_at(file, offset, indent, [line])
    return joined((NewText(newline_of(file.text) + indent), *pieces_of(line)))


def lines_above(file: PythonFile, offset: int, lines: Iterable[Text], indent: str | None = None) -> Text:
    """Lines before the statement that begins at an offset, in its block; `indent` is before it where that is known."""
    below = NewText(newline_of(file.text) + (indentation(file.text, offset) if indent is None else indent))
    return joined(piece for line in lines for piece in (*pieces_of(line), below))


def lines_instead(file: PythonFile, offset: int, *lines: Text) -> Text:
    """Lines in the place of the statement that begins at an offset."""
    return followed(lines_above(file, offset, lines[:-1]), lines[-1])


def pieces_of(text: Text) -> Sequence[NewText | Bounds]:
    """The pieces of new text, of the file and not."""
    return (text,) if isinstance(text, str) else text


# Templates of rules.


def fill(
    file: PythonFile, pieces: Sequence[Piece], part: Callable[[Piece], Filling | None], is_argument: bool = False
) -> Text | None:
    """The code of a rule's template whose placeholders stand for what `part` gives; None where it has nothing for one,
    code would be evaluated twice, or a slice would be outside of brackets. The template of an argument is in a call."""
    ends = (Piece(text="("), Piece(text=")")) if is_argument else (Piece(text=""), Piece(text=""))
    code: list[NewText | Bounds] = []
    lone = False  # nothing was put before a comma
    lines: _Lines | None = None  # of the arguments that were put last
    for index, piece in enumerate(pieces):
        before = pieces[index - 1] if index else ends[0]
        after = pieces[index + 1] if index + 1 < len(pieces) else ends[1]
        if piece.text is not None:
            is_led = lone and _COMMA.match(piece.text)
            text = _COMMA.sub("", piece.text, count=1) if is_led else piece.text
            if lines is not None and text.startswith(", "):
                code += (NewText(","), lines.before)
                text = text[2:]
            code.append(NewText(text))
            lone = False
            continue
        found = part(piece)
        if found is None or (pieces.count(piece) > 1 and has_effects(found)):
            return None
        if isinstance(found, ast.expr):
            is_enclosed = _is_enclosed(before, after, found, is_first=index < 2)
            if _has_slice(found) and not is_enclosed:
                return None
            given = operand(file, found)
            is_number = isinstance(found, ast.Constant) and type(found.value) is int
            is_number = is_number and given.bounds == file.bounds(found) and _begins(after, ".")  # 1.npu() is not code
            code += _filled(Operand(given.bounds, not is_number and (given.is_whole or is_enclosed)), _ATOM)
        elif found:
            is_outer = _depth(code) == 1 and isinstance(code[-1], str) and code[-1].endswith("(")
            lines = _lines_of(file, found) if is_outer else None
            code += (*((lines.before,) if lines is not None else ()), *pieces_of(_given(file, found, lines)))
        elif code and isinstance(code[-1], str) and code[-1].rstrip().endswith(","):
            code[-1] = NewText(code[-1].rstrip()[:-1])
        else:
            lone = True
    if lines is not None and isinstance(code[-1], str) and code[-1].endswith(")") and not _depth(code):
        code[-1:] = [NewText(code[-1][:-1]), lines.behind, NewText(")")]
    return joined(code)


class _Lines(NamedTuple):
    """The space before each argument of a call that has a line for each, and that from the last one to the bracket."""

    before: Bounds
    behind: Bounds


def _lines_of(file: PythonFile, given: Sequence[ast.expr | ast.keyword]) -> _Lines | None:
    call = file.parents[given[0]]
    bounds = argument_bounds(file, call) if isinstance(call, ast.Call) else None
    if not bounds:
        return None
    found = _Lines((len(file.text[: bounds[0][0]].rstrip()), bounds[0][0]), (bounds[-1][1], file.bounds(call)[1] - 1))
    is_broken = file.text[found.before[0] - 1] == "(" and "\n" in file.text[slice(*found.before)]
    return found if is_broken and file.text[slice(*found.behind)].strip() in ("", ",") else None


def _depth(code: Sequence[NewText | Bounds]) -> int:
    """The brackets that new code leaves open."""
    texts = "".join(each for each in code if isinstance(each, str))
    return sum((each in "([{") - (each in ")]}") for each in texts)


def _has_slice(found: ast.expr) -> bool:
    return any(isinstance(each, ast.Slice) for each in (found, *(found.elts if isinstance(found, ast.Tuple) else ())))


def _given(file: PythonFile, given: Sequence[ast.expr | ast.keyword], lines: _Lines | None) -> Text:
    """Arguments of a call, each run of neighbours as it is written."""
    if len(given) == 1 and isinstance(given[0], ast.GeneratorExp):
        return (file.bounds(given[0]),)
    call = file.parents[given[0]]
    assert isinstance(call, ast.Call)
    everything = arguments(call)
    bounds = argument_bounds(file, call) or [file.bounds(each) for each in everything]
    runs: list[list[int]] = []
    for index in (everything.index(each) for each in given):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    places = [(bounds[run[0]][0], bounds[run[-1]][1]) for run in runs]
    space = (NewText(", "),) if lines is None else (NewText(","), lines.before)
    return followed((places[0],), *((*space, each) for each in places[1:]))


def _is_enclosed(before: Piece, after: Piece, found: ast.expr, is_first: bool) -> bool:
    """Return whether brackets or commas keep what is put here apart from its neighbours."""
    if isinstance(found, (ast.GeneratorExp, ast.NamedExpr)):
        return False
    head = (before.text or "").rstrip()
    if isinstance(found, (ast.Tuple, ast.Slice)):  # as in x[1, 2:]
        placed = head if is_first else f"x{head}"  # behind another placeholder
        return _SUBSCRIPT.search(placed) is not None and _begins(after, "]")
    return head.endswith(("(", "[", "{", ",", "=")) and _begins(after, ")", "]", "}", ",")


def _begins(piece: Piece, *texts: str) -> bool:
    return (piece.text or "").lstrip().startswith(texts)


# What is parsed.


@lru_cache(maxsize=512)
def _parsed(template: str) -> _Template:
    pieces = [(text, field) for text, field, _, _ in Formatter().parse(template)]
    names = {f"_{field}_": field for _, field in pieces if field is not None}
    tree = _tree("".join(f"{text}_{field}_" if field not in (None, "space") else text for text, field in pieces))
    fields: dict[str, int] = {}
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Name) and child.id in names:
                fields[names[child.id]] = max(_wanted(node, child), fields.get(names[child.id], 0))
    return _Template(pieces, fields)


def _wanted(above: ast.AST, operand: ast.expr) -> int:
    """The place of an operand among `_LEAST`, which what is put there has to have at least."""
    if isinstance(above, (ast.Attribute, ast.Starred)) or operand in (
        getattr(above, "func", None), getattr(above, "value", None) if isinstance(above, ast.Subscript) else None,
    ):  # fmt: skip
        return _ATOM
    if isinstance(above, ast.IfExp):
        return 1 if operand is above.orelse else 2
    kind = _kind(above)
    return 0 if kind is None else kind + isinstance(above, (ast.Compare, ast.BinOp))


def _kind(node: ast.AST) -> int | None:
    """The place of an operator among `_LEAST`; None for anything else."""
    operator = node.op if isinstance(node, (ast.BoolOp, ast.UnaryOp)) else node
    if isinstance(operator, (ast.USub, ast.UAdd, ast.Invert)):
        return _ATOM - 1
    return next((index for index, kind in enumerate(_LEAST) if isinstance(operator, kind)), None)


@lru_cache(maxsize=512)
def _binding(text: str) -> int:
    tree = _tree(text)
    body = tree.body[0] if isinstance(tree, ast.Module) else tree
    value = body.value if isinstance(body, ast.Expr) else body
    if isinstance(value, (*ATOMS, ast.Tuple)) or text.startswith("("):
        return _ATOM
    return _kind(value) or 0


def _skeleton(pieces: Sequence[str | Bounds]) -> str:
    return "".join(each if isinstance(each, str) else f"_{index}_" for index, each in enumerate(pieces))


@lru_cache(maxsize=512)
def _tree(text: str) -> ast.AST:
    """Parse new code as what it may be."""
    codes = (place.replace("{}", text) for place in _PLACES)
    found = next((tree for tree in map(_python, codes) if tree is not None), None)
    if found is None:
        raise NewCodeError(text)
    return found


def _python(text: str) -> ast.AST | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError):
        return None
