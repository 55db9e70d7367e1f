"""The faults that are put into the code, and the sample of them that is drawn."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

SWAPS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
    ast.FloorDiv: "*", ast.Mod: "*", ast.And: "or", ast.Or: "and", ast.BitAnd: "|", ast.BitOr: "&",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A piece of a file, by byte offsets in it, and what is there instead."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} (byte {self.start}): {self.before.strip()!r} -> {self.after.strip()!r}"


def mutants(root: Path, path: Path) -> Iterator[Mutant]:
    """All mutants of a file in a repository."""
    text = path.read_bytes()
    starts = line_starts(text)
    for node in _executed(ast.parse(text)):
        for left, right, after in _pieces(node):
            start = starts[left[0] - 1] + left[1]
            end = starts[right[0] - 1] + right[1]
            before = text[start:end].decode()
            if "#" not in before and before != after:
                yield Mutant(str(path.relative_to(root)), left[0], start, end, before, after)


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree but annotations, which no program here reads."""
    yield tree
    for name, value in ast.iter_fields(tree):
        if name not in ("annotation", "returns"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _executed(child)


def line_starts(text: bytes) -> list[int]:
    """The offset of each line, and that of the end."""
    starts = [0]
    for row in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    return starts


Position = tuple[int, int]


def _pieces(node: ast.AST) -> Iterator[tuple[Position, Position, str]]:
    """The beginning and end of what a node is changed in, and the text that replaces it."""
    if isinstance(node, ast.Compare):
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            yield from _operator(left, operator, right)
    elif isinstance(node, ast.BinOp):
        yield from _operator(node.left, node.op, node.right)
    elif isinstance(node, ast.BoolOp):
        yield from _operator(node.values[0], node.op, node.values[1])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _begin(node), _begin(node.operand), ""
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield _begin(node.test), _end(node.test), f"(not ({ast.unparse(node.test)}))"
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        changed = not node.value if isinstance(node.value, bool) else node.value + 1
        yield _begin(node), _end(node), repr(changed)
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield _begin(node.value), _end(node.value), "None"


def _operator(left: ast.expr, operator: ast.AST, right: ast.expr) -> Iterator[tuple[Position, Position, str]]:
    """The text between two operands, where it is the operator alone: no parenthesis of one of them."""
    swapped = SWAPS.get(type(operator))
    if swapped is not None:
        yield _end(left), _begin(right), f" {swapped} "


def _begin(node: ast.expr | ast.stmt) -> Position:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> Position:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def is_program(mutant: Mutant, text: bytes) -> bool:
    """Return whether a file with a mutant still parses, and is another program."""
    try:
        changed = ast.parse(mutated(mutant, text))
    except SyntaxError:
        return False
    return ast.dump(changed) != ast.dump(ast.parse(text))


def mutated(mutant: Mutant, text: bytes) -> bytes:
    """The content of a file with a mutant in it."""
    return text[: mutant.start] + mutant.after.encode() + text[mutant.end :]


def sample(root: Path, packages: Iterable[str], count: int, seed: int) -> list[Mutant]:
    """Draw mutants from all of these packages of a repository, each as likely as another."""
    files = sorted(file for package in packages for file in (root / package).rglob("*.py"))
    found = [mutant for file in files for mutant in mutants(root, file)]
    random.Random(seed).shuffle(found)
    programs = (mutant for mutant in found if is_program(mutant, (root / mutant.path).read_bytes()))
    return list(islice(programs, count))
