"""All mutants of a file at once: each expression becomes `((WRONG) if is_active(NUMBER) else (RIGHT))`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tools.mutants.faults import Mutant, line_starts, mutated

CONDITION = "_is_active_mutant_"
IMPORT = f"from active_mutants import is_active as {CONDITION}\n".encode()


@dataclass(frozen=True)
class Choice:
    """An expression, by byte offsets in its file, and what it is where a mutant is active."""

    number: int
    start: int
    end: int
    wrong: bytes

    def written(self, right: bytes) -> bytes:
        """The expression that is the one or the other."""
        return b"((%b) if %b(%d) else (%b))" % (self.wrong, CONDITION.encode(), self.number, right)


def with_all(text: bytes, mutants: Mapping[int, Mutant]) -> tuple[bytes, set[int]]:
    """Put mutants of one file into it; return the file, and the numbers of those that are in it.

    The others are in no expression that can be replaced: in a pattern of `match`, or the braces of an f-string.
    """
    tree = ast.parse(text)
    found = (choice(text, tree, number, mutant) for number, mutant in mutants.items())
    choices = [each for each in found if each is not None and _parses(_spliced(text, [each]))]
    start = _after_future_imports(tree, text)
    changed = _spliced(text[start:], [Choice(c.number, c.start - start, c.end - start, c.wrong) for c in choices])
    return text[:start] + IMPORT + changed, {each.number for each in choices}


def choice(text: bytes, tree: ast.Module, number: int, mutant: Mutant) -> Choice | None:
    """Find the smallest expression around a mutant that can be in parentheses, with the mutant and without."""
    right, wrong = ast.dump(tree), ast.dump(ast.parse(mutated(mutant, text)))
    for start, end in _enclosing_expressions(text, tree, mutant):
        inside = text[start : mutant.start] + mutant.after.encode() + text[mutant.end : end]
        before, after = text[:start] + b"(", b")" + text[end:]
        if _is(before + text[start:end] + after, right) and _is(before + inside + after, wrong):
            return Choice(number, start, end, inside)
    return None


def _enclosing_expressions(text: bytes, tree: ast.Module, mutant: Mutant) -> list[tuple[int, int]]:
    """The offsets of the expressions that hold a mutant, the smallest first."""
    starts = line_starts(text)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and node.end_lineno is not None and node.end_col_offset is not None:
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            if start <= mutant.start and mutant.end <= end:
                found.add((start, end))
    return sorted(found, key=lambda span: span[1] - span[0])


def _spliced(text: bytes, choices: Iterable[Choice]) -> bytes:
    """A text with choices in it; expressions are apart, or one is in the other."""
    pieces, position = [], 0
    rest = sorted(choices, key=lambda each: (each.start, -each.end))
    while rest:
        first = rest.pop(0)
        within = [each for each in rest if each.start < first.end]
        rest = rest[len(within) :]
        moved = [Choice(each.number, each.start - first.start, each.end - first.start, each.wrong) for each in within]
        pieces += [text[position : first.start], first.written(_spliced(text[first.start : first.end], moved))]
        position = first.end
    return b"".join([*pieces, text[position:]])


def _after_future_imports(tree: ast.Module, text: bytes) -> int:
    """The offset of the line behind the docstring and the imports that have to be first."""
    line = 0
    for number, statement in enumerate(tree.body):
        is_docstring = number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_docstring and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        line = statement.end_lineno or line
    return line_starts(text)[line]


def _is(text: bytes, program: str) -> bool:
    return _parses(text) and ast.dump(ast.parse(text)) == program


def _parses(text: bytes) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
