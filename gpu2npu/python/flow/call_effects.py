"""Effects of calls on their values: the edges that a call adds to its file, found by the last name of its callee.

Which names have an effect is data of the caller, as no library is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpu2npu.python.facts.values import (
    ASSIGN,
    COMPARE,
    INHERIT,
    KEYS,
    LOAD,
    MODULE,
    STORE,
    TEXT,
    Called,
    ClassValue,
    Taken,
    ValueFacts,
)
from gpu2npu.python.flow import holders, indirect_calls
from gpu2npu.python.flow.value_files import CallEffect, ValueFile


def _text(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is a text of the object and the arguments, or what their `__str__` returns."""
    result = file.first + call.node
    for value in {*file.arguments(call).values(), *([file.first + call.receiver] if call.receiver else [])}:
        file.add(value, TEXT, result)
        if call.name == "str" and ".__str__" in file.stored:
            file.add(file.load(value, ".__str__", call.line), LOAD, result, "()")


def _substituted(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is a text of the arguments, where one of them is a text: `re.sub`, and not the `sub` of a tensor."""
    if any(value in file.values for value in file.arguments(call).values()):
        _text(file, call, effect)


def _parts(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result holds parts of the text of the object."""
    if owner := _owner(file, call):
        file.add(owner, STORE, file.first + call.node, "[*]")


def _owner(file: ValueFile, call: Called) -> int:
    """The object that a method is called on; 0 where that is a module: `re.split`."""
    owner = file.first + call.receiver if call.receiver else 0
    named = (owner, *(source for source, kind, _ in file.into.get(owner, ()) if kind == ASSIGN))
    return 0 if any(file.kinds.get(each, ("", None))[0] == "import" for each in named) else owner


def _same(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is an argument, one of some keywords or the first one; or its class, which has its attributes; or
    what a `default_factory` makes."""
    given = file.arguments(call)
    if "default_factory" in given:
        file.add(given["default_factory"], LOAD, file.first + call.node, "()")
    for key in effect.keywords or ("0",):
        if key in given:
            file.add(given[key], INHERIT if effect.kind == "class" else ASSIGN, file.first + call.node)


def _copy(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result holds what the object and the arguments hold, and the keywords by their names."""
    given, result = file.arguments(call), file.first + call.node
    if owner := _owner(file, call):
        file.add(owner, INHERIT, result)
    for key, value in given.items():
        if key.isdigit() or key == "**":
            file.add(value, INHERIT, result)
        elif key != "*":
            file.add(value, STORE, result, f"['{key}']")


def _attributes(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The same, and what is under keys as attributes too, also of dicts in it."""
    _copy(file, call, effect)
    _fields(file, call, effect)
    for value in (value for key, value in file.arguments(call).items() if key.isdigit()):
        file.add(value, KEYS, file.first + call.node, ".")


def _table(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The same, and the second elements of pairs that are written out, by their first ones."""
    _copy(file, call, effect)
    pairs = file.stores.get(file.arguments(call).get("0", 0), {})
    for fields in (file.stores.get(pair, {}) for listed in pairs.values() for pair in listed):
        for key, value in zip(fields.get("[0]", ()), fields.get("[1]", ()), strict=False):
            file.add(key, STORE, file.first + call.node, "[key]")
            if key in file.values:
                file.add(value, STORE, file.first + call.node, f"[{file.values[key]!r}]")


def _default(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result holds a default, or what the factory in the first argument makes, under any key."""
    given, made = file.arguments(call), file.first + call.node
    if "default" in given:
        file.add(given["default"], STORE, made, "[*]")
    elif "0" in given and effect.keywords:
        file.add(file.load(given["0"], "()", call.line), STORE, made, "[*]")


def _counted(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The keys of the result are the elements of the first argument; the second one is under each."""
    given = file.arguments(call)
    if "0" in given:
        file.add(file.load(given["0"], "[each]", call.line), STORE, file.first + call.node, "[key]")
    if "1" in given:
        file.add(given["1"], STORE, file.first + call.node, "[*]")


def _set(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The object holds the last argument; without one the result is a set of the first."""
    (_added if call.receiver else _copy)(file, call, effect)
    if not call.receiver:
        file.kinds.setdefault(file.first + call.node, ("container", None))


def _keyed(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result holds the attributes of the object or the first argument under their names; that of `vars` is not a
    copy of them."""
    owner = file.arguments(call).get("0", call.receiver and file.first + call.receiver)
    if owner:
        file.add(owner, KEYS, file.first + call.node)
        if call.name == "vars":
            file.join(file.first + call.node, KEYS, owner, ".")


def _replaced(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result holds what the first argument or the object holds, but as its attributes the keywords, or what is
    under the keys of one; without them it is a text."""
    given, result = file.arguments(call), file.first + call.node
    named = {key: value for key, value in given.items() if key.isidentifier()}
    if not named and not effect.keywords:
        _text(file, call, effect)
        return
    file.add(given.get("0", file.first + call.receiver), INHERIT, result)
    for key, value in named.items():
        is_table = key in effect.keywords
        file.add(value, KEYS if is_table else STORE, result, "." if is_table else f".{key}")


def _joined(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is a text of the object and of the elements of the first argument."""
    _text(file, call, effect)
    given = file.arguments(call)
    if call.receiver and "0" in given:
        file.add(file.load(given["0"], "[each]", call.line), TEXT, file.first + call.node)


def _layers(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result holds the arguments, and is called as each of them is."""
    for key, value in file.arguments(call).items():
        layer = file.load(value, "[each]", call.line) if key == "*" else value
        file.add(layer, ASSIGN, file.first + call.node)
        file.add(layer, STORE, file.first + call.node, "[*]")


def _item(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is the element under the first argument, or the second one."""
    given, result = file.arguments(call), file.first + call.node
    if not call.receiver:
        return
    receiver, key = file.first + call.receiver, given.get("0", 0)
    text = file.values.get(key)
    if key and file.kinds.get(key, ("", None))[0] != "number":
        _compare(file, key, file.load(receiver, "[key]", call.line))
    file.add(receiver, LOAD, result, f"[{text!r}]" if text is not None else "[*]")
    if "1" in given:
        file.add(given["1"], ASSIGN, result)
        if call.name == "setdefault":
            file.add(given["1"], STORE, receiver, f"[{text!r}]" if text is not None else "[*]")


def _attribute(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is the attribute of the first argument that the second one names, or any, or the third one."""
    given, result = file.arguments(call), file.first + call.node
    if {"0", "1"} <= given.keys():
        holders.load_attribute(file, given["0"], file.values.get(given["1"]), result)
    if "2" in given:
        file.add(given["2"], ASSIGN, result)


def _added(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The object holds the last argument."""
    given = file.arguments(call)
    if call.receiver and given:
        file.add(list(given.values())[-1], STORE, file.first + call.receiver, "[*]")


def _merged(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The object holds what the first argument holds, and the keywords by their names."""
    for key, value in file.arguments(call).items() if call.receiver else ():
        if key in ("0", "**"):
            file.join(value, INHERIT, file.first + call.receiver)
        elif not key.isdigit():
            file.add(value, STORE, file.first + call.receiver, f"['{key}']")


def _items(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result holds pairs of a key and a value of the object."""
    _view(file, call, "[key]", "[*]", "[0]")
    _view(file, call, "[*]", "[*]", "[1]")


def _view(file: ValueFile, call: Called, read: str, *stored: str) -> None:
    """The result holds what is read of the object, each in these fields."""
    if not call.receiver:
        return
    node = file.load(file.first + call.receiver, read, call.line)
    for label in stored[:0:-1]:
        holder = file.new(call.line)
        file.add(node, STORE, holder, label)
        node = holder
    file.add(node, STORE, file.first + call.node, stored[0])


def _compared(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The first argument is compared with the object, or, where two are equal, with the second one."""
    given, receiver = file.arguments(call), call.receiver and file.first + call.receiver
    one, other = given.get("0", 0), given.get("1", 0) if effect.kind == "equal" else receiver
    if one and other:
        _compare(file, one, other)


def _found(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The first argument, or its elements where the call is of a set, is compared with the elements of the object."""
    given = file.arguments(call)
    if "0" in given and call.receiver:
        one = file.load(given["0"], "[each]", call.line) if effect.kind == "met" else given["0"]
        _compare(file, one, file.load(file.first + call.receiver, "[each]", call.line))


def _compare(file: ValueFile, one: int, other: int) -> None:
    file.add(one, COMPARE, other)
    file.add(other, COMPARE, one)


def _record(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is a class with the fields that the second argument names, in one text or a list."""
    given, result = file.arguments(call), file.first + call.node
    second = given.get("1", 0)
    text = file.values.get(second)
    listed = [file.values.get(value) for each in file.stores.get(second, {}).values() for value in each]
    fields = text.replace(",", " ").split() if text is not None else [each for each in listed if each]
    instance = file.new(call.line)
    made = ClassValue(call.node, instance - file.first, (), tuple(fields), ())
    file.kinds[result], file.kinds[instance] = ("class", made), ("instance", made)
    file.add(result, INHERIT, instance)
    file.add(instance, STORE, result, "()")


def _loaded(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is the module that the first argument names."""
    name = file.values.get(file.arguments(call).get("0", 0))
    if name is not None and "1" not in file.arguments(call):
        file.kinds[file.first + call.node] = "import", Taken(call.node, name, "")


def _element(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is an element of the first argument."""
    if "0" in (given := file.arguments(call)):
        file.add(given["0"], LOAD, file.first + call.node, "[each]")


def _largest(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is one of the arguments, or an element of the only one; that of a tensor's `max` is neither."""
    given = [value for key, value in file.arguments(call).items() if key.isdigit() and not call.receiver]
    kind, label = (ASSIGN, "") if len(given) > 1 else (LOAD, "[each]")
    for value in given:
        file.add(value, kind, file.first + call.node, label)


def _entered(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is the first argument, or what that gives where `with` enters it."""
    _same(file, call, effect)
    _element(file, call, effect)


def _rows(file: ValueFile, call: Called, first: int) -> None:
    """The result holds tuples of an element of each argument, behind `first` numbers."""
    row = file.new(call.line)
    file.kinds[row] = "container", None
    for key, value in file.arguments(call).items():
        if key.isdigit() or key == "*":
            each = file.load(value, "[each]", call.line)
            if key == "*":
                _columns(file, call, each)
            else:
                file.add(each, STORE, row, f"[{int(key) + first}]")
    file.add(row, STORE, file.first + call.node, "[*]")


def _columns(file: ValueFile, call: Called, row: int) -> None:
    """The result holds tuples of the elements that rows have in the same place."""
    for label in (each for each in file.facts.labels if each[1:-1].isdigit()):
        column = file.new(call.line)
        file.kinds[column] = "container", None
        file.add(file.load(row, label, call.line), STORE, column, "[*]")
        file.add(column, STORE, file.first + call.node, label)


def _fields(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result, or the object whose defaults are set, has the keywords as attributes."""
    holder = file.first + (call.receiver if effect.kind == "defaults" else call.node)
    for key, value in file.arguments(call).items():
        if key.isidentifier():
            file.add(value, STORE, holder, f".{key}")
        elif key == "**":
            file.join(value, KEYS, holder, ".")


_EFFECTS: dict[str, Callable[[ValueFile, Called, CallEffect], None]] = {
    "added": _added,
    "attribute": _attribute,
    "attributes": _attributes,
    "begins": _compared,
    "class": _same,
    "copy": _copy,
    "counted": _counted,
    "default": _default,
    "defaults": _fields,
    "element": _element,
    "entered": _entered,
    "evaluated": indirect_calls.evaluated,
    "equal": _compared,
    "fields": _fields,
    "filtered": indirect_calls.filtered,
    "found": _found,
    "getter": indirect_calls.getter,
    "globals": lambda file, call, _: file.add(file.first + MODULE, KEYS, file.first + call.node),
    "holding": _copy,
    "item": _item,
    "items": _items,
    "largest": _largest,
    "keyed": _keyed,
    "mapped": indirect_calls.mapped,
    "spawned": indirect_calls.started,
    "started": indirect_calls.started,
    "joined": _joined,
    "layers": _layers,
    "loaded": _loaded,
    "keys": lambda file, call, _: _view(file, call, "[key]", "[*]"),
    "merged": _merged,
    "met": _found,
    "method": indirect_calls.method,
    "sent": indirect_calls.sent,
    "flag": holders.flag,
    "option": holders.option,
    "ordered": indirect_calls.ordered,
    "numbered": lambda file, call, _: _rows(file, call, 1),
    "parsed": holders.parsed_with_rest,
    "partial": indirect_calls.partial,
    "parts": _parts,
    "parser": holders.parser,
    "instances": indirect_calls.instances,
    "read_into": holders.read_into,
    "record": _record,
    "reduced": indirect_calls.reduced,
    "replaced": _replaced,
    "same": _same,
    "set": _set,
    "set attribute": holders.set_attribute,
    "submitted": indirect_calls.submitted,
    "substituted": _substituted,
    "table": _table,
    "text": _text,
    "values": lambda file, call, _: _view(file, call, "[*]", "[*]"),
    "zipped": lambda file, call, _: _rows(file, call, 0),
}


# Effects whose result is a new object, which holds what is stored in it.
_MAKING = frozenset(
    {"attributes", "copy", "counted", "default", "fields", "filtered", "items", "keyed", "keys", "mapped", "numbered",
     "instances", "parser", "parts", "table", "values", "zipped"}
)  # fmt: skip


def read_values(path: str, first: int, facts: ValueFacts, effects: Mapping[str, CallEffect]) -> ValueFile:
    """The values of a file whose places begin at `first`, with what its calls do by their effects."""
    file = ValueFile(path, first, facts)
    taken = {one.node: one.name for one in facts.imports if one.name}  # `import Space as S`
    for call in facts.calls:
        effect = effects.get(taken.get(call.callee, call.name))
        if effect is not None and effect.kind in _EFFECTS:
            _EFFECTS[effect.kind](file, call, effect)
            if effect.kind in _MAKING:
                file.kinds.setdefault(first + call.node, ("container", None))
    for function in facts.functions:
        for call in (file.calls[first + each] for each in function.decorators if first + each in file.calls):
            if (effect := effects.get(call.name)) is not None and effect.kind in indirect_calls.DECORATIONS:
                indirect_calls.DECORATIONS[effect.kind](file, call, function)
    holders.join_holders(file)
    return file
