"""The facts about a project that rules ask for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu2npu.engine import scan_project
from gpu2npu.engine.context import may_have_plugin, may_use_device
from gpu2npu.rulebook import Rulebook, load_rulebook


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
def test_the_modules_that_a_rule_requires_of_a_project(tmp_path: Path, source: str, imported: set[str]) -> None:
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


def test_nothing_is_known_of_the_imports_of_no_file(rulebook: Rulebook) -> None:
    assert scan_project({}, rulebook, "2.1.0").imported is None
    assert scan_project({"a.py": b"x = 1\n"}, rulebook, "2.1.0").imported == frozenset()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, True),
        ({"a.py": b"x = 1\n", "b.py": b"x.to(device)\n"}, True),
        ({"a.py": b"x = 1\n", "b.py": b"print('no device')\n"}, False),
    ],
)
def test_a_project_may_use_a_device_by_its_files(files: dict[str, bytes], expected: bool) -> None:
    assert may_use_device(files, None) is expected


def test_the_code_of_a_project_may_be_in_a_notebook(tmp_path: Path) -> None:
    files = {"a.py": b"x = 1\n"}
    assert not may_use_device(files, tmp_path)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.ipynb").write_text("{}", encoding="utf-8")
    assert may_use_device(files, tmp_path)


@pytest.mark.parametrize(
    ("source", "version", "expected"),
    [
        (b"x = 1\n", "2.1.0", False),
        (b"x = 1\n", "2.7.1", True),
        (b"x.cuda()\n", "2.1.0", True),
        (b"import torch_npu\n", "2.1.0", True),
        (None, "2.1.0", True),
    ],
)
def test_a_project_may_have_the_plugin_by_its_files_or_by_its_release(
    source: bytes | None, version: str, expected: bool
) -> None:
    files = {"a.py": b"y = 1\n", "b.py": source} if source is not None else {}
    assert may_have_plugin(files, version) is expected


def test_the_files_that_may_define_a_member_are_those_with_the_method_or_the_word(rulebook: Rulebook) -> None:
    files = {
        "call.py": b"x.cuda()\nx.is_cuda\n",
        "method.py": b"class A:\n    def \\\n    cuda(self): ...\n",
        "other.py": b"class A:\n    def cudas(self): ...\n    def is_cudas(self): ...\n",
    }
    members = scan_project(files, rulebook, "2.1.0").project_members
    assert members["cuda"] == {"method.py"}
    assert members["is_cuda"] == {"call.py"}


def test_a_file_has_another_name_where_it_is_a_word_of_it(rulebook: Rulebook) -> None:
    context = scan_project({"a.py": b"from a import graph as ours\n"}, rulebook, "2.1.0")
    assert context.has_other_name(b"f(ours)\n")
    assert not context.has_other_name(b"f(ours_too)\n")
    assert not scan_project({}, rulebook, "2.1.0").has_other_name(b"f(ours)\n")
