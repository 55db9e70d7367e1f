"""Objects that have as attributes or elements what another object holds: through their `__dict__`, through what Python
looks attributes and elements up by, or as the items of one dict are stored in another."""

from __future__ import annotations

from collections.abc import Iterator

from gpu2npu.python.facts.values import ASSIGN, INHERIT, KEYS, LOAD, STORE, SUBSCRIPT, Called
from gpu2npu.python.flow.indirect_calls import join_registered
from gpu2npu.python.flow.value_files import CallEffect, ValueFile

_LOOKUPS = frozenset({".__getattr__", ".__getattribute__", ".__getitem__"})


def join_holders(file: ValueFile) -> None:
    """Join such objects of a file to what they get."""
    if "[key]" in file.facts.labels:
        _items_held(file)
    if ".__dict__" in file.facts.labels:
        _dicts(file)
    if not _LOOKUPS.isdisjoint(file.facts.labels):
        _lookups(file)
    _members(file)
    if ".register" in file.facts.labels:
        join_registered(file)


def table_of(file: ValueFile, key: int, value: int) -> int | None:
    """The dict one of whose keys a value is stored under: its items or its keys are gone over."""
    read = {source for source, kind, label in file.into.get(value, ()) if kind == LOAD and label == "[*]"}
    read |= {source for each in read for source, kind, _ in file.into.get(each, ()) if kind == ASSIGN}
    todo = [key]
    for place in todo:  # grows while it is read
        call = file.calls.get(place)
        if call is not None and call.name in ("items", "keys") and call.receiver:
            return file.first + call.receiver
        if place in read:
            return place
        todo += [
            source
            for source, kind, label in file.into.get(place, ())
            if (kind in (ASSIGN, INHERIT) or (kind == LOAD and label in ("[0]", "[each]"))) and source not in todo
        ]
    return None


def load_attribute(file: ValueFile, owner: int, name: str | None, result: int) -> None:
    """A value is the attribute of an object that has a name, or any where that is not known."""
    table = file.new(file.lines[result - file.first]) if name is None else owner
    if name is None:
        file.add(owner, KEYS, table)
    file.add(table, LOAD, result, "[*]" if name is None else f".{name}")


