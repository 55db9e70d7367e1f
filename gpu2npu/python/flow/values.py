"""Answers where a value comes from and where it goes, over the edges of values of a project's files.

A place is a node of a file: the first number of the file plus the node. A state is a place and a path of fields: the
value that is followed is in that place, under these fields. What a value flows into is found from the file that has it;
a further file is read where an import leads to it, or where a file may import what the value is in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpu2npu.python.facts.values import (
    ARGUMENT,
    ASSIGN,
    COMPARE,
    INHERIT,
    KEYS,
    LOAD,
    MODULE,
    TEXT,
    TYPE,
)
from gpu2npu.python.flow.forward import GIVING, ForwardValues
from gpu2npu.python.flow.value_calls import ValueOrigin
from gpu2npu.python.flow.value_files import (
    Path,
    State,
    Step,
    Steps,
    ValueFile,
    agreeing,
    alike,
    matches,
    other_names,
    steps_to,
    widened,
)
from gpu2npu.python.flow.value_project import REACH, UNKNOWN
from gpu2npu.python.meaning.names import Names


class ValueUse(NamedTuple):
    """A use of a value at the end of its way: `state` is the last one on it.

    It is "compared" with the value in `place`, or an "argument" `key` of `place`, a call of what `text` names: the
    dotted name of what is not of the project, or `?.name` for a method of an object that is not known; or "unknown",
    with what ends the search as its text.
    """

    kind: str
    place: int
    state: State
    text: str = ""
    key: str = ""


class Way(NamedTuple):
    """A step of a value: the file and the line that it comes to."""

    path: str
    line: int


class Values(ForwardValues):
    """Answers about the values of a project."""

    # Questions

    def place_of(self, names: Names, line: int, column: int) -> int | None:
        """The place of the string that begins at a line and column, as `ast` counts them."""
        file = self.file_of(names)
        return None if file is None else file.texts.get((line, column))

    def operation(self, names: Names, node: ast.expr) -> int:
        """The place of arithmetic, a comparison or `x[i]`, or of a name of one; 0 where it is not followed."""
        file, span = self.file_of(names), (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
        return file.spans.get(span, 0) if file is not None else 0

    def operands(self, names: Names, node: ast.expr) -> list[int]:
        """The places of the two values of arithmetic, a comparison or `x[i]`; 0 for one that is not followed."""
        place = self.operation(names, node)
        file = self.at(place) if place else None
        return [file.first + each if each else 0 for each in file.operations[place].operands] if file else []

    def uses(self, place: int, asker: str) -> list[ValueUse]:
        """The uses of a value: the value itself or a text that it is a part of."""
        self._asker = asker
        steps = self.reach(place)
        found: dict[tuple[str, int, str, str], ValueUse] = {}
        if not self.is_complete((REACH, place)):
            found["unknown", place, "", ""] = ValueUse("unknown", place, (place, ()), "too many places")
        for state in steps:
            for use in self._uses_at(state):
                found.setdefault((use.kind, use.place, use.text, use.key), use)
        return list(found.values())

    def _uses_at(self, state: State) -> Iterator[ValueUse]:
        place, path = state
        for target, kind, label in self.at(place).out.get(place, ()):
            if kind == COMPARE and not path:
                yield ValueUse("compared", target, state)
            elif kind == ARGUMENT and (not path or (label == "**" and len(path) == 1 and path[0][1] == "'")):
                key = label if not path else path[0][2:-2]
                for text in self._outside(target):
                    yield ValueUse("argument", target, state, text, key)

        is_of_module = bool(path) and self.kind(place)[0] == "module"
        if is_of_module and not self.is_complete(("importers", self.at(place).path, path[0][1:])):
            yield ValueUse("unknown", place, state, "too many files")

    def _outside(self, call: int) -> Iterator[str]:
        """The names of what a call calls that is not of the project."""
        callees = self.callees(call)
        yield from (origin.text for origin, _ in callees if origin.kind in ("outside", "unknown"))
        if not callees:
            yield "?"

    def sources(self, place: int, asker: str, path: Path = ()) -> list[ValueOrigin]:
        """The sources of a value."""
        self._asker = asker
        return list(self.origins(place, path))

    def is_integer(self, source: ValueOrigin) -> bool:
        """Return whether a source is a whole number that is written out."""
        return source.kind == "number" and type(self.kind(source.place)[1]) is int

    def way(self, start: int, use: ValueUse) -> list[Way]:
        """The lines that a value comes through on the way to what is done with it, without repeats."""
        places = [*(place for place, _ in steps_to(use.state, self.reach(start))), use.place]
        lines = [Way(self.at(place).path, self.line(place)) for place in places]
        return list(dict.fromkeys(step for step in lines if step.line))

    def is_in_text(self, start: int, state: State) -> bool:
        """Return whether a text or a sum with a value in it gets to a state, and not the value itself."""
        steps = self.reach(start)
        while (above := steps.get(state)) is not None:
            if any(to == state[0] and kind == TEXT for to, kind, _ in self.at(above[0]).out.get(above[0], ())):
                return True
            state = above
        return False

    # Back

    def way_to(self, place: int, step: Step | None = None) -> Steps:
        """All states that a value comes through on its way to a place, a `step` back at a time."""
        return self._states((place, ()), step or self.before)[0]

    def origins(self, place: int, path: Path = ()) -> Iterable[ValueOrigin]:
        """The sources of the value that is in a place, under some fields."""
        key = ("origins", place, path)
        found: dict[ValueOrigin, None] = self.ask(key, lambda: self._without_lacking(place, path))
        return found

    def _without_lacking(self, place: int, path: Path) -> dict[ValueOrigin, None]:
        """The ends, but for a class without an attribute, which its objects have from something else."""
        ends = dict.fromkeys(self._ends(place, path))
        lacking = [one for one in ends if one.kind == "unknown" and self.kind(one.place)[0] == "class"]
        for one in lacking if len(lacking) < len(ends) else ():
            file = self.at(one.place)
            bases = (source for source, _, _ in file.into.get(one.place, ()))
            if all(self.is_given(file, one.place, (one.text[1:],), base) for base in bases):
                del ends[one]
        return ends

    def _ends(self, place: int, path: Path) -> Iterator[ValueOrigin]:
        leads: set[State] = set()

        def step(at: int, fields: Path) -> Iterator[State]:
            for other in self.before(at, fields):
                leads.add((at, fields))
                yield other

        for at, fields in self.closed((place, path), step):  # where it is cut, it ends with "unknown"
            what, one = self.kind(at)
            if what == "outside":
                yield ValueOrigin(at, what, self.starred(at, one) + "".join(fields))
            elif what == "import" and (at, fields) not in leads:
                yield ValueOrigin(at, "outside", ".".join(filter(None, (one.module, one.name))) + "".join(fields))
            elif not fields and what not in ("unknown", "import"):
                yield ValueOrigin(at, what)
            elif (at, fields) not in leads:
                yield ValueOrigin(at, "unknown", "?" + "".join(fields))

    def before(self, place: int, path: Path) -> Iterator[State]:
        """The states from which a value comes to one, a step back."""
        file = self.at(place)
        what, one = file.kinds.get(place, UNKNOWN)
        if what == "outside" or (not path and what not in ("unknown", "import")):
            if what == "outside":
                yield from self.through_stars(file, one, path)
            return
        if what == "text" and path[0] == ".value":
            yield place, path[1:]
        if self.project.data and (read := self.read_by(place)):
            yield from ((root, path) for root in read)
            if all(read.values()):
                return
        for source, kind, label in file.into.get(place, ()):
            if kind == ASSIGN:
                yield source, path
            elif kind == TEXT:
                yield source, widened(path)
            elif kind == INHERIT:
                if path and not (self._overrides(file, place, path) or self.is_given(file, place, path, source)):
                    yield source, path
            elif kind == KEYS:
                yield from ((source, other) for other in other_names(path, label, is_back=True))
            elif kind == LOAD:
                yield source, (label, *path)
            elif kind == TYPE and any(map(self.is_class, self.origins(source))):
                yield source, ("()", *path)
        if path:
            stored = file.stores.get(place)
            yield from ((source, path[1:]) for source in alike(stored, path[0], lambda read, by: matches(by, read)))
        if what == "import":
            yield from self.imported(file, one.module, one.name, path)
        elif what == "module" and path and path[0][0] == ".":
            is_package = file.path.endswith("__init__.py") and not file.names_value(path[0])
            inner = self.file_at(self.module_of(file.path, ".", path[0][1:])) if is_package else None
            if inner is not None:
                yield inner.first + MODULE, path[1:]
            if file.facts.stars:
                yield from self.through_stars(file, path[0][1:], path[1:])
        elif what == "instance" and path and path[0] == "()":
            yield from ((place, (name, *path)) for name in self.run_by["instance"])
        elif what in ("instance", "class", "container") and path and path[0][0] in ".[":
            for label in agreeing(file.stored, path[0]):
                yield from ((value, path[1:]) for value, target in self._stored(file, label, place) if target != place)
            for source, kind, label in self._joined(file, place) if self.project.data else ():
                names = other_names(path, label, is_back=True) if kind == KEYS else (path,)
                yield from ((source, other) for other in names)
            if what == "class" and self.is_called_by(path[0], file, one):
                yield file.first + one.instance, path[1:]
            if what == "instance":
                if path[0] in self.fluent and path[1:2] == ("()",) and path[0] not in file.stored:
                    yield place, path[2:]
                if path[0] == "[each]":
                    made = (given for given in GIVING if given[0] in file.stored)
                    yield from ((place, (*given, *path[GIVING[given] :])) for given in made)
                yield file.first + one.node, ("()", *path)
                if self.holds_argument(file, one):
                    yield from self._given(place, file.first + one.node, path)
                for held in file.out.get(place, ()) if self.project.data else ():
                    for callee in file.loads.get(held[0], {}).get(".__init__", ()) if held[2] == ".__self__" else ():
                        yield from self._given_by(place, file.loads.get(callee, {}).get("()", ()), path)
                if path[0][1:-1].isdigit() and int(path[0][1:-1]) < len(one.fields):
                    yield place, (f".{one.fields[int(path[0][1:-1])]}", *path[1:])
                elif path[0][1:] in one.fields:
                    yield from self._given(place, file.first + one.node, path)
        function = file.parameters.get(place)
        if function is not None:
            yield from self._given(place, function, path)

    def _stored(self, file: ValueFile, label: str, holder: int) -> Iterable[tuple[int, int]]:
        """The values that a file stores in an object under a field, each with the node that it is stored in."""
        key = ("stored", file.first + MODULE, label)
        found: dict[tuple[int, tuple[int, int]], None] = self.ask(
            key,
            lambda: {(one.place, (value, at)): None for value, at in file.stored[label] for one in self.origins(at)},
        )
        return self.grouped(key, found).get(holder, ())

    def _joined(self, file: ValueFile, holder: int) -> Iterable[tuple[int, int, str]]:
        """The objects whose contents an object of a file gets, each with the kind and field of the edge."""
        key = ("joined", file.first + MODULE)
        found: dict[tuple[int, tuple[int, int, str]], None] = self.ask(
            key,
            lambda: {
                (one.place, (source, kind, label)): None
                for source, kind, target, label in file.joined
                for one in self.origins(target)
            },
        )
        return self.grouped(key, found).get(holder, ())

    def _given(self, parameter: int, function: int, path: Path) -> Iterator[State]:
        yield from self._given_by(parameter, self.callers(function), path)

    def _given_by(self, parameter: int, calls: Iterable[int], path: Path) -> Iterator[State]:
        for call in calls:
            for target, source, taken, added in self._bound(call):
                if target == parameter and (not added or (path and matches(added[0], path[0]))):
                    rest = path[1:] if added else path
                    yield source, ((taken, *rest) if taken else rest)
