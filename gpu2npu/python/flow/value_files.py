"""The values of one file as the solver reads them: its edges by both ends, and their fields: which that are
stored may be those that are read, and which argument is for which parameter."""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from gpu2npu.python.facts.values import ARGUMENT, LOAD, MODULE, STORE, Called, Parameters, ValueFacts

Path = tuple[str, ...]  # the fields on the way of a value
State = tuple[int, Path]
Steps = dict[State, "State | None"]
Step = Callable[[int, Path], Iterator[State]]
_FEW = 4  # fields that are compared one by one


def bound_to(function: Parameters, key: str, skip: int) -> Iterator[tuple[int, str, Path]]:
    """The parameters that an argument is for, without the first `skip`: the node, the field that the argument is taken
    from, and those that it is put in."""
    positional = function.positional[skip:]
    if key == "*":
        yield from ((node, f"[{index}]", ()) for index, (_, node) in enumerate(positional))
        if function.star:
            yield function.star, "[*]", ("[*]",)
    elif key == "**":
        yield from ((node, f"['{name}']", ()) for name, node in function.positional + function.named)
        if function.stars:
            yield function.stars, "", ()  # under their names
    elif key.isdigit():
        index = int(key)
        if index < len(positional):
            yield positional[index][1], "", ()
        elif function.star:
            yield function.star, "", (f"[{index - len(positional)}]",)
    else:
        named = dict(function.positional + function.named)
        if key in named:
            yield named[key], "", ()
        elif function.stars:
            yield function.stars, "", (f"['{key}']",)


def matches(stored: str, read: str) -> bool:
    """Return whether a field that was stored may be the one that is read."""
    if stored == read:
        return True
    if stored[0] != "[" or read[0] != "[" or read == "[key]":
        return False
    if stored == "[key]":
        return read == "[each]"
    return "[*]" in (stored, read) or (read == "[each]" and stored[1].isdigit())


def alike(edges: Mapping[str, list[int]] | None, field: str, agree: Callable[[str, str], bool]) -> Iterator[int]:
    """The ends of those edges whose field agrees with another: few of many, where that is one element."""
    if not edges:
        return
    if len(edges) < _FEW or (field[0] == "[" and field[1] not in "0123456789'"):
        labels = [label for label in edges if agree(field, label)]
    else:
        known = (field, "[*]", "[each]") if field[0] == "[" else (field,)
        labels = [label for label in known if label in edges and agree(field, label)]
    for label in labels:
        yield from edges[label]


def agreeing(stored: Mapping[str, object], read: str) -> list[str]:
    """The fields under which something is stored that may be the one that is read."""
    if read[0] != "[":  # an attribute is only itself
        return [read] if read in stored else []
    return [label for label in stored if matches(label, read)]


def other_names(path: Path, label: str, *, is_back: bool = False) -> Iterator[Path]:
    """The fields in the object that a KEYS edge leads to, or with `is_back` comes from: the attributes of what is under
    keys with the label `.`, where those of dicts in it may be attributes too, and else the keys of attributes."""
    name = _other_name(path[0], is_key=(label == ".") is not is_back) if path else ""
    if name:
        yield (name, *path[1:])
        if label == ".":
            yield from ((name, *rest) for rest in other_names(path[1:], label, is_back=is_back))


def _other_name(field: str, *, is_key: bool) -> str:
    """The attribute under whose name an object has what is under a key, or the key of an attribute; nothing for
    another field."""
    if is_key:
        return f".{field[2:-2]}" if field.startswith("['") else ""
    return f"['{field[1:]}']" if field[0] == "." else ""


def widened(path: Path) -> Path:
    """A path in a sum: which element it is, is not known any longer."""
    return ("[*]", *path[1:]) if path and path[0][1].isdigit() else path


def states_from(start: State, step: Step, most: int, longest: int, more: int) -> tuple[Steps, bool]:
    """The states that `step` leads to, each with the one before it, and whether `most` is more than those with at most
    `longest` fields; those with `more` fields are visited last, as many as there may be."""
    seen: Steps = {start: None}
    todo, later = [start], []
    for state in todo:
        if len(seen) >= most:
            return seen, False
        for other in step(*state):
            if other not in seen and len(other[1]) <= longest:
                seen[other] = state
                todo.append(other)
            elif len(other[1]) <= longest + more:
                later.append((other, state))
    for state, before in later if more else ():
        if state not in seen and len(seen) < most:
            seen[state] = before
            later += ((other, state) for other in step(*state) if len(other[1]) <= longest + more)
    return seen, True


