"""Explanations of lines: what rules did there, and the true reason of each that did nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu2npu.engine import scan_project
from gpu2npu.kinds.argument import ArgumentMatch
from gpu2npu.kinds.call import CallMatch
from gpu2npu.kinds.environment import EnvironmentMatch
from gpu2npu.kinds.import_ import ImportMatch
from gpu2npu.kinds.name import NameMatch
from gpu2npu.kinds.pattern import PatternMatch
from gpu2npu.project.explain import Explanation, explain_line
from gpu2npu.rulebook import Rulebook, load_rulebook
from gpu2npu.rulebook.match import Match
from gpu2npu.rulebook.rule import Rule, Then, Where

BUILTIN = load_rulebook()


def rule(match: Match, then: Then | None = None, **limits: object) -> Rule:
    return Rule("mine", "So.", match, then or Then(rename="new"), (), builtin=False, **limits)  # type: ignore[arg-type]


def explain(code: str, *rules: Rule, line: int = 0, path: str = "a.py", version: str = "2.1.0") -> Explanation:
    """Explain the last line of some code, or another."""
    source = code.encode()
    book = Rulebook((*rules, *BUILTIN.rules), BUILTIN.roles)
    context = scan_project({path: source}, book, version, {path: source}.__getitem__)
    number = line or len(code.splitlines())
    return explain_line(source, path, number, book, context)


def reason(found: Explanation, rule_id: str) -> str:
    return {rule.id: text for rule, text in found.others}[rule_id]


def test_what_was_done() -> None:
    found = explain("import torch\nx = torch.cuda.current_device()")
    assert [(change.rule, change.after) for change in found.changes] == [("torch-cuda", "torch.npu.current_device")]
    assert found.text == "x = torch.cuda.current_device()"
    found = explain("mode = foo('cuda')")
    assert [finding.rule for finding in found.findings] == ["device-string"]


def test_a_line_without_any_word() -> None:
    found = explain("x = 1")
    assert (found.changes, found.findings, found.others) == ((), (), ())


@pytest.mark.parametrize(
    ("code", "rule_id", "expected"),
    [
        ("class Kit:\n    def cuda(self): ...\nKit().cuda()", "cuda-method", "a class of this project that defines"),
        ("import kit\nkit.cuda()", "cuda-method", "`kit`, which was imported"),
        ("args.cuda", "cuda-method", "`args.cuda` is not a call of a method"),
        ("cuda = 1", "cuda-method", "`cuda` is not a call of a method"),
        ("import mytorch as torch\ntorch.cuda.f()", "torch-cuda", "`torch.cuda` means `mytorch.cuda` here"),
        ("def f(torch):\n    torch.cuda.f()", "torch-cuda", "`torch.cuda` is nothing that an import"),
        ("x = 1  # torch.cuda", "torch-cuda", "only in text here"),
        ("print('cuda')", "device-string", "cannot mean a device"),
        ("x.is_cuda = 1", "is-cuda", "is not read from a tensor here"),
        ("x.is_cuda()", "is-cuda", "is called"),
        ("import bitsandbytes\nfrom bitsandbytes.optim import Adam8bit", "package-bitsandbytes", "first imported"),
        ("x.cuda()  # gpu2npu: skip", "cuda-method", "a comment switches it off for this line"),
        ("x.cuda()  # gpu2npu: skip=cuda-method", "cuda-method", "a comment switches it off for this line"),
        ("# gpu2npu: skip\nx.cuda()", "cuda-method", "switches it off for the whole file"),
    ],
)
def test_why_a_built_in_rule_did_nothing(code: str, rule_id: str, expected: str) -> None:
    found = explain(code)
    assert rule_id not in {change.rule for change in found.changes}
    assert expected in reason(found, rule_id)


@pytest.mark.parametrize(
    ("own", "code", "expected"),
    [
        (rule(NameMatch("lib.f"), since="2.3.0"), "import lib\nlib.f()", "for PyTorch 2.1.0, the rule is not: For"),
        (rule(NameMatch("lib.f"), where=Where(frozenset({"src/*"}))), "import lib\nlib.f()", "path fits `src/*`"),
        (rule(NameMatch("lib.f"), where=Where(frozenset(), frozenset({"x"}))), "import lib\nlib.f()", "import `x`"),
        (rule(CallMatch("lib.f")), "import lib\ng(lib.f)", "`lib.f` is not called here"),
        (rule(CallMatch("lib.f")), "import other\nother.f()", "`other.f` is another name than the rule's"),
        (rule(ArgumentMatch("at", "lib.f")), "import lib\nlib.f(1)", "this call has no such argument"),
        (rule(ImportMatch("lib.part")), "from other import part", "another module is imported here"),
        (rule(EnvironmentMatch("LIB_*")), "x = 1  # LIB_HOME", "no string on this line"),
        (rule(PatternMatch("cu[0-9]+")), "x = 1  # cu118", "no string on this line"),
    ],
)
def test_why_a_users_rule_did_nothing(own: Rule, code: str, expected: str) -> None:
    found = explain(code, own)
    assert not found.changes
    assert expected in reason(found, "mine")


def test_a_rule_that_another_comes_before() -> None:
    found = explain(
        "import torch\ntorch.cuda.synchronize()", rule(NameMatch("torch.cuda.synchronize"), Then(rename="a.b"))
    )
    assert [change.rule for change in found.changes] == ["mine"]
    assert reason(found, "torch-cuda") == "the place is handled by mine, which comes first"


def test_rules_for_imports_are_not_spoken_of_where_nothing_is_imported() -> None:
    assert not {rule.id for rule, _ in explain("x.cuda()").others if isinstance(rule.match, ImportMatch)}


def test_a_file_that_cannot_be_parsed() -> None:
    found = explain("x.cuda(\n", line=1)
    assert found.failure is not None and "syntax error" in found.failure


def test_a_shell_script() -> None:
    found = explain("export CUDA_VISIBLE_DEVICES=0\necho cuda", path="run.sh", line=1)
    assert [change.rule for change in found.changes] == ["env-cuda-visible-devices"]


@pytest.mark.parametrize(("source", "line"), [(b"x\n", 3), (b"x", 0), (b"\xff\xfe\x00\x01", 1)])
def test_no_such_line_or_no_text(source: bytes, line: int, tmp_path: Path) -> None:
    context = scan_project({}, BUILTIN, "2.1.0")
    with pytest.raises(ValueError, match=r"it has|it is not text"):
        explain_line(source, "a.py", line, BUILTIN, context)


NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": ["use cuda"]},
            {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["import torch\n", "!nvidia-smi"]},
            {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["x = 1\n", "torch.cuda.synchronize()"]},
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
)


def explain_cell(cell: int, line: int) -> Explanation:
    return explain_line(NOTEBOOK.encode(), "a.ipynb", line, BUILTIN, scan_project({}, BUILTIN, "2.1.0"), cell)


def test_a_line_of_a_notebook_is_one_of_its_cells() -> None:
    shell = explain_cell(2, 2)
    assert shell.text == "!nvidia-smi"
    assert [change.rule for change in shell.changes] == ["command-nvidia-smi"]
    code = explain_cell(3, 2)
    assert code.text == "torch.cuda.synchronize()"
    assert [change.after for change in code.changes] == ["torch.npu.synchronize"]
    assert "`torch.cuda`" in reason(code, "torch-version-cuda")  # known from the import in another cell
    assert not explain_cell(3, 1).changes


@pytest.mark.parametrize(("cell", "line", "expected"), [(0, 2, "cell_4"), (1, 1, "no code cell 1"), (3, 9, "2 lines")])
def test_no_such_cell(cell: int, line: int, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        explain_cell(cell, line)


def test_rules_for_python_alone_are_not_spoken_of_in_other_files() -> None:
    found = explain("FROM nvidia/cuda:12.1.1\n", path="Dockerfile", line=1)
    assert [finding.rule for finding in found.findings] == ["image-nvidia"]
    others = {rule.id for rule, _ in found.others}
    assert "device-string" in others and not others & {"cuda-method", "torch-cuda"}
