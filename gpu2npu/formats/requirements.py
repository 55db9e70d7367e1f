"""requirements.txt and constraints files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu2npu.engine.knowledge import Knowledge
from gpu2npu.engine.marks import Mark
from gpu2npu.formats.marks import of_environment
from gpu2npu.formats.required_packages import (
    ADDED,
    missing_release,
    npu_requirements,
    requirement,
    requirement_marks,
)
from gpu2npu.records import Edit, FindingKind
from gpu2npu.rulebook.in_code import TORCH_NPU
from gpu2npu.support.cann import CPU_INDEX

# A line with those that continue it.
_LINE = re.compile(r"(?:[^\\\n]|\\(?!\r?\n)|\\\r?\n)+")
_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)
# A comment, and no option: a setup.py often takes its requirements from this file.
_INDEX = f"  # with PyTorch's build for the CPU: pip install --extra-index-url {CPU_INDEX}"


def requirements_marks(text: str, knowledge: Knowledge, installs: bool = True) -> list[Mark]:
    """Return the marks for a requirements file: its edits and findings.

    One that installs nothing (a constraints file), or nothing on machines with NPUs, gets no new line.
    """
    found = []
    marks: list[Mark] = []
    for start, line in _lines(text):
        marks += knowledge.patterns(line, start)
        required = requirement(line, start)
        if required is not None:
            found.append(required)
            marks += requirement_marks(required, knowledge)
    hashed = "--hash" in text
    marks += _hashed_edits(text, marks) if hashed else []
    marks += missing_release(found, knowledge)
    wanted, new = npu_requirements(found if installs else (), knowledge)
    for torch in wanted:
        if hashed:
            message = f"{ADDED} Add {new} with its hash: pip checks hashes for this file."
            place = (torch.start, torch.end)
            marks.append(of_environment(place, TORCH_NPU, FindingKind.REVIEW, torch.name, message))
            continue
        marks.append(_new_line(text, torch.start, new + torch.marker + ("" if CPU_INDEX in text else _INDEX)))
    return marks


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Each logical line with its place, without its comment."""
    for match in _LINE.finditer(text):
        line = _COMMENT.sub("", match[0])
        if line.strip():
            yield match.start(), line


def _hashed_edits(text: str, marks: list[Mark]) -> list[Mark]:
    notes: list[Mark] = []
    for mark in marks:
        line_end = next((m.end() for m in _LINE.finditer(text) if m.start() <= mark.place[0] < m.end()), len(text))
        if isinstance(mark, Edit) and "--hash" in text[mark.place[0] : line_end]:
            message = "The hashes beside this requirement are those of its old version: replace them."
            notes.append(of_environment(mark.place, mark.rule, FindingKind.REVIEW, "--hash", message))
    return notes


def _new_line(text: str, after: int, line: str) -> Edit:
    newline = "\r\n" if "\r\n" in text else "\n"
    logical = next(match for match in _LINE.finditer(text) if match.start() <= after < match.end())
    end = logical.end() - (text[: logical.end()].endswith("\r"))
    if text.startswith(("\n", "\r\n"), end):
        at = end + len(newline if text.startswith("\r\n", end) else "\n")
        return Edit((at, at), line + newline, TORCH_NPU, ADDED)
    return Edit((end, end), newline + line, TORCH_NPU, ADDED)
