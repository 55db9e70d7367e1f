"""The edits of lines that an editor applies for a place."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol.types import Position, Range
from pygls.workspace import PositionCodec

import gpu2npu
from gpu2npu.editor.answers import LineEdit, Places, edits_for, line_edits, lines_of
from gpu2npu.records import Span

SOURCE = """import torch

def f(x):
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return x.cuda()
"""


def applied(text: str, edits: tuple[LineEdit, ...]) -> str:
    """The text after the edits, as an editor makes it: all places are those of the text before."""
    lines = lines_of(text)
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        lines[edit.start : edit.end] = [edit.text]
    return "".join(lines)


_texts = st.lists(st.sampled_from(["a\n", "b\r\n", "c\r", "\x0cd\n", "\n", "e"]), max_size=12).map("".join)


@given(_texts, _texts)
def test_the_edits_make_the_other_text(before: str, after: str) -> None:
    assert applied(before, line_edits(before, after)) == after


@given(_texts)
def test_lines_are_those_of_editors(text: str) -> None:
    assert "".join(lines_of(text)) == text
    assert [re.sub(r"[\r\n]+\Z", "", line) for line in lines_of(text)] == re.split(r"\r\n|\r|\n", text)[
        : len(lines_of(text))
    ]


def test_a_fix_is_of_its_lines_and_the_import() -> None:
    migrated = gpu2npu.migrate_source(SOURCE, version="2.7.1")
    changes = [change for _, change in migrated.changes]
    edits = line_edits(SOURCE, migrated.text)
    (change,) = (each for each in changes if "empty_cache" in each.before)
    fixed = applied(SOURCE, edits_for(change, changes, edits))
    assert fixed == SOURCE.replace("torch.cuda.empty_cache", "torch.npu.empty_cache").replace(
        "import torch\n", "import torch\nimport torch_npu\n"
    )
    assert applied(SOURCE, edits) == migrated.text


def test_columns_of_plain_text_are_not_counted_character_by_character(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    monkeypatch.setattr(PositionCodec, "client_num_units", lambda _, text: counted.append(text) or 7)
    places = Places(PositionCodec(), "x = torch.cuda\n\N{GRINNING FACE} = 1\n")
    assert places.range(Span(1, 4, 1, 14)) == Range(Position(0, 4), Position(0, 14))
    assert (places.range(Span(2, 0, 2, 4)).end, counted) == (Position(1, 7), ["\N{GRINNING FACE} = "])
