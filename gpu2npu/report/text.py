"""Words for reports: text from file names and sources made fit for one line, and numbers of things."""

from __future__ import annotations

from gpu2npu.language import sentence, shown
from gpu2npu.records import Span

_LONGEST = 2_000


def file_and_cell(path: str, span: Span) -> str:
    """The path, with the cell for a place in a notebook: `train.ipynb:cell_3`, as nbqa writes it."""
    return f"{path}:cell_{span.cell}" if span.cell else path


def file_and_line(path: str, span: Span) -> str:
    """The path with the first line of a place: `train.py:12`, `train.ipynb:cell_3:12`."""
    return f"{path}:cell_{span.cell}:{span.start_line}" if span.cell else f"{path}:{span.start_line}"


def counted(number: int, one: str, many: str = "") -> str:
    """A number and its noun: "1 file", "2 files"; `many` where the plural has more than an s."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def of_place(kind: str, name: str) -> str:
    """Name what `gpu2npu verify` compares, in the language in use: "gradient of fc1"; a loss has no other name."""
    return shown(kind) if kind == name else sentence("{} of {}", shown(kind), name)


def one_line(text: str) -> str:
    """The text with line ends and other unprintable characters escaped, cut if it is very long."""
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "..."
    if text.isprintable():  # as most are
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def encodable(text: str) -> str:
    """Text without halves of surrogate pairs, which are not Unicode and which readers of JSON refuse."""
    return text.encode("utf-8", "backslashreplace").decode()
