"""Questions about the files of a project together: who imports whom, what runs, where a value comes from."""

import ast
from textwrap import dedent

import pytest

from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.flow.reachability import DefinitionIndex, NamesInFile, reached_definitions
from gpu2npu.python.project.imports import ImportGraph, files_naming
from gpu2npu.python.project.program import Program
from gpu2npu.python.project.project import Project
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import Place
from gpu2npu.python.tree.syntax import last_name


def program_of(**files: str) -> Program:
    sources = {f"{name.replace('__', '/')}.py": dedent(text).encode() for name, text in files.items()}
    return Program(sources, Project(frozenset(sources), sources.__getitem__))


def test_an_import_graph_reads_every_form_of_import():
    program = program_of(
        main="import a, lib.b as b\nfrom lib import (c,  # comment\n  d)\nif x: import e\ntry: pass; from f import g\n"
        "finally: pass\n",
        a="", lib__b="from . import c\n", lib__c="", lib__d="from .c import x\n", e="", f="import_module(y)", other="",
    )  # fmt: skip
    graph = ImportGraph.of(program)
    assert graph.imports["main.py"] == {"a.py", "lib/b.py", "lib/c.py", "lib/d.py", "e.py", "f.py"}
    assert graph.that_load(["lib/c.py"]) == {"lib/c.py", "lib/b.py", "lib/d.py", "main.py"}
    assert graph.components()[-1] == ["other.py"]


@pytest.mark.parametrize(
    ("source", "is_named"),
    [
        ("import lib\nlib.Wrap(x)\n", True),
        ("import lib\ngetattr(lib, 'Wrap')(x)\n", True),
        ("from lib import (Other,  # first\n  Wrap)\n", True),
        ("from lib import *\nWrap(x)\n", True),
        ("from a import W\nW(x)\n", True),
        ("import a\na.V(x)\n", True),
        ("def f(Wrap=None):\n  return None\n", False),
        ("import lib\nlib.MyWrap(x)\n", False),
        ("import other\n", False),
    ],
)
def test_files_that_may_use_a_library_s_object_by_any_name(source, is_named):
    program = program_of(b=source, a="from lib import Wrap as W\nimport lib\nV = lib.Wrap\n", other="")
    assert ("b.py" in files_naming(program, frozenset({"lib.Wrap"}))) is is_named


def test_what_is_no_import_statement_is_not_taken_for_one():
    graph = ImportGraph.of(program_of(main='"""\nimport a of all kinds\n"""\ntext = "see: import"\n', a=""))
    assert graph.imports["main.py"] == frozenset()


def test_an_example_in_a_docstring_imports_nothing():
    graph = ImportGraph.of(program_of(main='def f():\n    """\n    import a\n    """\n    import b\n', a="", b=""))
    assert graph.imports["main.py"] == {"b.py"}


@pytest.mark.parametrize(
    "statement",
    [
        "from .import tasks",
        "from . \\\n import tasks",
        "from .tasks import(Task)",
        "from\\\n  . tasks import Task",
        "if x:\n def f():\n  import tasks as t",
    ],
)
def test_odd_forms_of_import_statements_are_read(statement):
    program = program_of(lib__odd=statement, lib__tasks="")
    assert ImportGraph.of(program).imports["lib/odd.py"] >= {"lib/tasks.py"}


def reached(program: Program, main: str = "main.py") -> set[str]:
    names = {path: NamesInFile.of(program.file(path)) for path in program.sources}
    others = DefinitionIndex.of(found for path, found in names.items() if path != main)
    return {node.name for node in reached_definitions(names[main], others)}


def test_what_a_program_runs():
    program = program_of(
        main="from lib import used as alias, Kit\nif __name__ == '__main__':\n    alias(Kit())\n",
        lib="""\
            def used(kit): return kit.run()
            def unused(): return only_here()
            def only_here(): ...
            class Kit:
                def __init__(self): ...
                def run(self): return 1
                def forward(self): ...
            @register
            def command(): return by_command()
            def by_command(): ...
            @property
            def plain(): ...
            if __name__ == '__main__':
                unused()
        """,
    )
    assert reached(program) == {"used", "Kit", "__init__", "run", "command", "by_command"}
    assert reached(program, "lib.py") >= {"unused", "only_here"}


