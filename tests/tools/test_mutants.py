"""The faults that `make mutants` puts into the code: each is a program, and another one; and which of them survive."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.mutants import faults
from tools.mutants.faults import Mutant
from tools.mutants.judgement import Judge
from tools.mutants.schemata import CONDITION, with_all

SOURCE = """\
def least(values, bound=1):  # < is not code
    if not values or bound == 2:
        return True
    return min(values) < bound - 1 < (3)
"""
CHANGED = [
    "bound=2", "if values or", "values and bound", "bound != 2", "bound == 3", "return False", "return None",
    "min(values) <= bound", "bound + 1", "bound - 2", "(4)", "if (not (not values or bound == 2)):",
]  # fmt: skip


def mutants_of(source: str, folder: Path) -> list[Mutant]:
    (folder / "source.py").write_text(source)
    return faults.sample(folder, ["."], 1000, 1)


def test_annotations_have_no_faults(tmp_path: Path) -> None:
    source = "from __future__ import annotations\n\n\ndef f(a: int | None, *b: A | B) -> C | D:\n    x: E | F = a\n"
    assert not mutants_of(source, tmp_path)


def test_each_mutant_is_another_program(tmp_path: Path) -> None:
    drawn = mutants_of(SOURCE, tmp_path)
    texts = [faults.mutated(mutant, SOURCE.encode()).decode() for mutant in drawn]
    assert all(any(change in text for text in texts) for change in CHANGED), texts
    assert len(set(texts)) == len(texts) and SOURCE not in texts
    assert faults.sample(tmp_path, ["."], 3, 1) == drawn[:3] != faults.sample(tmp_path, ["."], 3, 2)


class _Chosen(ast.NodeTransformer):
    """Takes the mutant with a number out of a file that has all of them."""

    def __init__(self, number: int) -> None:
        self.number = number

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if not (isinstance(node.test, ast.Call) and ast.unparse(node.test.func) == CONDITION):
            return self.generic_visit(node)
        is_active = ast.literal_eval(node.test.args[0]) == self.number
        return self.visit(node.body if is_active else node.orelse)  # type: ignore[no-any-return]


AWKWARD = '''"""Documentation."""

from __future__ import annotations

def f(a, b, c, *d, e=1 < 2):
    x = a and b == c or not a
    if a & b & c and (y := a + 1) and not (b) < (c):
        return a, *d
    while (a  # a comment
           + 1) < b <= -1:
        b = d[a + 1, 1:] + [z for z in d if z > 1]
    match a:
        case 1 | -2:
            return lambda: (yield)
    return f"{a + 1:{b - 1}} {'x' if not a else 1.5!r}" in c
'''


def test_all_at_once_are_the_same_as_one_at_a_time(tmp_path: Path) -> None:
    drawn = mutants_of(AWKWARD, tmp_path)
    text, found = with_all(AWKWARD.encode(), dict(enumerate(drawn)))
    assert {drawn[number].before.strip() for number in set(range(len(drawn))) - found} <= {
        "1",
        "2",
        "+",
        "-",
        "a",
        "not",
    }
    assert len(found) > 30
    for number in {*found, -1}:
        tree = _Chosen(number).visit(ast.parse(text))
        del tree.body[2]  # the import of the condition
        expected = faults.mutated(drawn[number], AWKWARD.encode()) if number >= 0 else AWKWARD.encode()
        assert ast.dump(tree) == ast.dump(ast.parse(expected)), drawn[number]


TOY = {
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n',
    "toy/__init__.py": "",
    "toy/sums.py": (
        "LIMIT = 4\nUNUSED = 6\n\ndef add(a, b):\n    return a + b\n\n"
        "def log(a):\n    return a * 1\n\ndef child():\n    return 10 - 3\n"
    ),
    "tests/test_sums.py": (
        "import subprocess, sys\nfrom toy import sums\n\n"
        "def test_add():\n    assert sums.add(1, 1) == 2\n    sums.log(1)\n\n"
        "def test_limit():\n    assert sums.LIMIT == 4\n\n"
        "def test_child():\n    code = 'from toy import sums; raise SystemExit(sums.child())'\n"
        "    assert subprocess.run([sys.executable, '-c', code]).returncode == 7\n\n"
        "def test_fails_anyway():\n    assert sums.add(1, 1) == sums.log(3)\n"
    ),
}


@pytest.mark.long
def test_those_survive_that_no_test_finds(tmp_path: Path) -> None:
    for name, text in TOY.items():
        (tmp_path / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / name).write_text(text)
    drawn = dict(enumerate(faults.sample(tmp_path / "work", ["toy"], 100, 1)))
    verdicts = dict(Judge(tmp_path / "work", tmp_path / "copies", drawn, 2).verdicts(["tests"], drawn, 60))
    lines = TOY["toy/sums.py"].splitlines()
    survivors = {
        (lines[drawn[number].line - 1].strip(), drawn[number].after.strip()) for number in verdicts if verdicts[number]
    }
    assert verdicts.keys() == drawn.keys()
    # By line: nothing asks for UNUSED and log, and only a test that fails anyway for what log computes.
    assert {line for line, _ in survivors} == {"UNUSED = 6", "return a * 1"}
