"""Rules for the members of a class of a library: uses and overriding definitions, across files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu2npu.engine import scan_project
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.records import FindingKind
from gpu2npu.rulebook import load_rulebook
from tests.kinds.conftest import text_of

HOLDER = "class K:\n    def __init__(self):\n        self.t = lib.Trainer()\n    def f(self):\n"
OWN = "import lib\nclass U:\n    def to_gpu(self): ...\n"
RULE = {"id": "to", "match": {"member": "lib.Trainer.to_gpu"}, "then": {"rename": "to_npu"}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("t = lib.Trainer()\nt.to_gpu(1)\n", "t = lib.Trainer()\nt.to_npu(1)\n"),
        ("lib.Trainer(a).to_gpu()\n", "lib.Trainer(a).to_npu()\n"),
        ("def f(t: lib.Trainer):\n    g(t.to_gpu)\n", "def f(t: lib.Trainer):\n    g(t.to_npu)\n"),
        ("from lib import Trainer as T\nT.to_gpu(t)\n", "from lib import Trainer as T\nT.to_npu(t)\n"),
        ("class A(lib.Trainer):\n    def go(self):\n        self.to_gpu()\n",
         "class A(lib.Trainer):\n    def go(self):\n        self.to_npu()\n"),
        ("class A(lib.Trainer):\n    to_gpu = other\n", "class A(lib.Trainer):\n    to_npu = other\n"),
        ("class A(lib.Trainer): ...\nclass B(A):\n    async def to_gpu(self): ...\nB().to_gpu()\n",
         "class A(lib.Trainer): ...\nclass B(A):\n    async def to_npu(self): ...\nB().to_npu()\n"),
        (f"{HOLDER}        self.t.to_gpu()\n", f"{HOLDER}        self.t.to_npu()\n"),
        ("with lib.Trainer() as t:\n    t.to_gpu().x\n", "with lib.Trainer() as t:\n    t.to_npu().x\n"),
    ],
)  # fmt: skip
def test_uses_and_definitions_are_renamed_together(migrate_with, before: str, after: str) -> None:
    result = migrate_with([RULE], f"import lib\n{before}")
    assert text_of(result, f"import lib\n{before}") == f"import lib\n{after}"
    assert not result.findings


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("import lib\nx = lib.Loader()\nx.to_gpu()\n", 0),
        ("import lib\nclass A:\n    def to_gpu(self): ...\nA().to_gpu()\n", 0),
        ("def f(x):\n    x.to_gpu()\n", 0),
        (f"{OWN}class A(U, lib.Trainer):\n    def go(self): self.to_gpu()\n", 1),
        (f"{OWN}class A(U, lib.Trainer):\n    def go(self): super().to_gpu()\n", 1),
        ("import lib\nt = lib.Trainer()\nt = make()\nt.to_gpu()\n", 1),
        (f"{OWN}for t in [U(), lib.Trainer()]: t.to_gpu()\n", 1),
        ("import lib\ndef f(x):\n    x.to_gpu()\n", 1),
    ],
)
def test_members_of_other_objects_stay(migrate_with, text: str, reported: int) -> None:
    result = migrate_with([RULE], text)
    assert text_of(result, text) == text
    assert [found.kind for found in result.findings] == [FindingKind.REVIEW] * reported


@pytest.mark.parametrize(
    ("line", "reported"),
    [("# a Trainer", 0), ('"""Trainer"""', 0), ("from lib import Trainer", 1), ("lib.Trainer", 1), ("a: 'Trainer'", 1)],
)
def test_a_member_that_dictionaries_have_too_is_reported_where_the_code_names_the_class(
    migrate_with, line: str, reported: int
) -> None:
    rule = {"id": "update", "match": {"member": "lib.Trainer.update"}, "then": {"rename": "refresh"}}
    assert len(migrate_with([rule], f"import lib\n{line}\nread().update(x)\n").findings) == reported


def test_classes_are_followed_through_files(migrate_with, tmp_path: Path) -> None:
    migrate_with([RULE], "")
    files = {
        "base.py": b"from lib import Trainer\n\n\nclass Base(Trainer):\n    def to_gpu(self): ...\n",
        "main.py": b"from base import Base\n\n\nclass Ours(Base):\n    pass\n\n\nOurs().to_gpu()\n",
    }
    rulebook = load_rulebook([tmp_path / "own.json"])
    context = scan_project(files, rulebook, "2.1.0", files.__getitem__)
    for path, data in files.items():
        assert migrate_file(data, path, rulebook, context).content == data.replace(b"to_gpu", b"to_npu")


@pytest.mark.parametrize(
    ("line", "edited", "reported"),
    [
        ("getattr(lib.Trainer(), 'to_gpu')()", True, 0),
        ("class A(lib.Trainer): ...\nhasattr(A(), 'to_gpu')", True, 0),
        ("mock.patch.object(lib.Trainer, 'to_gpu')", True, 0),
        ("mock.patch('lib.Trainer.to_gpu')", True, 0),
        ("mock.patch('lib.Loader.to_gpu')", False, 0),
        ("setattr(x, 'to_gpu', None)", False, 1),
        ("getattr(lib.Loader(), 'to_gpu')", False, 0),
        ("print('to_gpu')", False, 0),
    ],
)
def test_names_in_strings_are_renamed_too(migrate_with, line: str, edited: bool, reported: int) -> None:
    text = f"import lib\nfrom unittest import mock\n{line}\n"
    result = migrate_with([RULE], text)
    assert text_of(result, text) == (text.replace("to_gpu", "to_npu") if edited else text)
    assert len(result.findings) == reported
