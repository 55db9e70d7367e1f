"""`make mutants`: small faults put into a sample of the code's lines, one at a time, and the tests that have to fail.

    python -m tools.mutants --count 60 --seed 1 gpu2npu/engine

The tests of a package with the same name run, and those that TESTS adds, in a copy of the repository. Prints a line
for each mutant that survives, with what was changed, and the share of those in the end.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("gpu2npu/emulator/kernels", "gpu2npu/engine", "gpu2npu/support")
TESTS = {
    "gpu2npu/emulator/kernels": ("tests/emulator/kernels",),
    "gpu2npu/engine": ("tests/engine", "tests/kinds", "tests/rulebook", "tests/formats", "tests/codemods"),
    "gpu2npu/support": ("tests/support", "tests/analysis"),
}
SWAPS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
    ast.FloorDiv: "*", ast.Mod: "*", ast.And: "or", ast.Or: "and", ast.BitAnd: "|", ast.BitOr: "&",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A piece of a file, by byte offsets in it, and what stands there instead."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str


def mutants(path: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    text = path.read_bytes()
    starts = [0]
    for row in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    for node in ast.walk(ast.parse(text)):
        for left, right, after in _pieces(node):
            start = starts[left[0] - 1] + left[1]
            end = starts[right[0] - 1] + right[1]
            before = text[start:end].decode()
            if "#" not in before and before != after:
                yield Mutant(str(path.relative_to(ROOT)), left[0], start, end, before, after)


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


def sample(packages: list[str], count: int, seed: int) -> list[Mutant]:
    """Draw mutants from all of these packages, each as likely as another."""
    files = sorted(file for package in packages for file in (ROOT / package).rglob("*.py"))
    found = [mutant for file in files for mutant in mutants(file)]
    random.Random(seed).shuffle(found)
    programs = (mutant for mutant in found if is_program(mutant, (ROOT / mutant.path).read_bytes()))
    return list(islice(programs, count))


def tests_of(mutant: Mutant) -> tuple[str, ...]:
    """The folders whose tests have to find a mutant."""
    return next(tests for package, tests in TESTS.items() if mutant.path.startswith(package))


def pass_in(copy: Path, tests: tuple[str, ...], seconds: float) -> bool:
    """Run tests in a copy of the repository; those that take longer are taken to fail."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def survives(mutant: Mutant, copy: Path, seconds: float) -> bool:
    """Run the tests of a mutant with it in a copy of the repository."""
    file = copy / mutant.path
    text = file.read_bytes()
    file.write_bytes(mutated(mutant, text))
    try:
        return pass_in(copy, tests_of(mutant), seconds)
    finally:
        file.write_bytes(text)


def main() -> None:
    """Draw the sample, run the tests of each, and print what survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=list(PACKAGES), help="folders to put faults into")
    parser.add_argument("--count", type=int, default=500, help="how many faults to draw (500)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (1)")
    parser.add_argument("--seconds", type=float, default=1800, help="after which tests are taken to fail (1800)")
    options = parser.parse_args()
    drawn = sample(options.packages, options.count, options.seed)
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / ROOT.name
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "bench-trees", "dist"))
        for tests in sorted({tests_of(mutant) for mutant in drawn}):
            if not pass_in(copy, tests, options.seconds):
                sys.exit(f"The tests in {' '.join(tests)} fail without a fault: there is nothing to measure.")
        for number, mutant in enumerate(drawn, 1):
            is_alive = survives(mutant, copy, options.seconds)
            survivors += is_alive
            word = "SURVIVED" if is_alive else "killed"
            change = f"{mutant.before.strip()!r} -> {mutant.after.strip()!r}"
            print(f"{number}/{len(drawn)} {word} {mutant.path}:{mutant.line}: {change}", flush=True)
    print(f"{survivors} of {len(drawn)} survived: {100 * survivors / max(1, len(drawn)):.1f} %")


if __name__ == "__main__":
    main()
