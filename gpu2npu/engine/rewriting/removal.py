"""Statements and arguments that are taken out."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from gpu2npu.python.text.concrete import comments
from gpu2npu.python.text.tokens import statement_end
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.records import Bounds, Edit, Operation

_COMMA = re.compile(r"[ \t]*,|")
_REST_OF_LINE = re.compile(r"[ \t]*,?[ \t]*(?:#[^\r\n]*)?(?:\r\n?|\n)")
_COMMENT = re.compile(r"#[^\r\n]*")


def removal(file: PythonFile, node: ast.stmt, rule: str, message: str) -> Edit:
    """The edit that takes a statement out with its line; where the block would be empty, `pass` stands in for it."""
    place = file.bounds(node)
    line = _own_line(file, node, place)
    if line is None:
        return Edit(place, "pass", rule, message)
    whole = place[0], line[0] + len(file.text[line[0] : line[1]].rstrip())  # a comment goes with it
    return Edit(whole, "", rule, message, replaced=line, operation=Operation.DELETE)


def _own_line(file: PythonFile, node: ast.stmt, place: Bounds) -> Bounds | None:
    """The bounds of the whole lines that a statement has for itself; None where it shares them, or is the only one of
    its block."""
    block = file.block(node)
    indentation = file.indentation(place[0])
    end = statement_end(file.text, place[1])
    if len(block) == 1 or file.line_before(place[0]) != indentation:
        return None
    after = block[block.index(node) + 1 :]
    if after and file.bounds(after[0])[0] < end:  # import a; import b
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
    rest = _REST_OF_LINE.match(file.text, end)
    indentation = file.indentation(start)
    if rest is not None and file.line_before(start) == indentation:
        retained = [_COMMENT.match(file.text, at) for at in beside if start <= at < rest.end()]
        text = "".join(f"{indentation}{each[0]}{file.newline}" for each in retained if each is not None)
        return (start - len(indentation), rest.end()), text
    if any(start <= at < end for at in beside):
        return None
    return ((before, end) if first and not any(before <= at < start for at in beside) else (start, comma)), ""


def _end(pattern: re.Pattern[str], file: PythonFile, offset: int) -> int:
    found = pattern.match(file.text, offset)
    return found.end() if found is not None else offset


def _between_brackets(file: PythonFile, call: ast.Call, place: Bounds) -> Bounds:
    """The place of all arguments with the white space up to the brackets of the call, but no more than the lines that
    they have for themselves."""
    end = file.bounds(call)[1] - 1
    start = len(file.text[: place[0]].rstrip())
    if file.text[place[1] : end].strip():
        return place
    if not any(mark in file.text[start : place[0]] + file.text[place[1] : end] for mark in "\r\n"):
        return start, end
    indentation, rest = file.indentation(place[0]), _REST_OF_LINE.match(file.text, place[1])
    if rest is None or file.line_before(place[0]) != indentation:
        return place
    return place[0] - len(indentation), rest.end()
