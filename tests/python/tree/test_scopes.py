"""The scopes are held to the interpreter's own answer: `symtable`."""

import ast
import gc
import re
import symtable
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu2npu.python.text.source import SourceFile, read_source
from gpu2npu.python.tree.file import PythonFile, read_file
from gpu2npu.python.tree.scopes import Assigned, Imported, Scope

ROOT = Path(__file__).parents[2]
STDLIB = Path(ast.__file__).parent
_NAMES = {ast.Lambda: "lambda", ast.ListComp: "listcomp", ast.SetComp: "setcomp", ast.DictComp: "dictcomp",
          ast.GeneratorExp: "genexpr"}  # fmt: skip

Names = tuple[str, int, tuple[str, ...]]


def read(text: str) -> PythonFile:
    return read_file(SourceFile("a.py", text, "utf-8", b""))


def of_model(file: PythonFile) -> Counter[Names]:
    """The name and line of each scope with the names that it binds itself."""
    return Counter((_name(scope), _line(scope), _own(scope)) for scope in file.scopes.values())


def _name(scope: Scope) -> str:
    return str(getattr(scope.node, "name", _NAMES.get(type(scope.node), "top")))


def _line(scope: Scope) -> int:
    return 0 if scope.parent is None else int(scope.node.lineno)  # type: ignore[attr-defined]


def _own(scope: Scope) -> tuple[str, ...]:
    return tuple(sorted(_public(name for name in scope.bindings if name not in scope.declared)))


def of_python(text: str) -> Counter[Names]:
    top = symtable.symtable(text, "a.py", "exec")
    tables = [*_tables(top)]
    # What functions declare global and bind is not in the table of the module, but it is the module's.
    everywhere = {symbol.get_name() for table in tables for symbol in table.get_symbols() if _is_bound_globally(symbol)}
    found = [("top", 0, tuple(sorted({*_locals(top), *_public(everywhere)})))]
    return Counter(
        [*found, *((table.get_name(), table.get_lineno(), tuple(sorted(_locals(table)))) for table in tables[1:])]
    )


def _is_bound_globally(symbol: symtable.Symbol) -> bool:
    return symbol.is_global() and (symbol.is_assigned() or symbol.is_imported())


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    if table.get_type() in ("module", "function", "class"):  # and not the parameters of types
        yield table
    for child in table.get_children():
        yield from _tables(child)


def _locals(table: symtable.SymbolTable) -> Iterator[str]:
    return _public(symbol.get_name() for symbol in table.get_symbols() if symbol.is_local())


def _public(names: Iterable[str]) -> Iterator[str]:
    """Names without those of the form __x, which get the name of the class in front where there is one."""
    for name in names:
        written = re.sub(r"^_\w+?(?=__)", "", name)
        if not written.startswith((".", "__")):
            yield written


SNIPPETS = [
    "a = 1\na += 1\n",
    "def f():\n    x += 1\n",
    "def f():\n    d[k] = v\n",
    "def f():\n    d.k = v\n",
    "def f(xs):\n    return [y := x for x in xs], y\n",
    "def f(xs):\n    return {y: (z := x) for x in xs for y in x if (w := y)}\n",
    "[y := x for x in xs]\n",
    "lambda: (y := 1)\n",
    "def f(v):\n    match v:\n        case {'a': a, **rest}:\n            pass\n",
    "match v:\n    case [x, *others] | (x, *others):\n        pass\n    case K(name=n) as whole:\n        pass\n",
    "def f():\n    global os\n    import os\n",
    "def f():\n    global g\n    def g(): ...\n",
    "def f():\n    global a, b\n    a = b = 1\n",
    "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n",
    "def f():\n    def g():\n        nonlocal x\n        x = 2\n    x = 1\n",
    "class A:\n    x = 1\n    def f(self, y=x):\n        self.z = y\n",
    "class A:\n    global x\n    x = 1\n",
    "class A:\n    xs = [x for x in range(3)]\n",
    "import a.b.c\nimport a.b as d\nfrom . import e\nfrom .f import g as h\n",
    "def f(a, /, b, *c, d, **e): ...\n",
    "for i, (j, *k) in x:\n    pass\nelse:\n    l = 1\n",
    "with a as b, c as (d, e), f as g.h:\n    pass\n",
    "try:\n    import a\nexcept E as e:\n    a = None\nelse:\n    b = 1\nfinally:\n    c = 1\n",
    "def f():\n    x: int\n    y: int = 1\n    z.a: int = 2\n",
    "x = 1\ndel x\ndef f():\n    del y\n",
    "async def f():\n    async with a as b:\n        async for c in d: ...\n    return [e async for e in b]\n",
    "def f():\n    return lambda a, b=1, *c, **d: [a for a in b]\n",
    "def f():\n    return [[y for y in x] for x in z]\n",
    "@d(lambda x: x)\nclass A(B, metaclass=C): ...\n",
    "def f(x=lambda y: y): ...\n",
    "def f():\n    return f'{(x := 1)} {[y for y in z]!r:>{w}}'\n",
    "a = b = c = 1\n(d, e), [f, g] = h\n",
]
# From 3.12 on the interpreter counts the names of most comprehensions to the scope around them.
INLINES = sys.version_info >= (3, 12)
if INLINES:
    SNIPPETS = [text for text in SNIPPETS if not re.search(r"[\[{].* for ", text)]
    SNIPPETS += ["def f[T](x: T) -> T:\n    y = x\n", "class A[T, *Ts]:\n    x: T\n"]


