import ast
from textwrap import dedent

import pytest

from gpu2npu.python.text.blocks import (
    begins_line,
    indent_step,
    line_below,
    line_statement,
    lines_of,
    same_line,
    start_of,
)
from gpu2npu.python.text.source import read_source
from gpu2npu.python.tree.file import PythonFile, read_file
from gpu2npu.python.tree.syntax import last_name


def read(text: str) -> PythonFile:
    return read_file(read_source(dedent(text).encode(), "main.py"))


def call(file: PythonFile, name: str) -> ast.Call:
    return next(node for node in ast.walk(file.tree) if isinstance(node, ast.Call) and last_name(node.func) == name)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("f(1)\n", "f(1)"),
        ("a = 1; b = f(1)\n", "a = 1"),
        ("if x:\n    y = (1,\n         f(1))\n", "y = (1,\n         f(1))"),
        ("if x: f(1)\n", None),
        ("if x:\n    pass\nelif f(1):\n    pass\n", "if x:\n    pass\nelif f(1):\n    pass"),
        ("if x:\n    pass\nelse:\n    if f(1):\n        pass\n", "if f(1):\n        pass"),
        ("try:\n    pass\nexcept E:\n    f(1)\n", "f(1)"),
        ("match x:\n    case 1:\n        f(1)\n", "f(1)"),
    ],
)
def test_the_statement_on_lines_of_its_own(text, first):
    file = read(text)
    found = line_statement(file, call(file, "f"))
    assert (None if found is None else file.code(found)) == first


@pytest.mark.parametrize(
    ("text", "above"),
    [
        ("f(1)\nend\n", "f(1)\n"),
        ("f(1)  # why\nend\n", "f(1)  # why\n"),
        ("f(1); g(2)\nend\n", "f(1); g(2)\n"),
        ("f(1)", "f(1)"),
        ("if f(1):\n    x\n    # of the block\n\n# not of it\nend\n", "if f(1):\n    x\n    # of the block\n"),
        ("if f(1):\n    x\n\n    # of the block\nend\n", "if f(1):\n    x\n\n    # of the block\n"),
        ("try:\n    f(1)\nexcept E:\n    x\n    # of it\nend\n", "try:\n    f(1)\nexcept E:\n    x\n    # of it\n"),
        ("if f(1): x\n    # odd\nend\n", "if f(1): x\n"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_line_below_a_statement(text, above, newline):
    file = read(text.replace("\n", newline))
    assert file.text[: line_below(file, file.tree.body[0])] == above.replace("\n", newline)


def test_a_decorated_function_starts_with_its_first_decorator():
    file = read("x = 1\n@ a.b(\n    1)\n@c\ndef f(): ...\n")
    assert start_of(file, file.tree.body[1]) == len("x = 1\n")


def test_the_lines_of_statements():
    file = read("if x:\n    a; b\n    if c:\n        d\n        # e\n    f\n")
    first, second, third, last = file.tree.body[0].body
    lines = [lines_of(file, each) for each in ((first, second), (first,), (second,), (third,), (third, last))]
    assert [file.text[start:end] for start, end in lines] == [
        "    a; b\n",
        "    a",
        "b\n",
        "    if c:\n        d\n        # e\n",
        "    if c:\n        d\n        # e\n    f\n",
    ]


def test_statements_of_one_line():
    file = read("a; b; c\nd\n")
    assert [file.code(statement) for statement in same_line(file, file.tree.body[1])] == ["a", "b", "c"]
    assert [begins_line(file, statement) for statement in file.tree.body] == [True, False, False, True]


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("x = 1\n", "    "),
        ("if x: y\nelse:\n  z\n", "  "),
        ("class A:\n\tdef f(self):\n\t\treturn 1\n", "\t"),
        ("@d\ndef f():\n   return 1\n", "   "),
        ("try: x\nexcept E: y\nwhile z:\n  t\n", "  "),
    ],
)
def test_the_step_of_indentation(text, step):
    assert indent_step(read(text)) == step
