"""Sources and uses of values: the order of code, other files, the way, and the order of questions."""

from __future__ import annotations

import random
from collections.abc import Mapping

from gpu2npu.engine.strings.value_effects import EFFECTS
from gpu2npu.engine.torch_library import TORCH, torch_project
from gpu2npu.project.check.tree_answers import Dependencies
from gpu2npu.python.facts.reading import encoded_facts
from gpu2npu.python.flow.forward import BUDGET, NEAR_BUDGET
from gpu2npu.python.flow.values import Values, ValueUse, Way
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.tree.file import read_file

FLOWS = """
import torch
class Base:
    kind = "class"
    def __init__(self, where):
        self.where = where
    def move(self, x):
        return x.to(self.where)
class Own(Base):
    def again(self, x):
        return self.again(x) or self.move(x)
def turn(a, n):
    return turn(back(a, n), n) if n else a
def back(b, n):
    return turn(b, n - 1)
w = "given"
Own(turn(w, 3)).move(torch.zeros(2))
w = "later"
print(w)
"""


def values_in(files: Mapping[str, str]) -> Values:
    return Values(torch_project({path: text.encode() for path, text in files.items()}), EFFECTS)


def found(values: Values, path: str, text: str) -> tuple[int, list[ValueUse]]:
    """The place of the first string of a file that is `text`, and what is done with it."""
    names = values.project.names(path)
    assert names is not None
    at = names.file.text.index(f'"{text}"')
    span = names.file.lines.span(at, at + 1)
    place = values.place_of(names, span.start_line, span.start_column)
    assert place is not None
    return place, values.uses(place, path)


def given(values: Values, path: str, text: str) -> list[tuple[str, str]]:
    """The calls with a string, and as which argument."""
    return sorted({(use.text, use.key) for use in found(values, path, text)[1] if use.kind == "argument"})


def test_a_value_goes_through_functions_that_call_each_other_and_methods_that_are_inherited() -> None:
    values = values_in({"a.py": FLOWS})
    assert given(values, "a.py", "given") == [("torch.zeros().to", "0")]
    assert given(values, "a.py", "later") == [("print", "0")]
    assert given(values, "a.py", "class") == []


def test_which_methods_a_call_of_an_object_runs_is_known_of_the_library() -> None:
    text = 'class A:\n    def {}(self, w):\n        print(w)\na = A()\na("given")\n'
    for method, of_python, of_torch in (("__call__", True, True), ("forward", False, True), ("call", False, False)):
        files = {"a.py": text.format(method).encode()}
        for project, is_run in (
            (Project(frozenset(files), files.__getitem__), of_python),
            (torch_project(files), of_torch),
        ):
            assert (("print", "0") in given(Values(project, EFFECTS), "a.py", "given")) is is_run


def test_the_order_of_questions_does_not_matter() -> None:
    texts = ["given", "later", "class"]
    known = {text: given(values_in({"a.py": FLOWS}), "a.py", text) for text in texts}
    for seed in range(6):
        values, order = values_in({"a.py": FLOWS}), random.Random(seed).sample(texts, 3)
        assert {text: given(values, "a.py", text) for text in order} == known


def test_a_value_goes_through_files() -> None:
    files = {
        "a.py": "from c import move\nmove(1, 'x')\nmove(2, \"given\")\n",
        "b.py": 'KIND = "kind"\ndef move(x, w):\n    return x.to(w)\n',
        "c.py": "from b import move\n",
        "d.py": "import b\nprint(b.KIND)\n",
    }
    values = values_in(files)
    assert given(values, "a.py", "given") == [("?.to", "0")]
    assert given(values, "b.py", "kind") == [("print", "0")]
    assert values.project.consulted["a.py"] >= {"b.py", "c.py"}


def test_another_text_at_a_path_has_values_of_its_own() -> None:
    values = values_in({"a.py": 'import torch\ntorch.zeros(2, device="old")\n'})
    assert given(values, "a.py", "old") == [("torch.zeros", "device")]
    later = Names.of(SourceFile("a.py", 'import torch\nimport os\nos.getenv("new")\n', "utf-8", b""), values.project)
    place = values.place_of(later, 3, 10)
    assert place is not None
    assert [use.text for use in values.uses(place, "a.py")] == ["os.getenv"]


def test_an_answer_that_is_remembered_depends_on_the_same_files() -> None:
    files = {
        "a.py": 'from b import move\nmove(1, "given")\n',
        "b.py": "import c\ndef move(x, w):\n    return c.move(x, w)\n",
        "c.py": "def move(x, w):\n    return x.to(w)\n",
        "z.py": 'from b import move\nmove(1, "given")\n',
    }
    values = values_in(files)
    assert given(values, "a.py", "given") == given(values, "z.py", "given") == [("?.to", "0")]
    project = values.project
    depends = Dependencies(sorted(files), (project.consulted,))
    for path in ("a.py", "z.py"):
        bits = depends.of(path)
        assert bits == -1 or all(bits >> sorted(files).index(each) & 1 for each in ("b.py", "c.py")), path


def test_a_question_over_its_budget_is_not_answered_with_no() -> None:
    chain = "\n".join(f"def f{each}(w): f{each + 1}(w)" for each in range(BUDGET))
    values = values_in({"a.py": f'{chain}\nf0("given")\n'})
    assert "unknown" in {use.kind for use in found(values, "a.py", "given")[1]}


