"""Bases, decorators and statements that rules add or take out."""

from __future__ import annotations

import pytest

from gpu2npu.python.text.writing import Written
from gpu2npu.records import FindingKind
from tests.kinds.conftest import text_of

BASE = ({"class": "lib.Model"}, {"add": {"base": "lib.npu.Mixin"}})
UNBASE = ({"class": "lib.GpuMixin"}, {"remove": True})
WRAP = ({"class": "lib.Model"}, {"add": {"decorator": "lib.npu_compile(level=2)"}})
MARK = ({"decorator": "lib.graph"}, {"add": {"decorator": "lib.npu_only"}})
UNDECORATE = ({"decorator": "lib.graph"}, {"remove": True})
BEFORE = ({"code": "lib.start(...)"}, {"add": {"statement": "lib.npu.warm()"}})
AFTER = ({"code": "lib.start(...)"}, {"add": {"statement": "lib.npu.warm()", "place": "after"}})
FIRST = ({"code": "lib.start(...)"}, {"add": {"statement": "lib.npu.warm()", "place": "function"}})
ENCLOSING = ({"code": "lib.start(...)"}, {"add": {"statement": "lib.npu.scope()", "place": "around"}})


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (BASE, "class A(lib.Model): ...\n", "class A(lib.npu.Mixin, lib.Model): ...\n"),
        (BASE, "class A(B, lib.Model, m=1): ...\n", "class A(lib.npu.Mixin, B, lib.Model, m=1): ...\n"),
        (BASE, "class A(lib.npu.Mixin, lib.Model): ...\n", None),
        (BASE, "class A(other.Model): ...\n", None),
        (UNBASE, "class A(lib.GpuMixin): ...\n", "class A: ...\n"),
        (UNBASE, "class A(lib.GpuMixin, B): ...\n", "class A(B): ...\n"),
        (UNBASE, "class A(B, lib.GpuMixin, m=1): ...\n", "class A(B, m=1): ...\n"),
        (UNBASE, "class A(B, lib.GpuMixin): ...\n", "class A(B): ...\n"),
        (WRAP, "@other\nclass A(lib.Model): ...\n", "@lib.npu_compile(level=2)\n@other\nclass A(lib.Model): ...\n"),
        (WRAP, "if x:\n    class A(lib.Model): ...\n",
         "if x:\n    @lib.npu_compile(level=2)\n    class A(lib.Model): ...\n"),
        (WRAP, "@lib.npu_compile\nclass A(lib.Model): ...\n", None),
        (MARK, "@lib.graph(1)\n@lib.graph(2)\ndef f(): ...\n",
         "@lib.npu_only\n@lib.graph(1)\n@lib.graph(2)\ndef f(): ...\n"),
        (UNDECORATE, "@a\n@lib.graph(n=2)\nasync def f(): ...\n", "@a\nasync def f(): ...\n"),
        (UNDECORATE, "@(lib.graph)\ndef f(): ...\n", "def f(): ...\n"),
        (UNDECORATE, "@a\n@(\n    (lib.graph)(n=2)\n)\n# stays\ndef f(): ...\n", "@a\n# stays\ndef f(): ...\n"),
        (UNDECORATE, "class A:\n    @lib.graph\n    def f(self): ...\n", "class A:\n    def f(self): ...\n"),
        (BEFORE, "def f():\n    x = 1\n    lib.start(2)\n",
         "def f():\n    x = 1\n    lib.npu.warm()\n    lib.start(2)\n"),
        (BEFORE, "lib.npu.warm()\nlib.start(2)\n", None),
        (AFTER, "def f():\n    x = lib.start(2)  # go\n    y()\n",
         "def f():\n    x = lib.start(2)  # go\n    lib.npu.warm()\n    y()\n"),
        (AFTER, "lib.start(2)", "lib.start(2)\nlib.npu.warm()"),
        (AFTER, "lib.start(2); y()\n", "lib.start(2)\nlib.npu.warm()\ny()\n"),
        (FIRST, 'def f():\n    """It."""\n    x = 1\n    if x:\n        lib.start(2)\n',
         'def f():\n    """It."""\n    lib.npu.warm()\n    x = 1\n    if x:\n        lib.start(2)\n'),
        (ENCLOSING, "def f():\n    lib.start(2)\n", "def f():\n    with lib.npu.scope():\n        lib.start(2)\n"),
        (ENCLOSING, "with lib.npu.scope():\n    lib.start(2)\n", None),
        (ENCLOSING, "with lib.npu.scope():\n    lib.start(2); y()\n", None),
        (ENCLOSING, "lib.start(2)", "with lib.npu.scope():\n    lib.start(2)"),
    ],
)  # fmt: skip
def test_what_is_added_and_removed(migrate_with, rule: tuple, before: str, after: str | None) -> None:
    head = "import lib\nimport other\nlib.go()\n"
    result = migrate_with([{"id": "r", "match": rule[0], "then": rule[1]}], head + before)
    assert text_of(result, head + before) == head + (before if after is None else after)


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (UNBASE, "from lib import GpuMixin, B\nclass A(B, GpuMixin): ...\n", "from lib import B\nclass A(B): ...\n"),
        (UNBASE, "import lib\nclass A(lib.GpuMixin): ...\n", "class A: ...\n"),
        (UNDECORATE, "from lib import graph\n@graph\ndef f(): ...\n", "def f(): ...\n"),
        (
            UNDECORATE,
            "from lib import graph\n@graph\ndef f(): ...\ng = graph\n",
            "from lib import graph\ndef f(): ...\ng = graph\n",
        ),
        (
            UNDECORATE,
            "from lib import graph\n@graph\ndef f(): ...\n__all__ = ['graph']\n",
            "from lib import graph\ndef f(): ...\n__all__ = ['graph']\n",
        ),
    ],
)
def test_an_import_that_nothing_uses_any_more_goes(migrate_with, rule: tuple, before: str, after: str) -> None:
    result = migrate_with([{"id": "r", "match": rule[0], "then": rule[1]}], before)
    assert text_of(result, before) == after
    assert not result.findings


