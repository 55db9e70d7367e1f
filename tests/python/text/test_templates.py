"""New code from templates: where parentheses are needed, what a template may be, and that nothing else makes code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpu2npu
from gpu2npu.python.text.edits import Edited
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.text.templates import (
    NewCodeError,
    call,
    code,
    followed,
    line_below,
    lines_above,
    lines_at,
    operand,
    parsed,
    under,
)
from gpu2npu.python.tree.file import PythonFile, read_file
from gpu2npu.records import Edit

PACKAGE = Path(gpu2npu.__file__).parent


def read(text: str) -> PythonFile:
    return read_file(SourceFile("a.py", text, "utf-8", b""))


@pytest.mark.parametrize(
    ("template", "part", "text"),
    [
        ("not {x}", "a and b", "not (a and b)"),
        ("not {x}", "a == b", "not a == b"),
        ("{x} and y", "a or b", "(a or b) and y"),
        ("{x} and y", "not a", "not a and y"),
        ("y if {x} else z", "a or b", "y if a or b else z"),
        ("y if {x} else z", "a if b else c", "y if (a if b else c) else z"),
        ("y if x else {x}", "a if b else c", "y if x else a if b else c"),
        ("{x} // y", "a + b", "(a + b) // y"),
        ("{x} < y", "a + b", "a + b < y"),
        ("{x} < y", "a < b", "(a < b) < y"),
        ("{x}.y", "-a", "(-a).y"),
        ("{x}[0]", "a or b", "(a or b)[0]"),
        ("y[{x}]", "a or b", "y[a or b]"),
        ("{x}()", "lambda: 0", "(lambda: 0)()"),
        ("f({x}, y={x})", "a or b", "f(a or b, y=a or b)"),
        ("{{k: v for k, v in {x}.items()}}", "a or b", "{k: v for k, v in (a or b).items()}"),
        ("with {x}:", "a", "with a:"),
        ("{x}: bool = False", "a", "a: bool = False"),
        (", {x}=1", "a", ", a=1"),
        ("{x}=", "a", "a="),
        ("; import {x}", "a.b", "; import a.b"),
        ("@{x}", "a(b)", "@a(b)"),
        (".{x}()", "npu", ".npu()"),
        ("if {x}:  # why", "a", "if a:  # why"),
    ],
)
def test_parts_get_the_parentheses_they_need(template: str, part: str, text: str) -> None:
    assert code(template, x=part) == text


@pytest.mark.parametrize("template", ["{x} y", "f({x}", "if {x}", "{x})", "1 +"])
def test_templates_are_python(template: str) -> None:
    with pytest.raises(NewCodeError):
        code(template, x="a")


def test_pieces_are_python() -> None:
    text = call("f", (1, 2), code("y"))
    assert parsed(text) == ("f(", (1, 2), ", y)")
    with pytest.raises(NewCodeError):
        parsed(followed(text, (3, 4)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y = a + b\n", "y = (a + b).npu()\n"),
        ("y = (a + b)\n", "y = (a + b).npu()\n"),
        ("y = f(a)\n", "y = f(a).npu()\n"),
        ("y = 1, 2\n", "y = (1, 2).npu()\n"),
        ("y = (1, 2)\n", "y = (1, 2).npu()\n"),
        ("y = await_me\n", "y = await_me.npu()\n"),
    ],
)
def test_expressions_of_the_file_keep_the_parentheses_they_have(old: str, new: str) -> None:
    file = read(old)
    statement = file.tree.body[0]
    assert isinstance(statement, ast.Assign)
    given = operand(file, statement.value)
    edit = Edit(given.bounds, code("{x}.npu()", x=given), "", "")
    assert Edited(old, [edit]).text == new


def test_lines() -> None:
    text = "if a:\r\n\tb()"
    file = read(text)
    at = text.index("b")
    lines = under(file, code("if {x}:", x="c"), code("d()"))
    assert lines_above(file, at, lines) == "if c:\r\n\t\td()\r\n\t"
    assert lines_at(file, len(text), "\t", lines) == "\r\n\tif c:\r\n\t\td()\r\n"
    assert line_below(file, len(text), "\t", code("d()")) == "\r\n\td()"
    assert followed(code("d()"), (0, 1), code(", {x}", x="e")) == ("d()", (0, 1), ", e")


# What makes text of an edit, and whose arguments are therefore templates, names or parts as they are; and the modules
# that make strings, or text that is not Python.
_MAKERS = {
    "bracketed",
    "call",
    "code",
    "followed",
    "generated",
    "new_call",
    "new_code",
    "parenthesized",
    "parsed",
    "plain",
}
_OF_STRINGS = {"engine/strings/texts.py", "codemods/places.py"}


def test_no_other_module_builds_code() -> None:
    """mypy holds that the text of an edit comes from `templates`; here, that it is not made of joined strings there.

    What this does not see: a text that is joined in another expression, and given by a name."""
    found = [place for path in sorted(PACKAGE.rglob("*.py")) for place in _joined(path)]
    assert not found


def _joined(path: Path) -> Iterator[str]:
    name = path.relative_to(PACKAGE).as_posix()
    if name.startswith("formats/") or name in _OF_STRINGS or name == "python/text/templates.py":
        return
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id == "NewText":
            yield f"{name}:{node.lineno} makes text"
        if node.func.id in _MAKERS and any(map(_builds, (*node.args, *(each.value for each in node.keywords)))):
            yield f"{name}:{node.lineno} joins {ast.unparse(node)}"


def _builds(argument: ast.expr) -> bool:
    """Return whether a text is put together in an argument."""
    inside = list(ast.walk(argument))
    joins = (each for each in inside if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute))
    return any(isinstance(each, (ast.JoinedStr, ast.BinOp)) for each in inside) or any(
        each.func.attr in ("join", "format") for each in joins if isinstance(each.func, ast.Attribute)
    )
