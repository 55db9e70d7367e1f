"""Tests that what is cut out of the text at the places that the model gives is what is written there."""

import ast

import pytest

from gpu2npu.python.text.literals import LiteralError, literals
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.tree.file import PythonFile, read_file


def read(text: str) -> PythonFile:
    return read_file(SourceFile("a.py", text, "utf-8", b""))


# The text of a string, and the expressions inside it in the order of the source.
F_STRINGS = [
    ("f'{x}'", ["x"]),
    ("f'{x} {x} {x}'", ["x", "x", "x"]),
    ("f'{ x }'", ["x"]),
    ("f'{x!r}'", ["x"]),
    ("f'{x=}'", ["x"]),
    ("f'{x = !r:>{width}}'", ["x", "width"]),
    ("f'{x:{width}.{digits}f}'", ["x", "width", "digits"]),
    ("f'{x:%H:%M}'", ["x"]),
    ("f'{{x}} {y}'", ["y"]),
    ("f'{{{x}}}'", ["x"]),
    ("f'{x[\"a\"]}'", ['x["a"]', '"a"']),
    ("f\"{d['cuda']} {d['cpu']}\"", ["d['cuda']", "'cuda'", "d['cpu']", "'cpu'"]),
    ("f'''{\n x\n}\n{y}'''", ["x", "y"]),
    ('f"""a\n  {x} b\n{x}"""', ["x", "x"]),
    ("'a' f'{x}' 'b' f'{y}'", ["x", "y"]),
    ("('a'\n f'{x}'  # {z}\n f'é{y}')", ["x", "y"]),
    ("f'é {x} ü {y}'", ["x", "y"]),
    ("é = f'ä{x}'", ["x"]),
    ("rf'\\{x}\\d'", ["x"]),
    ("F'{x}' fr'{y}'", ["x", "y"]),
    ("f'\\N{BULLET}{x}'", ["x"]),
    ("f'\\'{x}\\''", ["x"]),
    ("f'{x == y} {x != y} {x <= y}'", ["x == y", "x != y", "x <= y"]),
    ("f'{(lambda a: a)(x)}'", ["(lambda a: a)(x)"]),
    ("f'{ {1: x}[1] }'", ["{1: x}[1]"]),
    ("f'{f\"{x}\"} {y}'", ['f"{x}"', "x", "y"]),
    ("f'{a.b.c}{f(x, y=1)}'", ["a.b.c", "f(x, y=1)"]),
    ("f'{[i for i in x]}'", ["[i for i in x]"]),
    ("x = 1; y = f'{x}'; z = f'{y}'", ["x", "y"]),
]


@pytest.mark.parametrize(("text", "expressions"), F_STRINGS)
@pytest.mark.parametrize("before", ["", "é = 'ü'; ", "\n\n\t# ö\n"], ids=["first", "after text", "after lines"])
def test_each_expression_of_an_f_string_is_where_it_is_written(text: str, expressions: list[str], before: str) -> None:
    file = read(before + text + "\n")
    found = []
    for node in ast.walk(file.tree):
        if isinstance(node, ast.FormattedValue):
            found.append((file.bounds(node.value)[0], file.code(node.value)))
        if isinstance(node, (ast.Name, ast.Constant)) and any(
            isinstance(each, ast.JoinedStr) for each in file.above(node)
        ):
            if isinstance(node, ast.Name):
                assert file.code(node) == node.id
            elif not isinstance(file.parents.get(node), ast.JoinedStr) and isinstance(node.value, str):
                found.append((file.bounds(node)[0], file.code(node)))
    assert [code for _, code in sorted(found)] == expressions


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("'a'", ["'a'"]),
        ("'a' \"b\"", ["'a'", '"b"']),
        ("('a'  # 'c'\n  b'b')", ["'a'", "b'b'"]),
        ("'a' \\\n 'b'", ["'a'", "'b'"]),
        ("'''a'b\"\"\"c'''", ["'''a'b\"\"\"c'''"]),
        ("'it\\'s' r'\\'", None),
        ("r'\\'' 'x'", ["r'\\''", "'x'"]),
        ("''", ["''"]),
        ("'''''' ''", ["''''''", "''"]),
        ("f'{x}' Rb'y'", ["f'{x}'", "Rb'y'"]),
        ("f'{d[\"}\"]}' 'z'", ["f'{d[\"}\"]}'", "'z'"]),
        ("x", None),
        ("'a' + 'b'", None),
        ("'a", None),
    ],
)
def test_the_literals_of_an_expression(text: str, pieces: list[str] | None) -> None:
    if pieces is None:
        with pytest.raises(LiteralError):
            literals(text, 0, len(text))
        return
    found = literals(text, 0, len(text))
    assert [text[each.start : each.end] for each in found] == pieces
    for each in found:
        inside = text[each.inner : each.inner_end]
        assert text[each.start : each.end] == f"{each.prefix}{each.quote}{inside}{each.quote}"


def test_every_string_of_a_file_can_be_read(pytestconfig: pytest.Config) -> None:
    path = pytestconfig.rootpath / "gpu2npu" / "formats" / "ipython_magics.py"
    file = read(path.read_text(encoding="utf-8"))
    strings = [node for node, _ in file.uses if isinstance(node, (ast.Constant, ast.JoinedStr))]
    assert len(strings) > 40
    for node in strings:
        found = literals(file.text, *file.bounds(node))
        if isinstance(node, ast.Constant):
            assert "".join(ast.literal_eval(file.text[each.start : each.end]) for each in found) == node.value
