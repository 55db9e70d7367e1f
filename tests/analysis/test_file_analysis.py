import json
import pickle

import pytest

from gpu2npu.analysis.file_analysis import FileAnalyser, Question

BOTH = frozenset(Question)
CODE = "import torch\nopt = torch.optim.AdamW(ps)\n"


def nothing(path: str) -> bytes:
    raise FileNotFoundError(path)


def analyser(questions=BOTH, fix: bool = False) -> FileAnalyser:
    return FileAnalyser("2.1.0", questions, frozenset(), nothing, fix)


def rules(source: bytes, path: str = "a.py", **options) -> list[tuple[str, int, int]]:
    file = analyser(**options)(source, path)
    assert file.failure is None
    return [(told.rule, told.span.cell, told.span.start_line) for told in (*file.findings, *file.advice)]


def notebook(*cells: str) -> bytes:
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps({"nbformat": 4, "cells": [{"cell_type": "markdown", "source": ["torch"]}, *made]}).encode()


def test_the_questions_that_are_asked() -> None:
    assert ("fused-optimizer", 0, 2) in rules(CODE.encode())
    assert not rules(CODE.encode(), questions=frozenset({Question.TORCH_APIS}))


def test_a_worker_can_have_it() -> None:
    sent = pickle.loads(pickle.dumps(analyser()))
    assert sent(CODE.encode(), "a.py") == analyser()(CODE.encode(), "a.py")


def test_notebooks_are_told_of_by_cell() -> None:
    source = notebook("import torch\n%matplotlib inline\n", "!pip install x", "x = 1\nopt = torch.optim.AdamW(ps)\n")
    assert rules(source, "n.ipynb") == [("fused-optimizer", 4, 2)]


@pytest.mark.parametrize(
    ("source", "path", "said"),
    [
        (b"import torch\nx = (\n", "a.py", "syntax error"),
        (b'{"torch": 1}', "a.ipynb", "no notebook"),
        (b"torch \xff", "a.ipynb", "not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_the_failure_of_the_file(source: bytes, path: str, said: str) -> None:
    file = analyser()(source, path)
    assert file.failure is not None and said in file.failure and not file.findings and not file.advice


@pytest.mark.parametrize(
    "text",
    [
        f"# gpu2npu: skip\n{CODE}",
        f"# gpu2npu: skip=fused-optimizer\n{CODE}",
        "import torch\nopt = torch.optim.AdamW(ps)  # gpu2npu: skip=fused-optimizer\n",
        "import torch\n# gpu2npu: skip\nopt = torch.optim.AdamW(ps)\n",
    ],
)
def test_skip_comments(text: str) -> None:
    assert rules(text.encode()) == []


def test_fixes_keep_encoding_and_line_ends() -> None:
    source = "# coding: latin-1\r\nimport torch\r\nx = torch.rand(3)  # é\r\nx[x < 0] = 0\r\n".encode("latin-1")
    file = analyser(fix=True)(source, "a.py")
    assert file.content == source.replace(b"x[x < 0] = 0", b"x.masked_fill_(x < 0, 0)")
    assert analyser()(source, "a.py").content is None


def test_only_files_that_speak_of_torch_are_looked_at() -> None:
    assert analyser().concerns(b"import torch", "a.py") and analyser().concerns(b"torch", "a.ipynb")
    assert not analyser().concerns(b"import os", "a.py") and not analyser().concerns(b"torch", "a.yaml")
