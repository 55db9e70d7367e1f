"""Strings that are keys of a table."""

from __future__ import annotations

import ast

from gpu2npu.engine.strings.places import StringPlace
from gpu2npu.python.tree.syntax import string_value


def keys_of(table: ast.AST, place: StringPlace) -> frozenset[str]:
    """The keys of a dict display that a name stands for everywhere: they are renamed alike."""
    value = place.scope.only_value(table.id) if isinstance(table, ast.Name) else None
    return place.siblings.inside(value) if isinstance(value, ast.Dict) else frozenset()


def is_key(comparison: ast.Compare, place: StringPlace) -> bool:
    """`if "GPU" in resources:` beside `resources["GPU"]`"""
    table, text = comparison.comparators[0], string_value(place.node)
    if not isinstance(comparison.ops[0], (ast.In, ast.NotIn)) or not isinstance(table, ast.Name):
        return False
    home = place.scope.lookup(table.id)
    used = (
        place.parent(node)
        for node, scope in place.siblings.reads(table.id, place.names.file)
        if scope.lookup(table.id) == home
    )
    return any(isinstance(each, ast.Subscript) and string_value(each.slice) == text for each in used)
