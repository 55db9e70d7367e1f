"""The faults that `make mutants` puts into the code: each is a program, and another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import mutants

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


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    file = tmp_path / "source.py"
    file.write_text(SOURCE)
    return file


def test_each_mutant_is_another_program(source: Path) -> None:
    drawn = mutants.sample(["."], 100, 1)
    texts = [mutants.mutated(mutant, source.read_bytes()).decode() for mutant in drawn]
    assert all(any(change in text for text in texts) for change in CHANGED), texts
    assert len(set(texts)) == len(texts) and SOURCE not in texts
    assert mutants.sample(["."], 3, 1) == drawn[:3] != mutants.sample(["."], 3, 2)


def test_a_mutant_meets_the_tests_of_its_statement(source: Path) -> None:
    contexts = {1: [""], 2: ["t.py::a|run", "t.py::b[|]|setup"], 3: ["t.py::a|run"], 4: ["t.py::c|run"], 5: ["x|run"]}
    drawn = {mutant.after.strip(): mutant for mutant in mutants.sample(["."], 100, 1)}
    text = source.read_bytes()
    assert mutants.executing(drawn["and"], text, contexts) == ["t.py::a", "t.py::b[|]"]
    assert mutants.executing(drawn["False"], text, contexts) == ["t.py::a"]
    assert mutants.executing(drawn["None"], text, contexts) == ["t.py::c"]
    bound = next(mutant for mutant in drawn.values() if (mutant.line, mutant.before) == (1, "1"))
    assert mutants.executing(bound, text, contexts) == []  # its line runs when the file is imported
