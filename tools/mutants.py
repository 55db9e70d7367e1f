"""`make mutants`: small faults put into a sample of the code's lines, one at a time, and the tests that have to fail.

    python -m tools.mutants --count 60 --seed 1 gpu2npu/engine

The tests of a package are first run once, in a copy of the repository, to learn which of them execute which line; a
mutant then meets those of its lines, and all of them where a line runs at import or in other processes only. Prints a
line for each mutant, with what was changed, and the share of those that survive in the end.

With `--record FILE` each verdict is written to the file, and mutants whose verdicts are there are not tried again.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("gpu2npu/emulator/kernels", "gpu2npu/engine", "gpu2npu/support")
TESTS = {
    "gpu2npu/emulator/kernels": ("tests/emulator/kernels",),
    "gpu2npu/engine": ("tests/engine", "tests/kinds", "tests/rulebook", "tests/formats", "tests/codemods"),
    "gpu2npu/support": ("tests/support", "tests/analysis"),
}
FEW = ("-n", "0")  # tests of one line: starting workers would take longer than they do
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

    def __str__(self) -> str:
        return f"{self.path}:{self.line} (byte {self.start}): {self.before.strip()!r} -> {self.after.strip()!r}"


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


@dataclass(frozen=True)
class Copy:
    """A copy of the repository, in which the tests run."""

    root: Path
    seconds: float  # after which tests are taken to fail

    def passes(self, tests: Iterable[str], *options: str) -> bool:
        """Run tests, by their folders or names; return whether they pass in time."""
        names = self.root / ".tests"
        names.write_text("\n".join(tests))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", *options]
        environment = {**os.environ, "PYTHONPATH": str(self.root), "COVERAGE_FILE": str(self.root / ".coverage")}
        try:
            done = subprocess.run(
                [*command, f"@{names}"],
                cwd=self.root,
                env=environment,
                capture_output=True,
                timeout=self.seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def coverage(self, folders: Sequence[str]) -> CoverageData:
        """Run the tests of some folders without a mutant; return which of them execute which lines.

        Raises:
            SystemExit: They fail.
        """
        data = CoverageData(basename=str(self.root / ".coverage"))
        data.erase()
        if not self.passes(folders, "-n", "auto", "--cov=gpu2npu", "--cov-context=test", "--cov-report="):
            sys.exit(f"The tests in {' '.join(folders)} fail without a fault: there is nothing to measure.")
        data.read()
        return data

    def is_survived_by(self, mutant: Mutant, covered: CoverageData) -> bool:
        """Put a mutant into the copy and run the tests of its lines, or all of its package."""
        file = self.root / mutant.path
        text = file.read_bytes()
        tests = executing(mutant, text, covered.contexts_by_lineno(str(file)))
        file.write_bytes(mutated(mutant, text))
        try:
            return self.passes(tests, *FEW) if tests else self.passes(tests_of(mutant), "-n", "auto")
        finally:
            file.write_bytes(text)


def executing(mutant: Mutant, text: bytes, contexts: Mapping[int, Iterable[str]]) -> list[str]:
    """Return the names of the tests that execute the statement of a mutant, and none that only import it.

    Args:
        mutant: Of the file.
        text: The content of the file without it.
        contexts: The tests of each line of the file, each with `|` and its phase behind its name.
    """
    lines = range(mutant.line, mutant.line + 1)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= _header_end(node):
            lines = range(node.lineno, _header_end(node) + 1)  # an inner statement comes after the one around it
    names = {context.rpartition("|")[0] for line in lines for context in contexts.get(line, ())}
    return sorted(names - {""})


def _header_end(statement: ast.stmt) -> int:
    """Return the last line of a statement, without its body."""
    body: Sequence[ast.stmt] = getattr(statement, "body", ())
    end = statement.end_lineno or statement.lineno
    return max(statement.lineno, body[0].lineno - 1) if body else end


def recorded(record: Path | None) -> dict[str, bool]:
    """Return the verdicts in a file: whether each mutant survives."""
    if record is None or not record.exists():
        return {}
    return dict(json.loads(line) for line in record.read_text().splitlines())


def main() -> None:
    """Draw the sample, run the tests of each, and print what survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=list(PACKAGES), help="folders to put faults into")
    parser.add_argument("--count", type=int, default=500, help="how many faults to draw (500)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (1)")
    parser.add_argument("--seconds", type=float, default=1800, help="after which tests are taken to fail (1800)")
    parser.add_argument("--record", type=Path, default=None, help="a file of verdicts, to go on after an interruption")
    options = parser.parse_args()
    drawn = sample(options.packages, options.count, options.seed)
    verdicts = recorded(options.record)
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder) / ROOT.name, options.seconds)
        shutil.copytree(ROOT, copy.root, ignore=shutil.ignore_patterns(".*", "__pycache__", "bench-trees", "dist"))
        for tests in sorted({tests_of(mutant) for mutant in drawn if str(mutant) not in verdicts}):
            covered = copy.coverage(tests)
            for mutant in drawn:
                if tests_of(mutant) == tests and str(mutant) not in verdicts:
                    verdicts[str(mutant)] = copy.is_survived_by(mutant, covered)
                    _write(mutant, verdicts[str(mutant)], options.record)
    survivors = sum(verdicts[str(mutant)] for mutant in drawn)
    print(f"{survivors} of {len(drawn)} survived: {100 * survivors / max(1, len(drawn)):.1f} %")


def _write(mutant: Mutant, survives: bool, record: Path | None) -> None:
    print(f"{'SURVIVED' if survives else 'killed'} {mutant}", flush=True)
    if record is not None:
        with record.open("a") as lines:
            lines.write(json.dumps([str(mutant), survives]) + "\n")


if __name__ == "__main__":
    main()
