"""A file whose triggers are all in docstrings and comments is not parsed, and nothing else is taken for prose."""

from __future__ import annotations

import ast

import pytest

from gpu2npu.engine.prose import without_prose

PROSE = [
    '"""cuda"""\n',
    "x = 1  \n# cuda\n    # cuda\n",
    'class A:\n    """On\n    cuda."""\n    def f(self):\n        "cuda"\n',
    'EXAMPLE = """\n>>> x.cuda()\n"""\n',
    'if a:\n    try: ...\n    finally:\n        """cuda\n        """\nelse:\n    for x in y:\n        "cuda"\n',
    '"显卡"; "cuda"\n',
    '"""a\r\ncuda"""\r\n# cuda\r\n',
    "match x:\n    case 1:\n        'cuda'\n",
]


@pytest.mark.parametrize("text", PROSE)
def test_prose_is_left_out(text: str) -> None:
    assert b"cuda" not in without_prose(text, ast.parse(text))


CODE = [
    "x = 'cuda'\n",
    "def f():\n    return 'cuda'\n",
    '"""doc"""; x.cuda()\n',
    '"显卡"; "doc"; x.cuda()\n',
    '"""a\nb"""; x.cuda()\n',
    'x.cuda(); """a\nb"""\n',
    '"""a\nb"""; x.cuda(); """c\nd"""\n',
    'f(f"""\n# {torch.cuda.x}\n""")\n',
    "f(f'\\\n# {torch.cuda.x}')\n",
    'x = f"""\n{torch.cuda.x}\n"""\n',
    "x = ('a'\n  f'{torch.cuda.x}')\n",
    "x = y  # cuda\n",
]


@pytest.mark.parametrize("text", CODE)
def test_code_stays(text: str) -> None:
    assert b"cuda" in without_prose(text, ast.parse(text))


def test_a_string_of_several_lines_that_a_rule_is_for_stays() -> None:
    text = 'A = """\nPut it on cuda."""\nB = """\nrun --device cuda\n"""\nC = ("cuda"\n     ":0")\n'
    code = without_prose(text, ast.parse(text), lambda value: "--device" in value)
    assert code == b'A = \n\nB = """\nrun --device cuda\n"""\nC = ("cuda"\n     ":0")\n'