def makers(program: Program, path: str) -> set[str]:
    """The code of the calls that may make what `ask(...)` is given in a file."""
    files = {path: program.file(path) for path in program.sources}
    flow = Dataflow(program, files, values_of(program.project))
    [call] = [node for node in files[path].nodes(ast.Call) if last_name(node.func) == "ask"]
    return {place.code for place in flow.makers(Place(files[path], call.args[0]))}


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("x = make(1)\nask(x)", {"make(1)"}),
        ("x = make(1) if a else other(2)\nask(x)", {"make(1)", "other(2)"}),
        ("x, y = make(1), make(2)\nask(y)", {"make(2)"}),
        ("for x in [make(1), make(2)]:\n    ask(x)", {"make(1)", "make(2)"}),
        ("d = {'a': make(1), 'b': make(2)}\nask(d['a'])", {"make(1)"}),
        ("for k, x in {'a': make(1)}.items(): ask(x)", {"make(1)"}),
        ("for i, (x, y) in enumerate(zip(make(1), make(2))): ask(x)", set()),
        ("def f():\n    return make(1)\nask(f())", {"make(1)"}),
        ("def f(x):\n    ask(x)\nf(make(1))\nf(x=make(2))", {"make(1)", "make(2)"}),
        ("class A:\n  def __init__(self): self.x = make(1)\n  def f(self): ask(self.x)\nself.x = make(2)", {"make(1)"}),
        ("class A:\n  @property\n  def x(self): return make(1)\na = A()\nask(a.x)", {"make(1)"}),
        ("if (x := make(1)): ask(x)", {"make(1)"}),
        ("ask([make(i) for i in range(3)][0])", {"make(i)"}),
    ],
)  # fmt: skip
def test_where_a_value_is_made(text, made):
    assert makers(program_of(main=text), "main.py") == made


def test_an_attribute_has_the_values_of_its_own_object():
    text = "from lib import A, B\na, b = A(), B()\n{}.x = make(1)\nask(b.x)\n"
    lib = "class A: pass\nclass B:\n    def __init__(self): self.x = make(2)\n"
    assert makers(program_of(main=text.format("a"), lib=lib), "main.py") == {"make(2)"}
    assert makers(program_of(main=text.format("b"), lib=lib), "main.py") == {"make(1)", "make(2)"}


def test_a_walk_meets_every_name_once_and_in_order():
    text = "@a\ndef b(c: d = e) -> f:\n    return {g: h, **i}, f'{j:{k}}', l(m=n, *o), lambda p: q\n"
    tree = ast.parse(text)
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    found = [node for node in walk(tree) if isinstance(node, ast.Name)]
    assert set(found) == set(named) and len(found) == len(named)
    assert [node.id for node in found if node.lineno > 2] == list("ghijklnoq")


def test_an_object_that_iterates_by_itself_gives_what_it_takes_next() -> None:
    program = program_of(
        timer="""
            class Timer:
                def __init__(self, items):
                    self.items = items.__iter__()
                def __iter__(self):
                    return self
                def __next__(self):
                    item = next(self.items)
                    return item
        """,
        main="import timer\nask(timer.Timer(DataLoader(data)))\n",
    )
    files = {path: program.file(path) for path in program.sources}
    flow = Dataflow(program, files, values_of(program.project))
    made = next(Place(files["main.py"], node) for node in files["main.py"].nodes(ast.Call) if len(node.args) == 1)
    [timer] = flow.makers(Place(made.file, made.node.args[0]))
    assert [each.code for place in flow.iterated(timer) for each in flow.makers(place)] == ["DataLoader(data)"]