@pytest.mark.parametrize("text", SNIPPETS)
def test_each_scope_binds_what_python_binds_there(text: str) -> None:
    assert of_model(read(text)) == of_python(text)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this Python does not read the syntax")
def test_an_alias_of_a_type_is_a_name() -> None:
    assert list(read("type X = int\n").module.bindings) == ["X"]


FILES = [
    *(STDLIB / name for name in ("argparse.py", "dataclasses.py", "typing.py", "tarfile.py", "asyncio/events.py")),
    *(path for path in sorted((ROOT / "fixtures").rglob("*.py")) if path.name != "converter.py"),  # of Python 2
]


@pytest.mark.skipif(INLINES, reason="this Python's comprehensions are not scopes of their own")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_scope_of_a_real_file(path: Path) -> None:
    text = read_source(path.read_bytes(), "a.py").text
    assert of_model(read(text)) == of_python(text)


_names = st.sampled_from(["a", "b", "c"])
_expressions = st.one_of(
    _names,
    st.builds("[{} for {} in {}]".format, _names, _names, _names),
    st.builds("[({} := c) for d in {}]".format, _names, _names),
    st.builds("(lambda {}: {})".format, _names, _names),
)
_simple = st.one_of(
    st.builds("{} = {}".format, _names, _expressions),
    st.builds("{} += {}".format, _names, _expressions),
    st.builds("{}, *{} = {}".format, st.just("a"), st.just("b"), _expressions),
    st.builds("import {}".format, _names),
    st.builds("from m import x as {}".format, _names),
    st.builds("{}[{}] = {}".format, _names, _names, _expressions),
    st.builds("del {}".format, _names),
)


def _blocks(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    heads = st.one_of(
        st.builds("def {}({}=1):".format, _names, _names),
        st.builds("class {}:".format, _names),
        st.builds("for {} in {}:".format, _names, _names),
        st.builds("with {} as {}:".format, _names, _names),
        st.builds("if ({} := {}):".format, _names, _names),
    )
    body = st.builds(lambda head, lines: [head, *(f"    {line}" for line in lines)], heads, inner)
    return st.lists(body, min_size=1, max_size=3).map(lambda bodies: [line for each in bodies for line in each])


_programs = st.recursive(st.lists(_simple, min_size=1, max_size=3), _blocks, max_leaves=6)


@pytest.mark.skipif(INLINES, reason="this Python's comprehensions are not scopes of their own")
@settings(deadline=None)
@given(_programs)
def test_each_scope_of_a_generated_program(lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    try:
        compile(text, "a.py", "exec")
    except SyntaxError:  # a walrus in a class's comprehension, for instance
        return
    assert of_model(read(text)) == of_python(text)


def test_global_at_the_top_of_a_module_says_nothing_new() -> None:
    assert list(read("global size\nsize = 1\n").module.bindings) == ["size"]


def test_the_parts_that_an_assignment_unpacks() -> None:
    bindings = read("a, (b, c) = f()\nd, e = 1, 2\nfor x in xs: pass\nfor i, y in zs: pass").module.bindings
    parts = {name: (binding.value is not None, binding.is_part) for name, [binding] in bindings.items()}  # type: ignore[union-attr]
    assert parts == {
        "a": (True, True), "b": (False, False), "c": (False, False), "d": (True, False), "e": (True, False),
        "x": (True, True), "i": (False, False), "y": (False, False),
    }  # fmt: skip


def test_imports_and_attributes_of_self() -> None:
    file = read("import a.b, c.d as e\nfrom .f import g as h\nclass K:\n def m(self):\n  self.x = e()")
    names = {name: binding for name, [binding] in file.module.bindings.items()}
    imported = {name: each.qualified for name, each in names.items() if isinstance(each, Imported)}
    assert imported == {"a": "a", "e": "c.d", "h": ".f.g"}
    cls = next(scope for scope in file.scopes.values() if scope.kind == "class")
    [(assigned, scope)] = cls.attributes["x"]
    assert isinstance(assigned, Assigned) and isinstance(assigned.value, ast.Call)
    assert isinstance(scope.node, ast.FunctionDef)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_call_is_a_use_once_and_every_node_has_its_parent(path: Path) -> None:
    file = read_file(read_source(path.read_bytes(), "a.py"))
    calls = [node for node, _ in file.uses if isinstance(node, ast.Call)]
    assert len(calls) == len(set(calls))
    assert set(calls) == {node for node in ast.walk(file.tree) if isinstance(node, ast.Call)}
    for node, scope in file.uses:
        assert [*file.above(node)][-1] is file.tree
        assert file.scope_of(node) is scope


def test_depth_takes_no_recursion() -> None:
    tree = "x = " + "f(" * 80 + "1" + ")" * 80
    limit = sys.getrecursionlimit()
    file = read(tree)
    assert len([node for node, _ in file.uses if isinstance(node, ast.Call)]) == 80
    assert sys.getrecursionlimit() == limit


def test_a_tree_is_freed_without_the_garbage_collector() -> None:
    gc.freeze()  # what other tests left is not counted
    gc.disable()
    try:
        read("class A:\n    def f(self):\n        self.x = lambda: [y for y in self.x]\n" * 1000)
        assert sum(isinstance(each, ast.AST) for each in gc.get_objects()) < 100  # of some 20,000 nodes
    finally:
        gc.enable()
        gc.unfreeze()


def test_scopes_last_as_long_as_what_looks_at_them() -> None:
    file = read("def f():\n    return lambda: x\n")
    scopes = file.scopes
    del file
    assert [len(list(scope.enclosing())) for scope in scopes.values()] == [0, 1, 2]
