"""Makefiles: their variables and conditions, and the shell of their recipes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu2npu.engine.knowledge import Knowledge
from gpu2npu.engine.marks import Mark
from gpu2npu.formats.marks import shifted
from gpu2npu.formats.shell import shell_marks

# A line with those that continue it.
_LINE = re.compile(r"(?:[^\n\\]|\\\r?\n|\\.)+")
_VARIABLE = re.compile(
    r"\s*(?:export\s+|override\s+)?(?P<name>[A-Za-z_]\w*)\s*(?:(?::{1,3}|[?+!])?=\s*(?P<value>.*)|$)", re.DOTALL
)
_CONDITION = re.compile(
    r"\s*(?:else\s+)?ifn?eq\b\s*[(\"']\s*\$[({](?P<name>\w+)[)}][\"']?(?:\s*,\s*|\s+)[\"']?(?P<value>[\w:.,]+)"
)
_READ = re.compile(r"\$\$?[{(]?(?P<name>[A-Za-z_]\w*)")


def makefile_marks(text: str, knowledge: Knowledge) -> list[Mark]:
    """Return the marks for a makefile: its edits and findings."""
    marks: list[Mark] = []
    for match in _LINE.finditer(text):
        line = match[0]
        if line.startswith("\t"):
            body = line.lstrip("\t @-")
            marks += shifted(shell_marks(body, knowledge), match.end() - len(body))
        else:
            marks += shifted(_line_marks(line, knowledge), match.start())
    for match in _READ.finditer(text):
        marks += knowledge.variable(match["name"], match.start("name"))
    return marks


def _line_marks(line: str, knowledge: Knowledge) -> Iterator[Mark]:
    """A line that is not a recipe: `DEVICE ?= cuda`, `FLAGS = --device cuda`, `ifeq ($(DEVICE),cuda)`."""
    condition = _CONDITION.match(line)
    if condition is not None:
        yield from knowledge.value(condition["name"], condition["value"], condition.start("value"))
        return
    variable = _VARIABLE.match(line)
    if variable is None:
        return
    yield from knowledge.variable(variable["name"], variable.start("name"))
    if variable["value"]:
        word = re.match(r"\S+(?=\s*(?:#|$))", variable["value"])
        if word is not None:
            yield from knowledge.value(variable["name"], word[0], variable.start("value"))
        yield from shifted(shell_marks(variable["value"], knowledge), variable.start("value"))
