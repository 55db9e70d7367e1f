"""Strings that are keys of a table."""

from __future__ import annotations

import ast

from gpu2npu.engine.strings.places import StringPlace
from gpu2npu.python.tree.syntax import last_name, string_value

# Calls that write a table to a file, which other code reads.
_WRITERS = frozenset({"dump", "dumps", "safe_dump", "save", "save_checkpoint", "save_file"})


def keys_of(table: ast.AST, place: StringPlace) -> frozenset[str]:
    """The keys of a dict display that a name stands for everywhere: they are renamed alike, or none of them is."""
    shown = _display(table, place)
    return frozenset() if shown is None or stays(table, place) else place.siblings.inside(shown)


def stays(table: ast.AST, place: StringPlace) -> bool:
    """Return whether a string is a key of a dict display that stays, as it is read elsewhere."""
    shown, text = _display(table, place), string_value(place.node)
    if shown is None:
        return False
    return any(string_value(key) == text and is_read_elsewhere(shown, key, place) for key in shown.keys)


def _display(table: ast.AST, place: StringPlace) -> ast.Dict | None:
    value = place.names.file.scope_of(table).only_value(table.id) if isinstance(table, ast.Name) else None
    return value if isinstance(value, ast.Dict) else None


def is_key(comparison: ast.Compare, place: StringPlace) -> bool:
    """`if "GPU" in resources:` beside `resources["GPU"]`"""
    table, text = comparison.comparators[0], string_value(place.node)
    if not isinstance(comparison.ops[0], (ast.In, ast.NotIn)) or not isinstance(table, ast.Name):
        return False
    if stays(table, place):
        return True
    home = place.scope.lookup(table.id)
    used = (
        place.parent(node)
        for node, scope in place.siblings.reads(table.id, place.names.file)
        if scope.lookup(table.id) == home
    )
    return any(isinstance(each, ast.Subscript) and string_value(each.slice) == text for each in used)


def is_read_elsewhere(table: ast.Dict, key: ast.AST | None, place: StringPlace) -> bool:
    """Return whether a dict display is written to a file, or its key is read of what is not known to be it: a change
    of the key alone would lose the entry."""
    file = place.names.file
    above = file.parents[table]
    names = (
        above.targets if isinstance(above, ast.Assign) else [above.target] if isinstance(above, ast.AnnAssign) else []
    )
    shown = {file.code(name) for name in names}
    calls: list[ast.Call] = [*file.unordered().get(ast.Call, ())]
    if any(
        last_name(call.func) in _WRITERS and any(each is table or file.code(each) in shown for each in call.args)
        for call in calls
    ):
        return True
    reads: list[ast.Subscript] = [*file.unordered().get(ast.Subscript, ())]
    return any(
        string_value(read.slice) == string_value(key) and isinstance(read.ctx, ast.Load)
        for read in reads
        if file.code(read.value) not in shown and read.value is not table and _display(read.value, place) is None
    )
