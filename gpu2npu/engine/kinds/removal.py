"""Statements that are taken out with their lines."""

from __future__ import annotations

import ast

from gpu2npu.python.text.tokens import statement_end
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.records import Bounds, Edit, Operation


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
