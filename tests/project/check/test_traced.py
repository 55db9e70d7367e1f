"""The files that an answer depends on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpu2npu.project.cache.answers import name_bit
from gpu2npu.project.check.tree_answers import Dependencies
from gpu2npu.python.project.project import EVERY_FILE, IMPORTS, Project, named


def test_what_a_file_leads_to() -> None:
    paths = ["a", "b", "c", "j", "nothing", "x", "y"]

    def leads_to(path: str, *graphs: dict[str, set[str]]) -> set[str] | int:
        bits = Dependencies(paths, graphs).of(path)
        return bits if bits == -1 else {other for place, other in enumerate(paths) if bits >> place & 1}

    graph = {"a": {"b"}, "b": {"c", "a"}, "x": {"y"}, "j": {EVERY_FILE, "a"}}
    assert leads_to("a", graph) == {"b", "c"}
    assert leads_to("a", graph, {"c": {"x"}}) == {"b", "c", "x", "y"}
    assert leads_to("j", graph) == -1
    assert leads_to("nothing", graph) == set()


def test_what_a_file_leads_to_grows() -> None:
    graph = {"a": {"b"}}
    dependencies = Dependencies(["a", "b", "c"], [graph])
    assert dependencies.of("a") == 0b010
    graph["b"] = {"c"}
    graph["a"].add("a")
    assert dependencies.of("a") == 0b110


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.one_of(st.just(EVERY_FILE), st.sampled_from("abcdef")), st.integers(0, 5)),
        max_size=20,
    )
)
def test_what_a_file_leads_to_is_the_same_however_the_graph_grew(steps: list[tuple[int, str, int]]) -> None:
    paths = list("abcdef")
    project = Project()
    graph = project.consulted
    dependencies, by_growth = Dependencies(paths, [graph]), Dependencies(paths, [graph], project.grown)
    for asker, consulted, path in steps:
        project.consult(paths[asker], consulted)
        expected = Dependencies(paths, [graph]).of(paths[path])
        assert (dependencies.of(paths[path]), by_growth.of(paths[path])) == (expected, expected)


def test_the_names_that_a_file_leads_to_are_behind_the_files() -> None:
    graph = {"a": {"b", named("npu")}, "b": {named("hccl"), IMPORTS}}
    dependencies = Dependencies(["a", "b"], [graph])
    of_b = name_bit(named("hccl")) << 2 | name_bit(IMPORTS) << 2
    assert dependencies.of("a") == 0b10 | name_bit(named("npu")) << 2 | of_b
    assert dependencies.of("b") == of_b
    assert dependencies.of("look.ipynb") == 0


def test_what_leads_to_other_files_need_be_no_file_of_python() -> None:
    dependencies = Dependencies(["a.py", "b.py"], [{"look.ipynb": {"a.py"}, "a.py": {"b.py"}}])
    assert dependencies.of("look.ipynb") == 0b11
    assert dependencies.of("train.yaml") == 0
    assert dependencies.of("a.py") == 0b10
