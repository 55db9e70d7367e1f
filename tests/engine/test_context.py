"""The facts about a project that rules ask for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu2npu.engine import scan_project
from gpu2npu.rulebook import load_rulebook


@pytest.mark.parametrize(
    ("source", "imported"),
    [
        ("import house.gpu\n", {"house", "house.gpu"}),
        ("import house.gpu.tools as tools\n", {"house", "house.gpu"}),
        ("from house.gpu import x\n", {"house", "house.gpu"}),
        ("from house import gpu\n", {"house", "house.gpu"}),
        ("def f():\n    from house \\\n        import gpu\n", {"house", "house.gpu"}),
        ("import house\n", {"house"}),
        ("from house import gpus\n", {"house"}),
        ("import houses.gpu\n", set()),
        ("import other.house.gpu\n", set()),
        ("# import house.gpu\n", set()),
        ("import house.gpu (\n", set()),
    ],
)
def test_the_modules_that_a_rule_asks_of_a_project(tmp_path: Path, source: str, imported: set[str]) -> None:
    rule = {
        "id": "own",
        "why": "Because.",
        "match": {"call": "*.f"},
        "then": {"rename": "g"},
        "where": {"project": ["house", "house.gpu"]},
        "examples": [{"keep": ""}],
    }
    rules = tmp_path / "own.json"
    rules.write_text(json.dumps({"rules": [rule]}), encoding="utf-8")
    context = scan_project({"a.py": source.encode(), "b.py": b"x = 1\n"}, load_rulebook([rules]), "2.1.0")
    assert context.imported is not None
    assert {each for each in context.imported if each.startswith("house")} == imported
