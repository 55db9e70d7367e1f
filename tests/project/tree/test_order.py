"""The order in which files are worked on."""

from __future__ import annotations

from gpu2npu.project.tree.order import imports_first


def test_a_file_stands_behind_what_it_imports() -> None:
    sources = {
        "a.py": b"from p.one import x\n",
        "p/__init__.py": b"from . import (two,\n    other)\n",
        "p/one.py": b"import os\nimport p\nfrom .two import y as x\n",
        "p/two.py": b"y = 1\n",
    }
    order = imports_first(sources)
    assert order == ["p/two.py", "p/__init__.py", "p/one.py", "a.py"]


def test_every_file_is_there_once_whatever_imports_what() -> None:
    sources = {"b.py": b"import a\n", "a.py": b"import b\nimport a\nfrom .. import b\n", "c.py": b"\xff import"}
    assert sorted(imports_first(sources)) == sorted(sources)


def test_other_files_come_first_and_the_large_ones_before_the_small() -> None:
    sources = {"a.py": b"", "x.sh": b"1", "run.sh": b"12"}
    assert imports_first(sources) == ["run.sh", "x.sh", "a.py"]
