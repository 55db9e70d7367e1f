"""Code that may be what a pattern means is reported, with what is not known of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu2npu.engine import scan_project
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.rulebook import load_rulebook
from tests.kinds.conftest import text_of

NORM = {
    "id": "norm",
    "match": {"code": "lib.norm($X, eps=$E, ...)", "signature": ["x", "eps"]},
    "then": {"replace": "lib.npu_norm($X, epsilon=$E, ...)"},
}
ROWS = {"id": "rows", "match": {"code": "lib.rows($T)", "types": {"T": "tensor"}}, "then": {"replace": "lib.take($T)"}}
SIZE = {"id": "size", "match": {"code": "$P.size", "types": {"P": "lib.Pool"}}, "then": {"replace": "$P.volume()"}}


def findings(result) -> list[str]:
    return [found.message for found in result.findings if found.rule != ""]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("lib.norm(x, **kw)", "which arguments `**kw` gives"),
        ("lib.norm(*xs, eps=1)", "which arguments `*xs` gives"),
        ("functools.partial(lib.norm, eps=1)", "it is not called here"),
        ("map(lib.norm, xs)", "it is not called here"),
        ("table = {'norm': lib.norm}", "it is not called here"),
        ("def f(x, norm=lib.norm): ...", "it is not called here"),
        ("def f(x, norm=None):\n    norm = norm or lib.norm", "it is not called here"),
        ("lambda x, *, norm=lib.norm: norm(x)", "it is not called here"),
        ("net.norm = lib.norm", "it is not called here"),
        ("lib.norm(x)", ""),
        ("lib.norm(x, out=y)", ""),
        ("isinstance(x, lib.norm)", ""),
        ("f = lib.norm", ""),
        ("assert callable(lib.norm)", ""),
        ("ok = f is lib.norm or f in (g, lib.norm)", ""),
    ],
)
def test_what_may_be_a_call_is_reported(migrate_with, line: str, reason: str) -> None:
    text = f"import lib, functools\n{line}\n"
    result = migrate_with([NORM], text)
    assert text_of(result, text) == text
    assert [reason in each for each in findings(result)] == [True] * bool(reason)


def test_a_function_for_which_another_rule_is_is_not_reported(migrate_with) -> None:
    name = {"id": "name", "match": {"name": "lib.norm"}, "then": {"rename": "lib.npu_norm"}}
    text = "import lib\nmap(lib.norm, xs)\n"
    result = migrate_with([NORM, name], text)
    assert text_of(result, text) == text.replace("norm", "npu_norm")
    assert not result.findings


@pytest.mark.parametrize(
    ("function", "edited", "reported"),
    [
        ("def f(x: Tensor): lib.rows(x)", True, 0),
        ("def f(x: Tensor | None): lib.rows(x)", False, 1),
        ("def f(x: Tensor = None): lib.rows(x)", False, 1),
        ("def f(x: 'Optional[Tensor]'): lib.rows(x)", False, 1),
        ("def f(x: Tensor | None):\n    if x is not None:\n        lib.rows(x)", True, 0),
        ("def f(x: Tensor | None):\n    if x is None:\n        return\n    lib.rows(x)", True, 0),
        ("def f(x: Tensor | None):\n    if x is None:\n        x = ones(1)\n    lib.rows(x)", True, 0),
        ("def f(x: Tensor | None):\n    if x is None:\n        print()\n    lib.rows(x)", False, 1),
        ("def f(x): lib.rows(x)", False, 1),
        ("def f(x: list): lib.rows(x)", False, 0),
    ],
)
def test_a_tensor_that_may_be_none_is_reported(migrate_with, function: str, edited: bool, reported: int) -> None:
    text = f"import lib\nfrom torch import Tensor, ones\n{function}\n"
    result = migrate_with([ROWS], text)
    assert text_of(result, text) == (text.replace("lib.rows", "lib.take") if edited else text)
    assert len(findings(result)) == reported


@pytest.mark.parametrize(
    ("text", "edited", "reported"),
    [
        ("class K:\n    def __init__(self, p: lib.Pool):\n        self.p = p\n    def f(self): self.p.size", 1, 0),
        ("class K:\n    p: lib.Pool\n    def f(self): return self.p.size", 1, 0),
        ("class K:\n    p: lib.Pool\nK().p.size", 1, 0),
        ("class K:\n    def __init__(self, p):\n        self.p: lib.Pool = p\n    def f(self): self.p.size", 1, 0),
        ("class K:\n    def __init__(self, p: lib.Pool):\n        self.p = p\n        self.p = other()\n"
         "    def f(self): return self.p.size", 0, 1),
        ("for p in [lib.Pool(), lib.Pool()]:\n    p.size", 1, 0),
        ("for p in [lib.Pool(), other()]:\n    p.size", 0, 1),
        ("def f(p): return p.size", 0, 1),
        ("def f(p): return p.size()", 0, 0),
        ("import torch\ndef f(p):\n    p = torch.ones(2)\n    return p.size", 0, 0),
        ("def f(p: lib.Other): return p.size", 0, 0),
    ],
)  # fmt: skip
def test_an_object_of_which_nothing_is_known_is_reported(migrate_with, text: str, edited: int, reported: int) -> None:
    text = f"import lib\n{text}\n"
    result = migrate_with([SIZE], text)
    assert text_of(result, text) == (text.replace(".size", ".volume()") if edited else text)
    assert len(findings(result)) == reported


def test_a_library_in_the_project_has_its_classes_there(migrate_with, tmp_path: Path) -> None:
    rule = {"id": "to", "match": {"member": "lib.Base.to_gpu"}, "then": {"rename": "to_npu"}}
    migrate_with([SIZE, rule], "")
    files = {
        "lib/__init__.py": b"from lib.pool import Base, Pool\n",
        "lib/pool.py": b"class Pool: ...\nclass Big(Pool): ...\nclass Base:\n    def to_gpu(self): ...\n"
        b"def make() -> Pool: ...\n",
        "main.py": b"from lib.pool import Base, Big, make\nfrom pools import POOL\nBig().size\nmake().size\nPOOL.size\n"
        b"class Ours(Base):\n    def to_gpu(self): ...\n",
        "pools.py": b"from lib import Pool\nPOOL = Pool()\n",
    }
    rulebook = load_rulebook([tmp_path / "own.json"])
    context = scan_project(files, rulebook, "2.1.0", files.__getitem__)
    for path in ("lib/pool.py", "main.py"):
        expected = files[path].replace(b"to_gpu", b"to_npu").replace(b".size", b".volume()")
        assert migrate_file(files[path], path, rulebook, context).content == expected


def test_the_sentence_has_the_article_of_the_class(migrate_with) -> None:
    rule = {**SIZE, "match": {"code": "$P.size", "types": {"P": "ours.Pool"}}}
    result = migrate_with([rule], "import ours\ndef f(p): return p.size\n")
    assert ["`p` is not known to be an ours.Pool." in each for each in findings(result)] == [True]


def test_the_finding_of_a_member_begins_with_the_reason_of_its_rule(migrate_with) -> None:
    rule = {"id": "to", "why": "It moves.", "match": {"member": "lib.Base.to_gpu"}, "then": {"rename": "to_npu"}}
    result = migrate_with([rule], "import lib\ndef f(x): x.to_gpu()\n")
    assert [each.startswith("It moves. This may be lib.Base.to_gpu") for each in findings(result)] == [True]


def test_a_form_that_stays_hides_no_other_where_the_arguments_are_not_known(migrate_with) -> None:
    none = {"id": "none", "match": {"code": "$W.options(cards=0, ...)"}, "then": {"keep": True}}
    some = {
        "id": "some",
        "match": {"code": "$W.options(cards=$N, ...)"},
        "then": {"replace": "$W.options(..., npus=$N)"},
    }
    source = "given = {{'cards': 1}}\nworker.options({})\n"
    for given, expected in (("**given", ["some"]), ("cards=0", []), ("name='a'", [])):
        assert [found.rule for found in migrate_with([none, some], source.format(given)).findings] == expected