@pytest.mark.parametrize(
    ("rule", "text", "reason"),
    [
        (BEFORE, "if x: lib.start(2)\n", "no line of its own"),
        (ENCLOSING, "if lib.start(2):\n    pass\n", "no line of its own"),
        (ENCLOSING, "lib.start(2); y()\n", "no line of its own"),
        (AFTER, "for x in lib.start(2):\n    pass\n", "no line of its own"),
        (WRAP, "@(  # me@home\n    other)\nclass A(lib.Model): ...\n", "does not begin a line"),
        (UNDECORATE, "@lib.graph(hook=register())\ndef f(): ...\n", "would no longer run"),
        (UNDECORATE, "@lib.graph(\n    warmup=1,  # once\n)\ndef f(): ...\n", "a comment would be lost"),
        (UNDECORATE, "@lib.graph(3)  # why\ndef f(): ...\n", "a comment would be lost"),
        (UNDECORATE, "@(  # why\n    lib.graph)\ndef f(): ...\n", "a comment would be lost"),
    ],
)
def test_what_has_no_place_is_reported(migrate_with, rule: tuple, text: str, reason: str) -> None:
    result = migrate_with([{"id": "r", "match": rule[0], "then": rule[1]}], f"import lib\n{text}")
    assert result.content is None
    assert [(each.kind, reason in each.message) for each in result.findings] == [(FindingKind.REVIEW, True)]


def test_a_decorator_is_added_above_the_first_line_of_a_file(migrate_with) -> None:
    before = "@final\nclass A(lib.Model): ...\n\n\nimport lib\nfrom typing import final\n"
    result = migrate_with([{"id": "r", "match": WRAP[0], "then": WRAP[1]}], before)
    assert text_of(result, before) == "@lib.npu_compile(level=2)\n" + before


def test_names_are_spelled_as_the_file_has_them(migrate_with) -> None:
    before = "from lib import Model\n\n\nclass A(Model): ...\n"
    after = "from lib import Model\nimport lib.npu\n\n\nclass A(lib.npu.Mixin, Model): ...\n"
    result = migrate_with([{"id": "r", "match": BASE[0], "then": BASE[1]}], before)
    assert text_of(result, before) == after


def test_what_is_added_is_in_the_list_of_changes(migrate_with) -> None:
    rules = [{"id": f"r{n}", "match": match, "then": then} for n, (match, then) in enumerate((MARK, BEFORE))]
    result = migrate_with(rules, "import lib\nimport lib.npu\n\n\n@lib.graph\ndef f():\n    lib.start()\n")
    assert [(change.rule, change.after) for change in result.changes] == [
        ("r0", "@lib.npu_only"),
        ("r1", "lib.npu.warm()"),
    ]


def test_a_result_that_is_not_python_is_a_failure(migrate_with, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Written, "text", "f(")
    result = migrate_with(
        [{"id": "r", "match": UNDECORATE[0], "then": UNDECORATE[1]}], "import lib\n@(lib.graph)\ndef f(): ...\n"
    )
    assert result.content is None
    assert "the result would not be Python, syntax error at line 1" in (result.failure or "")
