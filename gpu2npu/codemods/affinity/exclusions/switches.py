"""Values that are False, whoever gives them."""

from __future__ import annotations

import ast

from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.flow.value_calls import ValueOrigin


def sources(file: ParsedFile, node: ast.expr) -> list[ValueOrigin]:
    """The sources of a value, without dicts that lack it: `f(**{"fast": True})` gives no other parameter a value."""
    values = values_of(file.names.project)
    place = values.place(file.names, node)
    found = values.sources(place, file.path) if place else []
    return [each for each in found if each.kind != "unknown" or values.kind(each.place)[0] != "container"]


def may_be_true(file: ParsedFile, node: ast.expr) -> bool:
    """Return whether a value may be another than False, through parameters too: a default that no caller replaces."""
    values = values_of(file.names.project)
    found = [values.kind(each.place) for each in sources(file, node)]
    return not found or any(kind != "number" or number is not False for kind, number in found)
