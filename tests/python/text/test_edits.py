"""The splicer: which edits of a text are made, and what the text becomes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu2npu.python.text.edits import Edited, conflict
from gpu2npu.python.text.offsets import splice
from gpu2npu.records import Edit

TEXT = "f(a, g(b))"


def at(code, text, **more):
    start = TEXT.index(code)
    return Edit((start, start + len(code)), text, "r", "m", **more)


@pytest.mark.parametrize(
    ("edits", "after"),
    [
        ([], "f(a, g(b))"),
        ([at("a", "x"), at("b", "y")], "f(x, g(y))"),
        ([at("g(b)", ("h(", (7, 8), ")")), at("b", "y")], "f(a, h(y))"),
        ([at("b", "y"), at("g(b)", ("h(", (7, 8), ", ", (7, 8), ")"))], "f(a, h(y, y))"),
        ([at("g(b)", "h"), at("b", "y")], "f(a, h)"),
        ([at("a", "x"), at("a", "y")], "f(x, g(b))"),
        ([at("a, g", "x"), at("g(b)", "y")], "f(x(b))"),
        ([at("g(b)", "y"), at("a, g", "x")], "f(a, y)"),
        ([Edit((2, 2), "1", "r", "m"), Edit((2, 2), "2", "r", "m"), at("a", "x")], "f(12x, g(b))"),
        ([at("a", "x"), Edit((2, 2), "1", "r", "m"), Edit((3, 3), "3", "r", "m")], "f(1x3, g(b))"),
        ([at("g(b)", ((5, 7), (7, 8), (8, 9))), Edit((7, 7), "*", "r", "m")], "f(a, g(*b))"),
        ([at("g(b)", "name"), Edit((0, 0), ("name = ", (5, 9), "; "), "r", "m")], "name = g(b); f(a, name)"),
        (
            [at("g(b)", "name"), Edit((0, 0), ("name = ", (5, 9), "; "), "r", "m"), at("b", "y")],
            "name = g(y); f(a, name)",
        ),
    ],
)
def test_the_text_after_edits(edits, after):
    assert Edited(TEXT, edits).text == after


def test_edits_that_are_made_are_known_with_the_enclosing_one():
    outer, inner, void = at("g(b)", ("h(", (7, 8), ")")), at("b", "y"), at("g", "x")
    assert list(Edited(TEXT, [outer, inner, void]).made()) == [(outer, None), (inner, outer)]
    assert conflict(outer, void)
    assert not conflict(outer, inner)


def test_a_part_of_the_text():
    edited = Edited(TEXT, [at("g(b)", ("h(", (7, 8), ")")), at("b", "y"), Edit((9, 9), "!", "r", "m")])
    assert edited.between(5, 9) == "h(y)"
    assert edited.between(2, 9) == "a, h(y)"
    assert edited.between(7, 8) == "y"


def test_an_edit_is_written_without_what_is_inserted_behind_it():
    first, behind = at("a", "x"), Edit((3, 3), "!", "r", "m")
    edited = Edited(TEXT, [first, behind])
    assert (edited.written(first), edited.written(behind)) == ("x", "!")


EDITS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 5), st.text("xy", max_size=2), st.booleans()), max_size=8
).map(
    lambda rows: [
        Edit((start, min(start + length, 12)), (new, (start, min(start + length, 12)), new) if keeps else new, "r", "m")
        for start, length, new, keeps in rows
    ]
)


@given(EDITS)
def test_edits_that_are_made_are_all_in_the_text_and_in_conflict_with_none(edits):
    source = "abcdefghijkl"
    edited = Edited(source, edits)
    made = [edit for edit, _ in edited.made()]
    assert len(edited.text) == len(source) + sum(
        sum(len(piece) for piece in edit.pieces if isinstance(piece, str))
        - (0 if len(edit.pieces) > 1 else edit.place[1] - edit.place[0])
        for edit in made
    )
    assert not any(conflict(one, other) for one in made for other in made if one is not other)


@pytest.mark.parametrize("second", [(1, 2, "x"), (0, 3, "x"), (1, 9, "x")])
def test_overlapping_replacements_are_an_error(second):
    with pytest.raises(ValueError, match="overlap"):
        splice(TEXT, [(0, 2, "y"), second])
