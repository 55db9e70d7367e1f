"""Strings that are keys of a table: they are renamed where they are stored and read, or nowhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.engine.strings.places import StringPlace
from gpu2npu.engine.strings.value_effects import EFFECTS, values_of
from gpu2npu.python.facts.values import ARGUMENT, COMPARE, LOAD, STORE
from gpu2npu.python.flow.value_calls import ValueOrigin
from gpu2npu.python.flow.values import Values
from gpu2npu.python.tree.scopes import Assigned
from gpu2npu.python.tree.syntax import string_value
from gpu2npu.rulebook.rule import Role


def keys_beside(place: StringPlace) -> frozenset[str]:
    """The keys of the dicts that a key is stored in or looked up in; none where it stays, or a dict is not known."""
    values = values_of(place.names.project)
    tables = _tables(place, values)
    text = string_value(place.node) or ""
    if any(_is_read_elsewhere(each, text, place.names.path, values) for each in tables):
        return frozenset()
    return frozenset(key for each in tables for key in _keys(each, values))


def stays(place: StringPlace) -> bool:
    """Return whether a key is one of a dict that other code reads: a change of the key alone would lose the entry."""
    values, text = values_of(place.names.project), string_value(place.node) or ""
    return any(stays_in(each, text, place.names.path, values) for each in _tables(place, values))


def tables_compared(other: int, asker: str, values: Values) -> list[int] | None:
    """The dicts with whose keys a value is compared, none where it is compared with others; None if one is unknown."""
    bases = [base for base, field in _read_from(other, values) if field == "[key]"]
    origins = [values.sources(base, asker) for base in bases]
    if not all(each and all(_is_display(one, values) for one in each) for each in origins):
        return None
    return [one.place for each in origins for one in each]


def looked_up_by(table: int, values: Values) -> list[int]:
    """The values that are looked up in a dict, wherever it is."""
    loads = (values.at(each).loads.get(each, {}) for each in _holders(table, values))
    keys = [node for each in loads for node in each.get("[key]", ())]
    return [target for key in keys for target, kind, _ in values.at(key).out.get(key, ()) if kind == COMPARE]


def stays_in(table: int, text: str, asker: str, values: Values) -> bool:
    """Return whether a key is one of a dict that other code reads."""
    return text in _keys(table, values) and _is_read_elsewhere(table, text, asker, values)


def _read_from(place: int, values: Values) -> Iterator[tuple[int, str]]:
    """The values that a value is read from, with the field."""
    return ((base, field) for base, how, field in values.at(place).into.get(place, ()) if how == LOAD)


def is_key(place: StringPlace) -> bool:
    """Return whether a string is asked for in what is a table, which has it or is read by it: `"GPU" in resources`
    beside `resources["GPU"]`"""
    values, field = values_of(place.names.project), _field(string_value(place.node) or "")
    if stays(place):
        return True
    tables = {*_tables(place, values), *(base for base, _ in _lookups(place, values))}
    return any(field in values.at(each).loads.get(each, ()) for table in tables for each in _holders(table, values))


def is_flag(place: StringPlace, role: Role) -> bool:
    """Return whether a string is the key of what is true or false, among other options, and so means no device:
    `{"cuda": True, "seed": 1}`, `args["cuda"] = not args["cpu"]`, and where such a key is looked up."""
    values, parent, text = values_of(place.names.project), place.parent(place.node), string_value(place.node)
    if parent is not None and _is_enumerated(parent, place):
        return False
    if isinstance(parent, ast.Dict) and place.node in parent.keys:
        keys = {string_value(each) for each in parent.keys if each is not None}
        return bool(keys - role.siblings - {text}) and _is_truth(parent.values[parent.keys.index(place.node)], place)
    if isinstance(parent, ast.Subscript):
        table, nodes = ast.unparse(parent.value), list(place.names.file.parents)
        assigned = [
            node.value
            for node in nodes
            if isinstance(node, ast.Assign) and any(ast.unparse(each) == ast.unparse(parent) for each in node.targets)
        ]
        if assigned:
            same = [each for each in nodes if isinstance(each, ast.Subscript) and ast.unparse(each.value) == table]
            keys = {string_value(each.slice) for each in same} - role.siblings - {text, None}
            return bool(keys) and all(_is_truth(each, place) for each in assigned)
    elif not isinstance(parent, ast.Call):
        return False
    at = values.place_of(place.names, place.node.lineno, place.node.col_offset)
    tables = _looked_up(at, values) if at is not None else []
    return any(_is_flag_of(each, _field(text or ""), role, values) for each in tables)


def _is_enumerated(parent: ast.AST, place: StringPlace) -> bool:
    """Return whether a file reads a table under keys that are not written out, or goes over it."""
    holder = place.parent(parent) if isinstance(parent, ast.Dict) else parent
    named = holder.targets[:1] if isinstance(holder, ast.Assign) else []
    named += [parent.value] if isinstance(parent, ast.Subscript) else []
    named += [parent.func.value] if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) else []
    tables = {ast.unparse(each) for each in named}
    for node in place.names.file.parents if tables else ():
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            if ast.unparse(node.value) in tables:
                return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            is_written = all(isinstance(each, ast.Constant) for each in node.args[:1])
            if not is_written and ast.unparse(node.func.value) in tables:
                return True
        elif isinstance(node, (ast.For, ast.comprehension)):
            over = node.iter.func if isinstance(node.iter, ast.Call) else node.iter
            base = over.value if isinstance(over, ast.Attribute) else over
            if ast.unparse(base) in tables:
                return True
    return False


def _is_truth(node: ast.expr, place: StringPlace) -> bool:
    """Return whether a value is true or false by how it is written, or by all that a name is assigned."""
    if isinstance(node, ast.Name):
        found = place.names.file.scope_of(node).lookup(node.id)
        assigned = [each.value if isinstance(each, Assigned) else None for each in found[1]] if found else []
        return bool(assigned) and all(
            value is not None and not isinstance(value, ast.Name) and _is_truth(value, place) for value in assigned
        )
    if isinstance(node, ast.BoolOp):
        return all(_is_truth(each, place) for each in node.values)
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_not or isinstance(node, ast.Compare) or (isinstance(node, ast.Constant) and isinstance(node.value, bool))


def _looked_up(key: int, values: Values) -> list[int]:
    """The places of what a key is looked up in, wherever it goes as a whole."""
    edges = [edge for at in _holders(key, values) for edge in values.at(at).out.get(at, ())]
    compared = [target for target, kind, _ in edges if kind == COMPARE]
    return list(dict.fromkeys(base for at in compared for base, field in _read_from(at, values) if field == "[key]"))


def _is_flag_of(base: int, field: str, role: Role, values: Values) -> bool:
    for table in (base, *(each.place for each in values.origins(base))):
        stored = values.at(table).stores.get(table, {})
        options = {each for each in stored if each.startswith("['")} - {f"[{each!r}]" for each in role.siblings}
        if any(isinstance(values.kind(each)[1], bool) for each in stored.get(field, ())) and options - {field}:
            return True
    return False


def _field(key: str) -> str:
    return f"[{key!r}]"


def _lookups(place: StringPlace, values: Values) -> Iterator[tuple[int, bool]]:
    """The values that a key is looked up in, or the dict display that has it; and whether it is the display."""
    at = values.place_of(place.names, place.node.lineno, place.node.col_offset)
    file = values.file_of(place.names)
    for target, kind, label in file.out.get(at, ()) if file is not None and at is not None else ():
        if kind == STORE and label == "[key]":
            yield target, True
        elif kind == COMPARE:
            yield from ((base, False) for base, field in _read_from(target, values) if field in ("[key]", "[each]"))


def _tables(place: StringPlace, values: Values) -> list[int]:
    """The dicts that a key is in, if all that it is looked up in is known."""
    found: dict[int, None] = {}
    for base, is_display in _lookups(place, values):
        origins = [] if is_display else values.sources(base, place.names.path)
        if not all(_is_display(each, values) for each in origins):
            return []
        found.update(dict.fromkeys([base] if is_display else [each.place for each in origins]))
    return list(found)


def _keys(table: int, values: Values) -> list[str]:
    stored = values.at(table).stores.get(table, {}).get("[key]", ())
    return [text for each in stored if (text := values.text(each)) is not None]


def _holders(table: int, values: Values) -> list[int]:
    """The places where a value is as a whole."""
    return [place for place, path in values.reach(table) if not path]


def _is_read_elsewhere(table: int, text: str, asker: str, values: Values) -> bool:
    """Return whether a dict, or what it is in, is written to a file, or its key is read of what is not known to be
    another dict, in a file that has the dict."""
    file, field = values.file_at(asker), _field(text)
    if any(_is_written(each, values) for each, _ in values.reach(table)):
        return True
    files = {values.at(each).path: values.at(each) for each in _holders(table, values)}
    files |= {file.path: file} if file is not None else {}
    readers = [each for one in files.values() for each, loads in one.loads.items() if field in loads]
    sources = [values.sources(each, asker) for each in readers]
    return any(not each or not all(_is_display(one, values) for one in each) for each in sources)


def _is_display(one: ValueOrigin, values: Values) -> bool:
    """Return whether a value is a dict as it is written out, and not a copy of one, which has its keys."""
    return one.kind == "container" and one.place not in values.at(one.place).calls


def _is_written(place: int, values: Values) -> bool:
    """Return whether a value is an argument of a call that writes a file."""
    out = values.at(place).out.get(place, ())
    return any(kind == ARGUMENT and _effect(target, values) == "written" for target, kind, _ in out)


def _effect(call: int, values: Values) -> str:
    """The kind of effect that a call has on its values; empty if it is not known."""
    called = values.at(call).calls.get(call)
    effect = EFFECTS.get(called.name) if called is not None else None
    return effect.kind if effect is not None else ""
