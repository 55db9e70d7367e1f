"""docs/emulator-coverage.md adds up from its own rows, and the pages of made-up outcomes say what they should."""

from pathlib import Path

import pytest

from tools.emulator_coverage.outcome import Outcome, read, save
from tools.emulator_coverage.report import TITLES, document, parse, totals

PAGE = Path(__file__).parents[3] / "docs" / "emulator-coverage.md"


def outcome(name, suite="op_db", mode="normal", passed=True, reason="", borrowed=(), **flags):
    """An outcome in float32."""
    return Outcome(
        *(suite, mode, "float32", name, passed, reason, 1, 1),
        random=flags.get("random", False),
        by_wider=flags.get("by_wider", False),
        borrowed=borrowed,
        seconds=0.5,
    )


def check_page(text):
    """Assert that the totals and the failures of a page are those of its rows."""
    tables = parse(text)
    failures = tables["Failures"]
    for suite, mode, dtype, *numbers in tables["Totals"]:
        own = text.split(f"## {TITLES[suite]}")[1].splitlines()
        heads = next(line for line in own if line.startswith("| entry"))
        column = [head.strip() for head in heads.strip("|").split("|")].index(f"{mode} {dtype}")
        cells = [row[column] for row in tables[TITLES[suite]]]
        assert numbers == [str(each) for each in totals(cells)]
        listed = [row for row in failures if row[:3] == [suite, mode, dtype]]
        assert len(listed) == int(numbers[4]) + int(numbers[5])
        assert all(row[4] for row in listed)


def test_the_page_adds_up():
    text = PAGE.read_text(encoding="utf-8")
    check_page(text)
    assert {row[0] for row in parse(text)["Totals"]} == set(TITLES)


# Of the entries that can be compared, in percent.
PROMISED = {
    ("op_db", "normal", "float32"): 99,
    ("op_db", "strict", "float32"): 95,
    ("op_db", "strict", "float16"): 95,
    ("op_db", "strict", "bfloat16"): 95,
    ("module_db", "normal", "float32"): 98,
    ("optim_db", "normal", "float32"): 93,  # all but SparseAdam: the NPU's product of sparse tensors drops zeros
}


def test_the_page_has_the_numbers_that_the_emulator_promises():
    rows = {tuple(row[:3]): row for row in parse(PAGE.read_text(encoding="utf-8"))["Totals"]}
    assert set(rows) == set(PROMISED)
    for column, promised in PROMISED.items():
        assert float(rows[column][10].split()[0]) >= promised, column


MADE_UP = [
    outcome("add"),
    outcome("rand", random=True),
    outcome("sum", by_wider=True),
    outcome("lu", borrowed=("aten::linalg_lu",)),
    outcome("a|b", passed=False, reason="sample 0: <lambda> 1 | 2"),
    outcome("jiterator", passed=False, reason="nothing to compare: the CPU refuses every sample"),
    outcome("add", mode="strict"),
    outcome("nn.Linear", suite="module_db"),
]


def test_a_page_of_made_up_outcomes_adds_up():
    text = document(MADE_UP, steps=5)
    check_page(text)
    tables = parse(text)
    assert tables["Totals"][0] == ["op_db", "normal", "float32", "6", "4", "1", "1", "1", "1", "66.67 %", "80.00 %"]
    assert tables["Borrowed operators"] == [["`aten::linalg_lu`", "`lu`"]]
    assert ["op_db", "normal", "float32", "`a|b`", "sample 0: &lt;lambda> 1 | 2"] in tables["Failures"]


def test_a_changed_total_is_noticed():
    text = document(MADE_UP, steps=5).replace("| 66.67 % |", "| 99.99 % |")
    with pytest.raises(AssertionError):
        check_page(text)


def test_outcomes_survive_the_file(tmp_path):
    save(MADE_UP, tmp_path / "made" / "up.json")
    assert read(tmp_path / "made" / "up.json") == MADE_UP
