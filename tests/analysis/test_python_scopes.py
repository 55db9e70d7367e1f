import ast
import symtable
import sys
from pathlib import Path

import pytest

from gpu2npu.analysis.python_scopes import Assigned, Imported, collect

STDLIB = Path(ast.__file__).parent


def scopes(text: str) -> dict[tuple[str, int], set[str]]:
    """The names that each function and class binds, by its name and line."""
    found = {}
    for defined in collect(ast.parse(text)).definitions:
        names = {name for name in defined.scope.bindings if name not in defined.scope.outer}
        found[defined.node.name, defined.node.lineno] = names
    return found


def by_symtable(text: str) -> dict[tuple[str, int], set[str]]:
    found = {}
    pending = [symtable.symtable(text, "x.py", "exec")]
    while pending:
        table = pending.pop()
        pending += table.get_children()
        if table.get_type() in ("function", "class") and table.get_name() not in ("lambda", "top"):
            local = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_local()}
            found[table.get_name(), table.get_lineno()] = local
    return found


@pytest.mark.parametrize("name", ["argparse.py", "dataclasses.py", "typing.py", "tarfile.py", "asyncio/events.py"])
def test_names_are_bound_where_python_binds_them(name: str) -> None:
    text = (STDLIB / name).read_text(encoding="utf-8")
    expected, found = by_symtable(text), scopes(text)
    compared = 0
    for key in expected.keys() & found.keys():
        assert {each for each in found[key] if not each.startswith("__")} == {
            each for each in expected[key] if not each.startswith(("__", "_" + key[0], "."))
        } or _mangles(expected[key]), key
        compared += 1
    assert compared > 20


def _mangles(names: set[str]) -> bool:
    return any(name.startswith("_") and "__" in name[1:] for name in names)


def test_global_at_the_top_of_a_module_says_nothing_new() -> None:
    module = collect(ast.parse("global size\nsize = 1\n")).module
    assert list(module.bindings) == ["size"]


@pytest.mark.parametrize("name", ["argparse.py", "dataclasses.py", "typing.py", "tarfile.py"])
def test_every_call_is_seen_once(name: str) -> None:
    tree = ast.parse((STDLIB / name).read_text(encoding="utf-8"))
    annotations = [
        inner
        for node in ast.walk(tree)
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if part is not None
        for inner in ast.walk(part)
    ]
    expected = {id(node) for node in ast.walk(tree) if isinstance(node, ast.Call)} - {id(node) for node in annotations}
    seen = [id(call) for call, _ in collect(tree).calls]
    assert len(seen) == len(set(seen))
    assert set(seen) == expected


def test_what_an_assignment_unpacks() -> None:
    bindings = collect(
        ast.parse("a, (b, c) = f()\nd, e = 1, 2\nfor x in xs: pass\nfor i, y in zs: pass")
    ).module.bindings
    parts = {name: (binding.value is not None, binding.part) for name, [binding] in bindings.items()}  # type: ignore[union-attr]
    assert parts == {
        "a": (True, True), "b": (False, False), "c": (False, False), "d": (True, False), "e": (True, False),
        "x": (True, True), "i": (False, False), "y": (False, False),
    }  # fmt: skip


def test_imports_and_attributes_of_self() -> None:
    code = collect(ast.parse("import a.b, c.d as e\nfrom .f import g as h\nclass K:\n def m(self):\n  self.x = e()"))
    names = {name: binding for name, [binding] in code.module.bindings.items()}
    assert names["a"] == Imported("a") and names["e"] == Imported("c.d") and names["h"] == Imported(".f.g")
    [(assigned, scope)] = code.definitions[0].scope.attributes["x"]
    assert isinstance(assigned, Assigned) and isinstance(assigned.value, ast.Call)
    assert isinstance(scope.node, ast.FunctionDef)


def test_names_that_are_only_asked_about_are_no_mentions() -> None:
    code = collect(ast.parse("isinstance(x, a.B)\nhasattr(a.b, 'c')\nx: a.T = f(a.v)\n@a.d\nclass C(a.E): pass"))
    assert sorted(ast.unparse(node) for node, _ in code.mentions) == ["a.E", "a.d", "a.v"]


def test_depth_takes_no_recursion() -> None:
    text = "x = " + "f(" * 80 + "1" + ")" * 80
    tree = ast.parse(text)
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(__import__("inspect").stack()) + 30)
        assert len(collect(tree).calls) == 80
    finally:
        sys.setrecursionlimit(limit)
