"""Strings that are keys of a table: they are renamed where they are stored and read, or nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from gpu2npu.engine.strings.places import StringPlace
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.facts.values import ARGUMENT, COMPARE, INHERIT, LOAD, STORE
from gpu2npu.python.flow.value_calls import ValueOrigin
from gpu2npu.python.flow.values import Values
from gpu2npu.python.tree.syntax import string_value
from gpu2npu.rulebook.rule import Role


def sibling_keys(place: StringPlace) -> frozenset[str]:
    """The keys of the dicts that a key is stored in or looked up in; none where it stays, or a dict is not known."""
    values = values_of(place.names.project)
    tables = _tables(place, values)
    text = string_value(place.node) or ""
    if any(_is_read_by_others(each, text, place.names.path, values) for each in tables):
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
    return text in _keys(table, values) and _is_read_by_others(table, text, asker, values)


def _read_from(place: int, values: Values) -> Iterator[tuple[int, str]]:
    """The values that a value is read from, with the field."""
    return ((base, field) for base, how, field in values.at(place).into.get(place, ()) if how == LOAD)


def is_key(place: StringPlace) -> bool:
    """Return whether a string is asked for in what is a table, which has it or is read by it: `"GPU" in resources`
    beside `resources["GPU"]`"""
    values, field = values_of(place.names.project), _field(string_value(place.node) or "")
    bases = [base for base, _ in _lookups(place, values)]
    if any(each.text == "sys.modules" for base in bases for each in values.sources(base, place.names.path)):
        return False  # Python's own
    if stays(place):
        return True
    tables = {*_tables(place, values), *bases}
    return any(field in values.at(each).loads.get(each, ()) for table in tables for each in _holders(table, values))


def is_option(place: StringPlace, role: Role) -> bool:
    """Return whether a string is a key beside others than devices, of what is read by written keys alone, and so means
    none: `{"cuda": True, "seed": 1}`, `state["cuda"] = get_rng_state()` beside `state["python"]`."""
    values, field = values_of(place.names.project), _field(string_value(place.node) or "")
    at = values.place_of(place.names, place.node.lineno, place.node.col_offset)
    siblings = {_field(each) for each in role.siblings} | {field}
    tables = dict.fromkeys([*(table for table, _ in _lookups(place, values)), *(_looked_up(at, values) if at else ())])
    holders = (_all_holders(each, values) for each in tables)
    return any(
        _has_other_keys(each, siblings, values) and (_has_flag(each, field, values) or _has_written_keys(each, values))
        for each in holders
    )


def _all_holders(table: int, values: Values) -> set[int]:
    """The places of a table, and of what it comes from, wherever they are as a whole."""
    tables = [table, *(each.place for each in values.origins(table))]
    return {each for one in tables for each in (one, *_holders(one, values))}


def _has_other_keys(holders: set[int], siblings: set[str], values: Values) -> bool:
    tables = (table.get(each, {}) for each in holders for table in (values.at(each).stores, values.at(each).loads))
    return not {key for fields in tables for key in fields if key.startswith("['")} <= siblings


def _has_flag(holders: set[int], field: str, values: Values) -> bool:
    """Return whether the keys of a table are names of parameters, and the value of one is a flag: `show(**table)`."""
    stored = (each for at in holders for each in values.at(at).stores.get(at, {}).get(field, ()))
    edges = (edge for at in holders for edge in values.at(at).out.get(at, ()))
    is_flag = {type(values.kind(each)[1]) for each in stored} == {bool}
    return is_flag and any((kind, label) == (ARGUMENT, "**") for _, kind, label in edges)


def _has_written_keys(holders: set[int], values: Values) -> bool:
    """Return whether a table is read by keys that are written out alone, and what is in it is not gone through."""
    loads = [values.at(each).loads.get(each, {}) for each in holders]
    if any("[*]" in fields or "[each]" in fields for fields in loads):
        return False
    read = [key for fields in loads for key in fields.get("[key]", ())]
    return all(kind == COMPARE for key in read for _, kind, _ in values.at(key).out.get(key, ()))


def _looked_up(key: int, values: Values) -> list[int]:
    """The places of what a key is looked up in, wherever it is passed as a whole."""
    edges = [edge for at in _holders(key, values) for edge in values.at(at).out.get(at, ())]
    compared = [target for target, kind, _ in edges if kind == COMPARE]
    return list(dict.fromkeys(base for at in compared for base, field in _read_from(at, values) if field == "[key]"))


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


def _is_read_by_others(table: int, text: str, asker: str, values: Values) -> bool:
    """Return whether a dict, or what it is in, is written to a file, or its key is a parameter, or is read of what is
    not known to be another dict, in a file that has the dict."""
    file, field = values.file_at(asker), _field(text)
    if any(_is_written(each, values) for each, _ in values.reach(table)):
        return True
    if any(_is_parameter_of(each, field, values) for each in _holders(table, values)):
        return True
    files = {values.at(each).path: values.at(each) for each in _holders(table, values)}
    files |= {file.path: file} if file is not None else {}
    readers = [each for one in files.values() for each, loads in one.loads.items() if field in loads]
    sources = [values.sources(each, asker) for each in readers]
    return any(not each or not all(_is_display(one, values) for one in each) for each in sources)


def _is_display(one: ValueOrigin, values: Values) -> bool:
    """Return whether a value is a dict as it is written out or a new one, and not a copy, which has its keys."""
    file = values.at(one.place)
    if one.kind != "container" or one.place not in file.calls:
        return one.kind == "container"
    is_copy = any(kind == INHERIT for _, kind, _ in file.into.get(one.place, ()))
    return not is_copy and values.effect_of(one.place) in ("counted", "default", "table")


def _is_written(place: int, values: Values) -> bool:
    """Return whether a value is an argument of a call that writes a file."""
    out = values.at(place).out.get(place, ())
    return any(kind == ARGUMENT and values.effect_of(target) == "written" for target, kind, _ in out)


def _is_parameter_of(place: int, field: str, values: Values) -> bool:
    """Return whether a dict is given by `**` to a function that has a parameter of a key's name, or is not known."""
    for call, kind, label in values.at(place).out.get(place, ()):
        if kind == ARGUMENT and label == "**" and not values.effect_of(call):
            callees = [origin.kind for origin, _ in values.callees(call)]
            named = (taken for _, taken, _ in values.bindings(call, label))
            if not callees or "outside" in callees or "unknown" in callees or field in named:
                return True
    return False
