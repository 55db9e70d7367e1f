"""Statements and arguments that are taken out."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence, Set

from gpu2npu.python.text.concrete import comments
from gpu2npu.python.text.tokens import statement_end
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import FUNCTIONS, string_value
from gpu2npu.records import Bounds, Edit, MovedLines, Operation

_COMMA = re.compile(r"\s*,")
_REST_OF_LINE = re.compile(r"[ \t]*,?[ \t]*(?:#[^\r\n]*)?(?:\r\n?|\n)")
_COMMA_ALONE = re.compile(r"\s*,\s*")
# The end of the first line of a `with`, and of the parentheses around what it enters.
_HEADER_END = re.compile(r"([\s),]*:)[ \t]*(?:\r\n?|\n)")
_COMMENT = re.compile(r"#[^\r\n]*")


def removal(file: PythonFile, node: ast.stmt, rule: str, message: str) -> Edit:
    """The edit that takes a statement out with its line; where the block would be empty, `pass` stands in for it."""
    place = file.bounds(node)
    line = _own_line(file, node, place)
    if line is None:
        return Edit(place, "pass", rule, message)
    whole = place[0], line[0] + len(file.text[line[0] : line[1]].rstrip())  # a comment goes with it
    return Edit(whole, "", rule, message, replaced=line, operation=Operation.DELETE)


def taken_out(file: PythonFile, node: ast.expr, others: Set[ast.expr], rule: str, message: str) -> list[Edit] | None:
    """The edits that take out an expression which is a statement, or which a `with` enters, where the `others` go, too;
    none where one of these takes it along, None where its value is used, or a comment would be lost."""
    parent = file.parents[node]
    if isinstance(parent, ast.Expr):
        return [removal(file, parent, rule, message)]
    if not isinstance(parent, ast.withitem) or parent.optional_vars is not None:
        return None
    statement = file.parents[parent]
    assert isinstance(statement, (ast.With, ast.AsyncWith))
    gone = [item.optional_vars is None and item.context_expr in {node, *others} for item in statement.items]
    first = last = statement.items.index(parent)
    if all(gone):
        edits = _unwrapped(file, statement, rule, message)
        return edits and ([] if first else edits)
    if first and gone[first - 1]:
        return []
    while last + 1 < len(gone) and gone[last + 1]:
        last += 1
    return _without_items(file, statement, first, last, rule, message)


def _without_items(
    file: PythonFile, statement: ast.With | ast.AsyncWith, first: int, last: int, rule: str, message: str
) -> list[Edit] | None:
    """The edit that takes neighbours out of what a `with` enters, of which some stay."""
    ends = [file.bounds(item.optional_vars or item.context_expr)[1] for item in statement.items]
    starts = [file.bounds(item.context_expr)[0] for item in statement.items]
    gap = (starts[first], starts[last + 1]) if last + 1 < len(ends) else (ends[first - 1], ends[last])
    between = [file.text[end:start] for end, start in zip(ends, starts[1:], strict=False)]
    touched = between[first : last + 1] if last + 1 < len(ends) else between[first - 1 : last]
    if not all(map(_COMMA_ALONE.fullmatch, touched)):
        return None
    return [Edit((starts[first], ends[last]), "", rule, message, replaced=gap, operation=Operation.DELETE)]


def _unwrapped(file: PythonFile, statement: ast.With | ast.AsyncWith, rule: str, message: str) -> list[Edit] | None:
    """The edit that takes a `with` from around its block, whose lines move to the left; None where its first line has a
    comment, or a string in it would become a docstring."""
    start, first = file.bounds(statement)[0], file.bounds(statement.body[0])[0]
    line = first - len(file.line_before(first))
    if line <= start:  # with a: b()
        return [Edit((start, first), "", rule, message)]
    outer, inner = file.indentation(start), file.indentation(first)
    header = _HEADER_END.search(file.text, file.bounds(statement.items[-1].context_expr)[1], line)
    if header is None or "#" in file.text[start : header.end()]:
        return None
    if _becomes_docstring(file, statement):
        return None
    moves = MovedLines(*_lines_of_block(file, statement, header.end(), inner), inner, outer)
    head = Edit(
        (start, header.start() + len(header[1])),
        "",
        rule,
        message,
        replaced=(start - len(outer), header.end()),
        operation=Operation.DELETE,
        moves=moves,
    )
    return [head]


def _becomes_docstring(file: PythonFile, statement: ast.With | ast.AsyncWith) -> bool:
    """Return whether a string that is the first in a block would be the first of a function, class or module."""
    first = statement.body[0]
    if not isinstance(first, ast.Expr) or string_value(first.value) is None:
        return False
    node: ast.stmt = statement
    while file.block(node)[0] is node:
        above = file.parents[node]
        if isinstance(above, (*FUNCTIONS, ast.ClassDef, ast.Module)):
            return True
        if not isinstance(above, (ast.With, ast.AsyncWith)):
            return False
        node = above
    return False


def _lines_of_block(
    file: PythonFile, statement: ast.With | ast.AsyncWith, start: int, inner: str
) -> tuple[tuple[int, ...], int]:
    """The starts of the lines of a block that can move, from the offset `start` on, and the offset behind the last; the
    comments behind its last statement are of it, and the rest of a string of several lines stays."""
    in_strings = {
        number
        for each in statement.body
        for node in ast.walk(each)
        if isinstance(node, (ast.Constant, ast.JoinedStr))
        for number in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
    }
    lines, last = (*file.lines.starts, len(file.text)), statement.end_lineno or 0
    end, starts = start, []
    for number in range(file.lines.span(start, start).start_line, len(lines)):
        line = file.text[lines[number - 1] : lines[number]]
        if number > last and not (line.startswith(inner) and line.lstrip().startswith("#")):
            break
        if number not in in_strings and line.startswith(inner):
            starts.append(lines[number - 1])
        end = lines[number]
    return tuple(starts), end


def _own_line(file: PythonFile, node: ast.stmt, place: Bounds) -> Bounds | None:
    """The bounds of the whole lines that a statement has for itself; None where it shares them, or is the only one of
    its block."""
    block = file.block(node)
    indentation = file.indentation(place[0])
    end = statement_end(file.text, place[1])
    if len(block) == 1 or file.line_before(place[0]) != indentation:
        return None
    after = block[block.index(node) + 1 :]
    if after and end == place[1]:  # import a; import b
        return None
    return place[0] - len(indentation), end


def without_arguments(
    file: PythonFile, call: ast.Call, bounds: Sequence[Bounds], first: int, last: int
) -> tuple[Bounds, str] | None:
    """The bounds of neighbours among the arguments of a call with the comma that goes with them, and the text there
    instead: the comments that would be lost. None where those have no place.

    `bounds` are those of all arguments. The comma is the one behind, or at the end the one before.
    """
    start, end = bounds[first][0], bounds[last][1]
    before, comma = bounds[first - 1][1] if first else start, _end(_COMMA, file, end)
    is_last = last + 1 == len(bounds)
    is_alone = is_last and not first
    whole = (start, bounds[last + 1][0]) if not is_last else (before, end) if first else (start, comma)
    beside = [at for at in comments(file, call) if not any(low <= at < high for low, high in bounds)]
    if is_alone and not beside:
        return _between_brackets(file, call, whole), ""
    reach = whole[0], max(whole[1], _end(_REST_OF_LINE, file, end))
    if not is_alone and not any(reach[0] <= at < reach[1] for at in beside):
        return whole, ""
    behind = file.text[end : file.bounds(call)[1] - 1 if is_last else bounds[last + 1][0]]
    parted = comma == end and "," in _COMMENT.sub("", behind)  # a comment stands before the comma
    rest = _REST_OF_LINE.match(file.text, end)
    indentation = file.indentation(start)
    if rest is not None and rest.end() >= comma and not parted and file.line_before(start) == indentation:
        retained = [_COMMENT.match(file.text, at) for at in beside if start <= at < rest.end()]
        text = "".join(f"{indentation}{each[0]}{file.newline}" for each in retained if each is not None)
        return (start - len(indentation), rest.end()), text
    if any(start <= at < end for at in beside):
        return None
    if first and not any(before <= at < start for at in beside):
        return (before, end), ""
    return None if parted else ((start, comma), "")


def _end(pattern: re.Pattern[str], file: PythonFile, offset: int) -> int:
    found = pattern.match(file.text, offset)
    return found.end() if found is not None else offset


def _between_brackets(file: PythonFile, call: ast.Call, place: Bounds) -> Bounds:
    """The place of all arguments with the white space up to the brackets of the call, but no more than the lines that
    they have for themselves."""
    end = file.bounds(call)[1] - 1
    start = len(file.text[: place[0]].rstrip())
    if not any(mark in file.text[start : place[0]] + file.text[place[1] : end] for mark in "\r\n"):
        return start, end
    indentation, rest = file.indentation(place[0]), _REST_OF_LINE.match(file.text, place[1])
    if rest is None or file.line_before(place[0]) != indentation:
        return place
    return place[0] - len(indentation), rest.end()
