import ast

import pytest

from gpu2npu.python.text.concrete import argument_bounds, has_comment, outer_bounds
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.tree.file import PythonFile, read_file


def read(text: str) -> PythonFile:
    return read_file(SourceFile("a.py", text, "utf-8", b""))


def last_call(file: PythonFile) -> ast.Call:
    return [node for node, _ in file.uses if isinstance(node, ast.Call)][-1]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("f()", []),
        ("f(a, b)", ["a", "b"]),
        ("f(a, k=1, *rest, **more)", ["a", "k=1", "*rest", "**more"]),
        ("f((a), k=(b))", ["(a)", "k=(b)"]),
        ("f(\n    a,  # one, two\n    k = b,\n)", ["a", "k = b"]),
        ("é = f('ü', b)", ["'ü'", "b"]),
        ("if x:\n    y = f(a,\n          b)", ["a", "b"]),
        ("f(x for x in y)", ["x for x in y"]),
        ("f(a)[0].g(b)(c)", None),
    ],
)
def test_arguments_are_cut_out_as_they_are_written(text: str, arguments: list[str] | None) -> None:
    file = read(text + "\n")
    calls = [node for node, _ in file.uses if isinstance(node, ast.Call)]
    for call in calls:
        bounds = argument_bounds(file, call)
        assert bounds is not None
        found = [file.text[start:end] for start, end in bounds]
        if arguments is not None:
            assert found == arguments
        else:
            assert found in (["a"], ["b"], ["c"])


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("x = (f(1))", "(f(1))"),
        ("x = ((f(1)))", "((f(1)))"),
        ("x = f(1)", "f(1)"),
        ("x = (  # why\n    f(1)\n)", "(  # why\n    f(1)\n)"),
        ("g((f(1)), 2)", "(f(1))"),
        ("if (f(1)):\n    pass", "(f(1))"),
        ("for a in (f(1)):\n    (b)", "(f(1))"),
        ("def g(a=(f(1))):\n    pass", "(f(1))"),
        ("class A((f(1))):\n    pass", "(f(1))"),
        ("@d\ndef g():\n    return (f(1))", "(f(1))"),
        ("@(f(1))\ndef g():\n    pass", "(f(1))"),
        ("é = 'ü', (f(1))", "(f(1))"),
    ],
)
def test_parentheses_that_enclose_an_expression(text: str, whole: str) -> None:
    file = read(text + "\n")
    start, end = outer_bounds(file, last_call(file))
    assert file.text[start:end] == whole


def test_comments_inside_an_expression() -> None:
    assert has_comment(*_call("f(\n    1,  # one\n)\n"))
    assert not has_comment(*_call("f('#', 1)  # behind\n"))


def _call(text: str) -> tuple[PythonFile, ast.Call]:
    file = read(text)
    return file, last_call(file)