def steps_to(state: State, steps: Steps) -> list[State]:
    """The states on the way to one of some, itself last; none if it is none of them."""
    way = [state] if state in steps else []
    while way and (before := steps[way[-1]]) is not None:
        way.append(before)
    return way[::-1]


class CallEffect(NamedTuple):
    """The use that a call makes of its values, by the last name of its callee; call_effects.py has the kinds.
    `keywords` are the arguments that a function hands on beside the first one."""

    kind: str
    keywords: tuple[str, ...] = ()


class ValueFile:
    """The facts of one file, and its edges by the nodes at both ends, instead of the list of them."""

    def __init__(self, path: str, first: int, facts: ValueFacts) -> None:
        self.path = path
        self.first = first
        self.facts = replace(facts, edges=(), lines=())
        self.lines = array("L", facts.lines)
        self.out: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        self.into: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        self.kinds: dict[int, tuple[str, Any]] = {first + MODULE: ("module", None)}
        self.loads: dict[int, dict[str, list[int]]] = {}  # the targets of LOAD edges by the field
        self.stores: dict[int, dict[str, list[int]]] = {}  # the sources of STORE edges by the field
        self.parameters: dict[int, int] = {}
        self.stored: dict[str, list[tuple[int, int]]] = defaultdict(list)  # attributes, and elements of what has a name
        self.joined: list[tuple[int, int, int, str]] = []  # edges by which an object gets what another one holds
        self._displays = {first + node for node in facts.containers}
        self.texts = {(one.line, one.column): first + one.node for one in facts.texts}
        self.values = {first + one.node: one.value for one in facts.texts}
        self.calls = {first + one.node: one for one in facts.calls}
        self.operations = {first + one.node: one for one in facts.operations}
        self.ends = {(one.end_line, one.end_column): first + one.node for one in facts.calls}
        self.spans = {one.place: first + one.node for one in facts.operations}
        places = list(range(first, first + len(self.lines)))  # one object a number, which several edges have
        labels = list(map(sys.intern, facts.labels))  # and one for a label, which most files have
        for source, kind, target, label in facts.edges:
            self.add(places[source], kind, places[target], labels[label])
        self._describe()

    def add(self, source: int, kind: int, target: int, label: str = "") -> None:
        if kind == LOAD:
            self.loads.setdefault(source, {}).setdefault(label, []).append(target)
        else:
            self.out[source].append((target, kind, label))
        if kind == STORE:
            self.stores.setdefault(target, {}).setdefault(label, []).append(source)
            if label[0] == "." or (label[0] == "[" and target not in self._displays):
                self.stored[label].append((source, target))
        else:
            self.into[target].append((source, kind, label))

    def join(self, source: int, kind: int, target: int, label: str = "") -> None:
        """Add that the object in a place gets what another one holds."""
        self.add(source, kind, target, label)
        self.joined.append((source, kind, target, label))

    def arguments(self, call: Called) -> dict[str, int]:
        """The values of a call's arguments by their place or name."""
        into = self.into.get(self.first + call.node, ())
        return {key: source for source, kind, key in into if kind == ARGUMENT}

    def names_value(self, field: str) -> bool:
        """Return whether a package gives a name to what is not its module of this name."""
        bound = self.stores.get(self.first + MODULE, {}).get(field, ())
        return any(self.kinds.get(each, ("",))[0] not in ("import", "module") for each in bound)

    def new(self, line: int) -> int:
        """A further place, for what a call does with its values."""
        self.lines.append(line)
        return self.first + len(self.lines) - 1

    def load(self, source: int, label: str, line: int) -> int:
        """A further place for a field of what is in a place."""
        node = self.new(line)
        self.add(source, LOAD, node, label)
        return node

    def _describe(self) -> None:
        first, kinds = self.first, self.kinds
        for one in self.facts.texts:
            if one.value is not None:
                kinds[first + one.node] = "text", one
        for function in self.facts.functions:
            kinds[first + function.node] = "function", function
            nodes = (*(node for _, node in function.positional + function.named), function.star, function.stars)
            for node in nodes:
                self.parameters[first + node] = first + function.node
        for made in self.facts.classes:
            kinds[first + made.node] = "class", made
            kinds[first + made.instance] = "instance", made
        for node in self.facts.containers:
            kinds[first + node] = "container", None
        for node, number in self.facts.numbers:
            kinds[first + node] = "number", number
        for node, name in self.facts.outside:
            kinds[first + node] = "outside", name
        for taken in self.facts.imports:
            kinds[first + taken.node] = "import", taken
