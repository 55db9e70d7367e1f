"""Templates of `then.replace`: what they are made of, and which are refused."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu2npu.python.text.templates import Piece
from gpu2npu.rulebook.template import TemplateError, check_template, parse_template


def test_pieces() -> None:
    pieces = parse_template("{receiver}.move('npu', {0}, k={device}, **{{1: {args}}})")
    assert pieces == (
        Piece(field="receiver"),
        Piece(text=".move('npu', "),
        Piece(field=0),
        Piece(text=", k="),
        Piece(field="device"),
        Piece(text=", **{1: "),
        Piece(field="args"),
        Piece(text="})"),
    )


@given(st.text())
def test_text_with_its_braces_doubled_stands_for_itself(text: str) -> None:
    pieces = parse_template(text.replace("{", "{{").replace("}", "}}"))
    assert "".join(piece.text or "" for piece in pieces) == text
    assert len(pieces) <= 1


@given(st.text(alphabet="{}()[]a0,=*.'# \n+"), st.booleans())
def test_an_accepted_template_is_one_expression_or_argument(text: str, argument: bool) -> None:
    try:
        pieces = check_template(text, argument=argument)
    except TemplateError as error:
        assert "\n" not in str(error)
        return
    code = "".join("x" if piece.text is None else piece.text for piece in pieces)
    call = ast.parse(f"f({code}, y=1)", mode="eval").body
    assert isinstance(call, ast.Call)
    assert len(call.args) + len(call.keywords) == 2


@pytest.mark.parametrize(
    "template",
    [
        "f({args})",
        "{receiver}.npu(*{0}, {args})",
        "[{args}]",
        "f(\n  {0}\n)",
        "f'{{{0}}}'",
        "lambda: {0}",
        "1 + {value}",
    ],
)
def test_expressions(template: str) -> None:
    check_template(template)
    check_template(template, argument=True)


@pytest.mark.parametrize("template", ["k={value}", "*{value}", "**{value}"])
def test_arguments(template: str) -> None:
    check_template(template, argument=True)
    with pytest.raises(TemplateError):
        check_template(template)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("f({0}", "is not Python"),
        ("", "is not Python"),
        ("x = {0}", "is not Python"),
        ("f({0})  # done", "is not Python"),
        ("{0},)#", "is not Python"),
        ("\0", "is not Python"),
        ("(" * 5000 + ")" * 5000, "is not Python"),
        ("{0}) + ({1}", "is not one expression"),
        ("{0}, {1}", "is not one expression"),
        ("yield {0}", "is not one expression"),
        ("f({", "'{' at character 3 has no partner"),
        ("f(})", "'}' at character 3 has no partner"),
        ("{0!r}", "neither a position"),
        ("{}", "neither a position"),
        ("{a.b}", "neither a position"),
        ("{-1}", "neither a position"),
        ("f('{0}')", "within a string"),
        ("x.{0}", "within a string or a name"),
        ("{args} + 1", "{args} stands for several"),
    ],
)
def test_refusals(template: str, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        check_template(template)
    message = str(caught.value)
    assert reason in message
    assert len(message) < 300
