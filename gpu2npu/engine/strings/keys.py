"""Strings that are keys of a table: they are renamed where they are stored and read, or nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from gpu2npu.engine.strings.places import StringPlace
from gpu2npu.engine.strings.value_effects import EFFECTS, values_of
from gpu2npu.python.facts.values import ARGUMENT, COMPARE, LOAD, STORE
from gpu2npu.python.flow.values import ValueOrigin, Values
from gpu2npu.python.tree.syntax import string_value


def keys_beside(place: StringPlace) -> frozenset[str]:
    """The keys of the dicts that a key is stored in or looked up in; none where it stays, or a dict is not known."""
    values = values_of(place.names.project)
    tables = _tables(place, values)
    if any(_is_read_elsewhere(each, place, values) for each in tables):
        return frozenset()
    return frozenset(text for each in tables for text in _keys(each, values))


def stays(place: StringPlace) -> bool:
    """Return whether a key is one of a dict that other code reads: a change of the key alone would lose the entry."""
    values, text = values_of(place.names.project), string_value(place.node)
    return any(
        text in _keys(each, values) and _is_read_elsewhere(each, place, values) for each in _tables(place, values)
    )


def is_key(place: StringPlace) -> bool:
    """Return whether a string is asked for in what is a table, which has it or is read by it: `"GPU" in resources`
    beside `resources["GPU"]`"""
    values, field = values_of(place.names.project), _field(place)
    if stays(place):
        return True
    tables = {*_tables(place, values), *(base for base, _ in _lookups(place, values))}
    return any(field in values.at(each).loads.get(each, ()) for table in tables for each in _holders(table, values))


def _field(place: StringPlace) -> str:
    return f"[{string_value(place.node)!r}]"


def _lookups(place: StringPlace, values: Values) -> Iterator[tuple[int, bool]]:
    """The values that a key is looked up in, or the dict display that has it; and whether it is the display."""
    at = values.place_of(place.names, place.node.lineno, place.node.col_offset)
    file = values.file_of(place.names)
    for target, kind, label in file.out.get(at, ()) if file is not None and at is not None else ():
        if kind == STORE and label == "[key]":
            yield target, True
        elif kind == COMPARE:
            loads = file.into.get(target, ()) if file is not None else ()
            yield from ((base, False) for base, how, field in loads if how == LOAD and field in ("[key]", "[each]"))
        elif kind == ARGUMENT and label == "0" and file is not None and _effect(target, values) == "item":
            yield file.first + file.calls[target].receiver, False


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


def _is_read_elsewhere(table: int, place: StringPlace, values: Values) -> bool:
    """Return whether a dict, or what it is in, is written to a file, or its key is read of what is not known to be
    another dict, in a file that has the dict."""
    file, field = values.file_of(place.names), _field(place)
    if any(_is_written(each, values) for each, _ in values.reach(table)):
        return True
    files = {values.at(each).path: values.at(each) for each in _holders(table, values)}
    files |= {file.path: file} if file is not None else {}
    readers = [each for one in files.values() for each, loads in one.loads.items() if field in loads]
    sources = [values.sources(each, place.names.path) for each in readers]
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
