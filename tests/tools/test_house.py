"""The rules of the house: each violation is found, and good code has none."""

import json
from pathlib import Path

import pytest

from tools import house


def found(package: Path, text: str, name: str = "module.py") -> list[str]:
    (package / name).write_text(text, encoding="utf-8")
    return [violation.removeprefix(f"{package}/") for violation in house.violations(package)]


@pytest.mark.parametrize(
    ("text", "violation"),
    [
        ("def tell_user(): ...\n", "module.py:1: 'tell_user': write report for 'tell'"),
        ("class FileManager: ...\n", "module.py:1: 'FileManager': write what it does for 'Manager'"),
        ("def f(wish): ...\n", "module.py:1: 'wish': write request, choice, settings for 'wish'"),
        ("x = 1\ntold = 2\n", "module.py:2: 'told': write reported for 'told'"),
        ("def f(keys_beside): ...\n", "module.py:1: 'keys_beside': write sibling, anchor, or what it is for 'beside'"),
        (
            'def f():\n    """Whether it is so."""\n',
            "module.py:1: a docstring begins with a verb or a noun phrase, not with 'Whether'",
        ),
        (
            'def f():\n    """Tell whether it is so."""\n',
            "module.py:1: 'Tell' in prose: write report",
        ),
        (
            'def f():\n    """Those that are left."""\n',
            "module.py:1: a docstring begins with a verb or a noun phrase, not with 'Those'",
        ),
        (
            'def f():\n    """The one value."""\n',
            "module.py:1: a docstring begins with a verb or a noun phrase, not with 'The one'",
        ),
        (
            'class A:\n    """A value.\n\n    It is no\n    number.\n    """\n',
            "module.py:1: 'is no number' in prose: write is not a, or are not",
        ),
        ("\n" * 401, "module.py:401: a module here has at most 400 lines"),
    ],
)
def test_a_violation_is_found(tmp_path: Path, text: str, violation: str) -> None:
    assert found(tmp_path, text) == [violation]


def test_a_module_of_a_poor_name_is_found(tmp_path: Path) -> None:
    assert found(tmp_path, "", "utils.py") == ["utils.py:1: 'utils': write what is in it for 'utils'"]


def test_two_classes_of_one_name_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Place: ...\nclass Event: ...\nclass _Own: ...\n")
    (tmp_path / "b.py").write_text("class Event: ...\nclass _Own: ...\nclass Place: ...\n")
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    expected = f"{second}:3: another class 'Place' is in {first}; a name has one meaning"
    assert list(house.violations(tmp_path)) == [expected]


def test_a_full_folder_is_found(tmp_path: Path) -> None:
    for number in range(23):
        (tmp_path / f"m{number}.py").touch()
    assert list(house.violations(tmp_path)) == [
        f"{tmp_path}:1: 23 modules; a folder has at most 22: make packages of them"
    ]


def test_poor_names_beside_the_package_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ("benchmarks", "browser", "clients", "tests", "tools")
    for folder in folders:
        (tmp_path / folder / "inner").mkdir(parents=True)
        (tmp_path / folder / "inner" / "module.py").write_text("def test_told(): ...\n", encoding="utf-8")
    monkeypatch.setattr(house, "ROOT", tmp_path)
    assert house.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/{folder}/inner/module.py:1: 'test_told': write reported for 'told'" for folder in folders
    ]


def test_good_code_has_none(tmp_path: Path) -> None:
    assert found(tmp_path, '"""Files of a tree."""\n\n\ndef stolen(untold_story):\n    """Return it."""\n') == []


PAGE = """# Files that nobody told us

Output:

```text
no file was told
```

`tell` is a name, there
  is no file here, and it is no longer empty. A file is no
  module, and it has pages of which there is none.
"""


def test_poor_expressions_of_a_page_are_found_outside_of_its_code() -> None:
    assert sorted(house.prose(PAGE)) == [
        (1, "'told' in prose: write reported"),
        (11, "'is no module' in prose: write is not a, or are not"),
        (11, "'of which there is none' in prose: write which has no, or that is not known"),
    ]


def test_a_package_that_grows_beyond_its_budget_is_found(tmp_path: Path) -> None:
    package, budget = tmp_path / "gpu2npu", tmp_path / "budget.json"
    (package / "emulator").mkdir(parents=True)
    (package / "emulator" / "a.py").write_text("x = 1\n" * 5, encoding="utf-8")
    (package / "b.py").write_text("x = 1\n" * 3, encoding="utf-8")
    most = {"migrator lines": 3, "migrator modules": 1, "package lines": 8, "package modules": 2}
    budget.write_text(json.dumps(most), encoding="utf-8")
    assert list(house.grown(package, budget)) == []
    (package / "b.py").write_text("x = 1\n" * 4, encoding="utf-8")
    assert [line.partition(": ")[2].partition(",")[0] for line in house.grown(package, budget)] == [
        "4 migrator lines",
        "9 package lines",
    ]