def set_attribute(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The first argument has the third one as an attribute, or all that a dict holds, whose items are gone over."""
    given = file.arguments(call)
    text = file.values.get(given.get("1", 0))
    if not {"0", "1", "2"} <= given.keys():
        return
    if text is not None:
        file.add(given["2"], STORE, given["0"], f".{text}")
    elif (table := table_of(file, given["1"], given["2"])) is not None:
        file.join(table, KEYS, given["0"], ".")


def read_into(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The object holds what the call reads."""
    parser(file, call, effect)
    if call.receiver:
        file.join(file.first + call.node, INHERIT, file.first + call.receiver)


def parser(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result holds what each of the `parents` holds."""
    if (parents := file.arguments(call).get("parents")) is not None:
        each = file.load(parents, "[each]", call.line)
        file.join(each, INHERIT, file.first + call.node)


def parsed_with_rest(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The first element of the result holds what the object holds."""
    if call.receiver:
        parsed = file.new(call.line)
        file.add(file.first + call.receiver, INHERIT, parsed)
        file.add(parsed, STORE, file.first + call.node, "[0]")


def option(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The default, constant and choices, and what the `type` gives, are an attribute of what the object parses, by the
    name of an option."""
    given = file.arguments(call)
    names = [text for key, value in given.items() if key.isdigit() and (text := file.values.get(value))]
    long = [each for each in names if each.startswith("--")]
    name = file.values.get(given.get("dest", 0)) or next(iter([*long, *names]), None)
    if call.receiver and name:
        field = "." + name.lstrip("-").replace("-", "_")
        values = [given[key] for key in ("default", "const") if key in given]
        if "type" in given:
            values.append(file.load(given["type"], "()", call.line))
        _declare(file, call, {file.first + call.receiver: field}, values, given.get("choices"))


def flag(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The same of `FLAGS` in the module of the function, behind the name; and the `value` of the result."""
    given = file.arguments(call)
    name = file.values.get(given.get("name", given.get("0", 0)))
    flags = file.loads.get(file.first + call.receiver, {}).get(".FLAGS", []) if call.receiver else []
    flags = flags + [file.first + one.node for one in file.facts.imports if one.name == "FLAGS"]
    holders = dict.fromkeys(flags, f".{name}") | {file.first + call.node: ".value"}
    choices = given.get("enum_values", given.get("2")) if call.name == "DEFINE_enum" else None
    default = given.get("default", given.get("1"))
    _declare(file, call, holders, [default] if default else [], choices)


def _declare(file: ValueFile, call: Called, holders: dict[int, str], values: list[int], choices: int | None) -> None:
    """Some holders have one of some values, or of some choices, in a field."""
    if choices:
        values.append(file.new(call.line))
        file.add(choices, LOAD, values[-1], "[each]")
    for value in values:
        for holder, field in holders.items():
            file.add(value, STORE, holder, field)


def _items_held(file: ValueFile) -> None:
    """Join dicts to those whose items are stored in them."""
    for holder, stores in list(file.stores.items()):
        if "[key]" in stores and "[*]" in stores:
            pairs = ((key, value) for key in stores["[key]"] for value in stores["[*]"])
            for table in dict.fromkeys(table_of(file, *pair) for pair in pairs):
                if table is not None:
                    file.join(table, INHERIT, holder)


def _dicts(file: ValueFile) -> None:
    """Join objects to their `__dict__`, whose elements are their attributes."""
    for owner, loads in list(file.loads.items()):
        for held in loads.get(".__dict__", ()):
            file.add(owner, KEYS, held)
            file.join(held, KEYS, owner, ".")
    for owner, stores in list(file.stores.items()):
        for table in stores.get(".__dict__", ()):
            file.join(table, KEYS, owner, ".")


def _members(file: ValueFile) -> None:
    """Give the objects of a class what is assigned in it as the attribute `value`, as those of an Enum have it: where
    it has a base, and no such attribute itself."""
    for made in file.facts.classes:
        stores = file.stores.get(file.first + made.node, {}) if made.bases else {}
        for label, sources in stores.items() if ".value" not in stores else ():
            for each in sources if label != "()" else ():
                if file.kinds.get(each, ("text",))[0] == "text":
                    file.add(each, STORE, file.first + made.instance, ".value")


def _lookups(file: ValueFile) -> None:
    """Join the objects of a class to those from which its methods take what Python looks up by them: attributes and
    elements."""
    for made in file.facts.classes:
        stores = file.stores.get(file.first + made.node, {})
        for name, function in ((label, each) for label in _LOOKUPS & stores.keys() for each in stores[label]):
            for source in [function, *(source for source, kind, _ in file.into.get(function, ()) if kind == ASSIGN)]:
                (what, one), is_element = file.kinds.get(source, ("", None)), name == ".__getitem__"
                if what == "function" and len(one.positional) > 1:
                    taken = list(_taken_by(file, source, file.first + one.positional[1][1]))
                    for each in file.stores.get(source, {}).get("()", ()) if not taken and is_element else ():
                        file.add(each, STORE, file.first + made.instance, "[*]")
                    for table, is_attribute in taken:
                        is_same = is_attribute != is_element
                        kind, label = (INHERIT, "") if is_same else (KEYS, "" if is_attribute else ".")
                        file.join(table, kind, file.first + made.instance, label)


def _taken_by(file: ValueFile, function: int, key: int) -> Iterator[tuple[int, bool]]:
    """The objects from which a function returns what is under a parameter, and whether that is an attribute."""
    todo = list(file.stores.get(function, {}).get("()", ()))
    for place in todo:  # grows while it is read
        call, operation = file.calls.get(place), file.operations.get(place)
        given = file.arguments(call) if call is not None else {}
        if operation is not None and file.first + operation.operands[1] == key and operation.operator == SUBSCRIPT:
            yield file.first + operation.operands[0], False
        elif call is not None and call.name == "get" and call.receiver and given.get("0") == key:
            yield file.first + call.receiver, False
        elif call is not None and call.name == "getattr" and "0" in given and given.get("1") == key:
            yield given["0"], True
        todo += [source for source, kind, _ in file.into.get(place, ()) if kind == ASSIGN and source not in todo]
