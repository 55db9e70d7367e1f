"""Effects of calls that have what they are given called: by them, by a process that they start, or as a decorated
function."""

from __future__ import annotations

from collections.abc import Callable

from gpu2npu.python.facts.values import ARGUMENT, ASSIGN, INHERIT, LOAD, STORE, TEXT, Called, Parameters
from gpu2npu.python.flow.value_files import CallEffect, ValueFile


def partial(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is the first argument, and the other arguments are given to it: once here, whoever calls the rest."""
    submitted(file, call, effect)
    file.add(file.arguments(call).get("0", 0), ASSIGN, file.first + call.node)


def evaluated(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is what the code in the first argument gives, or an object of the class that it is."""
    given = file.arguments(call)
    if "0" in given:
        file.add(given["0"], LOAD, file.first + call.node, "()")


def instances(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result holds an object of each of the classes in the first argument, or of the class that it is."""
    classes = next(iter(file.arguments(call).values()), 0)
    listed = {key: each[0] for key, each in file.stores.get(classes, {}).items() if key[1:-1].isdigit()}
    for label, each in (listed or {"[0]": classes}).items() if classes else ():
        file.add(file.load(each, "()", call.line), STORE, file.first + call.node, label)


def sent(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The first argument is what `yield` gives the generator."""
    given = file.arguments(call)
    if call.receiver and "0" in given:
        file.add(given["0"], STORE, file.first + call.receiver, ".send()")


def submitted(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The first argument is called with the others."""
    given = file.arguments(call)
    if "0" not in given:
        return
    inner = file.load(given["0"], "()", call.line)
    for key, value in given.items():
        if key != "0":
            file.add(value, ARGUMENT, inner, str(int(key) - 1) if key.isdigit() else key)


def mapped(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The first argument is called with an element of each other; of `starmap` with the elements of such elements."""
    given = {int(key): value for key, value in file.arguments(call).items() if key.isdigit()}
    if 0 in given:
        inner, is_unpacked = file.new(call.line), call.name == "starmap"
        is_text = file.kinds.get(given[0]) == ("outside", "str")
        file.add(given.pop(0), LOAD, inner, "()")
        for index, value in given.items():
            each = file.load(value, "[each]", call.line)
            file.add(each, ARGUMENT, inner, "*" if is_unpacked else str(index - 1))
            if is_text:
                file.add(each, TEXT, inner)
        file.add(inner, STORE, file.first + call.node, "[*]")


def filtered(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The first argument is called with the elements of the second one, which the result holds."""
    given = file.arguments(call)
    if "0" in given:
        _each_given(file, call, given.get("1", 0), given["0"])
    if "1" in given:
        file.add(given["1"], INHERIT, file.first + call.node)


def reduced(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The first argument is called with what it returns and each element of the second; the result holds both."""
    given, result = file.arguments(call), file.first + call.node
    if not {"0", "1"} <= given.keys():
        return
    inner = _each_given(file, call, given["1"], given["0"], "1")
    for each in [source for source, kind, _ in file.into[inner] if kind == ARGUMENT]:
        file.add(each, ARGUMENT, inner, "0")
        file.add(each, INHERIT, result)
    file.add(inner, ASSIGN, result)


def ordered(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """`key` is called with the elements of the first argument or of the object, which the result holds; that of
    `groupby` holds pairs of what `key` returns and such elements."""
    given, result = file.arguments(call), file.first + call.node
    values = given.get("0", call.receiver and file.first + call.receiver)
    key = given.get("key", given.get("1", 0))
    keys = _each_given(file, call, values, key) if key and values else 0
    if call.name != "groupby":
        file.add(values, INHERIT, result)
        file.kinds.setdefault(result, ("container", None))
    elif keys:
        pair = file.new(call.line)
        file.kinds[pair] = file.kinds[result] = ("container", None)
        file.add(keys, STORE, pair, "[0]")
        file.add(values, STORE, pair, "[1]")
        file.add(pair, STORE, result, "[*]")


def getter(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is a function that returns the element or the attribute of its argument which the first one names."""
    text = file.values.get(file.arguments(call).get("0", 0))
    if text is not None:
        field = f"[{text!r}]" if call.name == "itemgetter" else f".{text}"
        file.add(file.load(_function(file, call), field, call.line), STORE, file.first + call.node, "()")


def method(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """The result is a function that calls the method of its argument which the first one names, with the others."""
    given = file.arguments(call)
    text = file.values.get(given.get("0", 0))
    if text is not None:
        taken = _function(file, call)
        inner = file.load(file.load(taken, f".{text}", call.line), "()", call.line)
        file.add(inner, STORE, file.first + call.node, "()")
        for key, value in given.items():
            if key != "0":
                file.add(value, ARGUMENT, inner, str(int(key) - 1) if key.isdigit() else key)


def _function(file: ValueFile, call: Called) -> int:
    """The only parameter of a function that a call makes."""
    result, taken = file.first + call.node, file.new(call.line)
    file.kinds[result] = "function", Parameters(call.node, (("", taken - file.first),), (), 0, 0, False, False)
    file.parameters[taken] = result
    return taken


def _each_given(file: ValueFile, call: Called, values: int, function: int, key: str = "0") -> int:
    """The result of a function that is called with each element, as the argument `key`."""
    inner = file.load(function, "()", call.line)
    file.add(file.load(values, "[each]", call.line), ARGUMENT, inner, key)
    return inner


def started(file: ValueFile, call: Called, effect: CallEffect) -> None:
    """`target` is called with the elements of `args` and `kwargs`; behind a rank where one process is started for
    each."""
    given = file.arguments(call)
    target, args = given.get("target", given.get("0", 0)), given.get("args", given.get("1", 0))
    if target:
        inner = file.load(target, "()", call.line)
        for label, values in file.stores.get(args, {}).items():
            if label[1:-1].isdigit():
                index = int(label[1:-1]) + (effect.kind == "spawned")
                for value in values:
                    file.add(value, ARGUMENT, inner, str(index))
        if effect.kind == "spawned":
            rank = file.new(call.line)
            file.kinds[rank] = "number", 0
            file.add(rank, ARGUMENT, inner, "0")
        elif named := given.get("kwargs", given.get("2")):
            file.add(named, ARGUMENT, inner, "**")


def join_registered(file: ValueFile) -> None:
    """Give functions that are registered with another one, as those of `singledispatch` are, what it is called with;
    it returns what they return."""
    for one in file.facts.functions:
        of_one = file.loads.get(file.first + one.node, {}).get(".register", ())
        for other in file.facts.functions if of_one else ():
            by = {file.first + each for each in other.decorators}
            by |= {file.first + file.calls[each].callee for each in by & file.calls.keys()}
            if not by.isdisjoint(of_one):
                for (_, taken), (_, given) in zip(one.positional, other.positional, strict=False):
                    file.add(file.first + taken, ASSIGN, file.first + given)
                for result in list(file.stores.get(file.first + other.node, {}).get("()", ())):
                    file.add(result, STORE, file.first + one.node, "()")


# What decorators give to the parameters of a function.


def _parametrized(file: ValueFile, call: Called, function: Parameters) -> None:
    """The elements of the second argument are what the parameters are that the first one names."""
    given = file.arguments(call)
    names = (file.values.get(given.get("0", 0)) or "").replace(",", " ").split()
    rows = given.get("1")
    for index, name in enumerate(names):
        target = dict(function.positional + function.named).get(name)
        if target is None or rows is None:
            continue
        row = file.new(call.line) if len(names) > 1 else file.first + target
        file.add(rows, LOAD, row, "[each]")
        if len(names) > 1:
            file.add(row, LOAD, file.first + target, f"[{index}]")


def _of_fixture(file: ValueFile, call: Called, function: Parameters) -> None:
    """The elements of `params` are what the attribute `param` of `request` is."""
    params = file.arguments(call).get("params")
    request = dict(function.positional).get("request")
    if params is not None and request is not None:
        file.add(file.load(params, "[each]", call.line), STORE, file.first + request, ".param")


def _configured(file: ValueFile, call: Called, function: Parameters) -> None:
    """The first parameter is what the call reads."""
    for _, target in function.positional[:1]:
        file.add(file.first + call.node, ASSIGN, file.first + target)


def _declared(file: ValueFile, call: Called, function: Parameters) -> None:
    """The default is what the parameter is that an option is called by."""
    given = file.arguments(call)
    names = [file.values.get(value) or "" for key, value in given.items() if key.isdigit()]
    own = dict(function.positional + function.named)
    for name in (each.split("/")[0].lstrip("-").replace("-", "_") for each in names):
        if name in own and "default" in given:
            file.add(given["default"], ASSIGN, file.first + own[name])


DECORATIONS: dict[str, Callable[[ValueFile, Called, Parameters], None]] = {
    "configured": _configured,
    "declared": _declared,
    "fixture": _of_fixture,
    "parametrized": _parametrized,
}