def test_sources_over_their_budget_are_not_all() -> None:
    chain = "\n".join(f"def f{each}(w):\n    return f{each + 1}(w)" for each in range(BUDGET))
    values = values_in({"a.py": f'{chain}\nx = f0("given")\nx == "other"\n'})
    _, (use,) = found(values, "a.py", "other")
    assert "unknown" in {origin.kind for origin in values.sources(use.place, "a.py")}


def test_what_is_left_out_near_a_value_is_not_left_out_of_all() -> None:
    chain = "\n".join(f"x{each + 1} = x{each}" for each in range(NEAR_BUDGET))
    files = {"a.py": f'x0 = "given"\n{chain}\nprint(x{NEAR_BUDGET})\n'}
    _, uses = found(values_in(files), "a.py", "given")
    assert [use.kind for use in uses] == ["argument"]
    near = values_in(files)
    with near.near("a.py"):
        assert "unknown" in {use.kind for use in found(near, "a.py", "given")[1]}
    assert found(near, "a.py", "given")[1] == uses


def chain(name: str, count: int, last: str) -> str:
    """Functions that give what they are given to the next one, and the last of them."""
    given_on = [f"def {name}{each}(v): return {name}{each + 1}(v)" for each in range(count)]
    return "\n".join([*given_on, f"def {name}{count}(v): return {last}"])


BOX = "class Box:\n    def __init__(self, inner): self.inner = inner\n"


def test_an_object_is_followed_once_for_all_that_it_has() -> None:
    ways = f"{chain('f', BUDGET // 8, 'print(v.inner.inner)')}\n{chain('g', BUDGET // 8, 'Box(v)')}\n"
    values = values_in({"a.py": f'{BOX}{ways}f0(g0(Box("given")))\n'})
    assert given(values, "a.py", "given") == [("print", "0")]


def test_what_an_object_has_is_not_all_where_the_object_is_over_the_budget() -> None:
    values = values_in({"a.py": f'{BOX}{chain("f", BUDGET, "print(v.inner)")}\nf0(Box("given"))\n'})
    assert {use.kind for use in found(values, "a.py", "given")[1]} == {"unknown"}


def test_the_way_of_a_value_has_the_lines_that_it_comes_through() -> None:
    values = values_in({"a.py": 'w = "given"\n\ndef f(v):\n    return g(v)\nf(w)\n'})
    place, (use,) = found(values, "a.py", "given")
    assert values.way(place, use) == [Way("a.py", 1), Way("a.py", 3), Way("a.py", 4)]


def test_what_is_freed_is_read_again_at_its_places_and_answers_stay() -> None:
    files = {
        "devices.py": b'NAME = "cuda"\n',
        "train.py": b"import torch\nfrom devices import NAME\ntorch.zeros(2, device=NAME)\n",
        "show.py": b"from devices import NAME\nprint(NAME)\n",
    }
    facts = {path: encoded_facts(source, path, with_values=True) for path, source in files.items()}
    values = Values(Project(frozenset(files), files.__getitem__, library=TORCH, given=facts), EFFECTS)
    first, answers = found(values, "devices.py", "cuda"), values.answers
    callees = values.ask(("callees", 0), dict)
    assert {use.text for use in first[1] if use.kind == "argument"} == {"torch.zeros", "print"}
    assert values.size > 10
    values.free()
    assert values.size == 0 and 0 < values.answers < answers + 1
    assert [values.path_at(place) for place in (first[0], first[0] + 1)] == ["devices.py"] * 2 and values.size == 0
    assert found(values, "devices.py", "cuda") == first and values.ask(("callees", 0), dict) is callees
    values.free()
    for path, source in files.items():  # parsed with another comment: the facts have no values
        names = Names(read_file(SourceFile(path, f"{source.decode()}# again\n", "utf-8", b"")), values.project)
        assert not names.facts.values
        values.project.keep(names)
    assert found(values, "devices.py", "cuda") == first
    values.free()
    Names.of(SourceFile("devices.py", 'OTHER = "cpu"\nNAME = "cuda"\n', "utf-8", b""), values.project)
    assert values.kind(first[0])[0] == "text" and values.line(first[0]) == 1  # of the text before
    place, uses = found(values, "devices.py", "cuda")
    assert place != first[0] and {use.text for use in uses if use.kind == "argument"} == {"torch.zeros", "print"}


def test_a_field_more_than_the_budget_has_leaves_nothing_unknown() -> None:
    def uses(rest: str) -> set[str]:
        head = 'import torch\ndef main():\n    w = "given"\n    torch.zeros(2, device=w)\n'
        nested = '    top = {"a": {"b": {"c": {"d": w}}}}\n'
        return {use.text for use in found(values_in({"a.py": head + nested + rest}), "a.py", "given")[1]}

    calls = "".join(f"    f{number}(top)\n" for number in range(BUDGET))
    functions = "".join(f"def f{number}(t):\n    return t\n" for number in range(BUDGET))
    assert uses(calls + functions) == {"torch.zeros"}
    assert uses('    print(top["a"]["b"]["c"]["d"])\n') == {"torch.zeros", "print"}
