"""A codemod is one record in its module: what it does follows from its record alone."""

from __future__ import annotations

import ast

import msgspec
import pytest

from gpu2npu.codemods import CodemodChoice, CodemodError, plan_codemods
from gpu2npu.codemods.choice import DEFAULT_CHOICE, Codemod, Option
from gpu2npu.codemods.places import by_file, replaced
from gpu2npu.engine import ProjectContext
from tools import codemods

SOURCES = {"a.py": b"x = 1\n", "b.py": b"import numpy as np\n\ny = np.float128(2)\n", "c.py": b"z = 3\n"}


def every_number(program, choice):
    """Replaces each number that the files have, with those of the option."""
    steps = [
        replaced(file, node, str(choice.options.get("numbers", 7)), "A number.")
        for file in program.parsed(sorted(program.sources))
        for node in file.nodes(ast.Constant)
    ]
    return by_file(steps) if choice.options.get("numbers") != "absent" else None


@pytest.fixture
def planned(monkeypatch):
    def plan(record, choice=DEFAULT_CHOICE):
        for module in ("project_plan", "part_plan"):
            monkeypatch.setattr(f"gpu2npu.codemods.{module}.CODEMODS", (record,))
        monkeypatch.setattr("gpu2npu.codemods.part_plan.imported", lambda function: every_number)
        return sorted(plan_codemods(SOURCES, ProjectContext(files=frozenset(SOURCES)), choice).rewrites)

    return plan


def test_a_codemod_that_says_nothing_of_its_files_may_change_all(planned):
    assert planned(Codemod("numbers", "x:y")) == ["a.py", "b.py", "c.py"]


def test_names_say_which_files_a_codemod_may_change(planned):
    assert planned(Codemod("numbers", "x:y", names=frozenset({"numpy.float128"}))) == ["b.py"]


def test_a_codemod_whose_rule_is_skipped_changes_nothing(planned):
    assert planned(Codemod("numbers", "x:y", rule="numbers"), CodemodChoice(skipped=frozenset({"numbers"}))) == []


def test_an_option_requests_a_codemod(planned):
    record = Codemod("numbers", "x:y", Option(("--numbers",), "Numbers."))
    assert planned(record) == []
    assert planned(record, CodemodChoice(options={"numbers": 8})) == ["a.py", "b.py", "c.py"]


def test_what_no_part_has_is_the_error_of_the_record(planned):
    record = Codemod("numbers", "x:y", Option(("--numbers",), "Numbers."), missing="No number is '{given}'.")
    with pytest.raises(CodemodError, match="No number is 'absent'"):
        planned(record, CodemodChoice(options={"numbers": "absent"}))


def test_the_records_are_those_of_the_modules():
    """Mended by `make docs`."""
    assert codemods.RECORDS.read_bytes() == codemods.collected()


def test_a_new_module_is_all_that_a_codemod_is(tmp_path, monkeypatch):
    (tmp_path / "numbers.py").write_text(
        "from gpu2npu.codemods.choice import Codemod, Option\n\n"
        'CODEMOD = Codemod("numbers", option=Option(("--numbers",), "Numbers."))\n'
    )
    monkeypatch.setattr(codemods, "_FOLDER", tmp_path)
    monkeypatch.setattr("gpu2npu.codemods.__path__", [str(tmp_path)])
    (record,) = msgspec.json.decode(codemods.collected(), type=tuple[Codemod, ...])
    assert (record.name, record.plan, record.option.flags) == ("numbers", "numbers:numbers", ("--numbers",))
