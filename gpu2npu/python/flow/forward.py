"""Answers where a value goes, over the edges of values of a project's files.

What an object has is not followed to each place that the object gets to: these places are found once, for all that it
has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu2npu.python.facts.values import ARGUMENT, ASSIGN, INHERIT, KEYS, STORE, TEXT, TYPE, ClassValue
from gpu2npu.python.flow.value_calls import CallValues
from gpu2npu.python.flow.value_files import (
    Path,
    State,
    Step,
    Steps,
    ValueFile,
    alike,
    matches,
    other_names,
    states_from,
    widened,
)
from gpu2npu.python.flow.value_project import REACH, UNKNOWN

BUDGET, NEAR_BUDGET = 100, 40  # states that one question may visit, and one about what is near
LONGEST, LONGEST_OF_USES = 5, 3  # fields in a path, back to sources and on to uses
# Methods from whose results `for` and `with` take what they take from an object; 1: the whole result.
GIVING: dict[Path, int] = {(".__iter__", "()"): 0, (".__enter__", "()"): 1}
_MADE = ("instance", "class", "container", "function", "module")  # what fields are stored in
_WITH_MEMBERS, _APPEARANCES = ("class", "instance"), "appearances"
_ANY = (".?",)  # stands for all that an object has, in the question of where the object is


class ForwardValues(CallValues):
    """Answers about the places that values of a project get to."""

    def closed(self, start: State, step: Step, longest: int = LONGEST, more: int = 0) -> Steps:
        """The states that `step` leads to from `start` within the budget, for the question that is asked now."""
        seen, is_complete = self._states(start, step, longest, more)
        if not is_complete:
            self.cut()
        return seen

    def _states(self, start: State, step: Step, longest: int = LONGEST, more: int = 0) -> tuple[Steps, bool]:
        return states_from(start, step, NEAR_BUDGET if self._is_near else BUDGET, longest, more)

    def reach(self, place: int) -> Steps:
        """All states that a value gets to."""
        found: Steps = self.ask((REACH, place), lambda: self.closed((place, ()), self._after, LONGEST_OF_USES, 1))
        return found

    def _after(self, place: int, path: Path) -> Iterator[State]:
        file = self.at(place)
        what, one = file.kinds.get(place, UNKNOWN)
        if path and what in _WITH_MEMBERS and path != _ANY:
            for at in self.appearances(place):
                yield from self._read_of(at, path)
            if not self.is_complete((_APPEARANCES, place)):
                self.cut()
        else:
            for edge in file.out.get(place, ()):
                yield from self._along(file, edge, path)
            yield from self._loaded(file, place, path)
        if what == "class" and len(path) > 1 and path[0] == "()":
            yield file.first + one.instance, path[1:]
        elif what == "instance" and path:
            yield from self._of_object(place, path, one)
        elif what == "module" and path:
            yield from self._importers(file, path)

    def _along(self, file: ValueFile, edge: tuple[int, int, str], path: Path) -> Iterator[State]:
        """The states that an edge leads to."""
        target, kind, label = edge
        if kind == ASSIGN:
            yield target, path
        elif kind == TEXT:
            yield target, widened(path)
        elif kind == STORE:
            yield from self._held(target, (label, *path))
        elif kind == ARGUMENT:
            for parameter, taken, added in self.bindings(target, label):
                if not taken or (path and matches(path[0], taken)):
                    yield parameter, (*added, *(path[1:] if taken else path))
        elif path and path != _ANY:
            yield from self._inherited(file, edge, path)

    def _inherited(self, file: ValueFile, edge: tuple[int, int, str], path: Path) -> Iterator[State]:
        """The states of what gets the fields of a value by an edge, and not the value."""
        target, kind, label = edge
        if kind == INHERIT and not self._overrides(file, target, path):
            yield from self._held(target, path)
        elif kind == KEYS:
            for other in other_names(path, label):
                yield from self._held(target, other)

    def _loaded(self, file: ValueFile, place: int, path: Path) -> Iterator[State]:
        """The places that read a field of what is in a place."""
        if path:
            loads = file.loads.get(place)
            yield from ((target, path[1:]) for target in alike(loads, path[0], matches))
            if loads and path[0][0] == ".":
                yield from ((result, path) for result in self.given_back(file, place))
        elif ".value" in file.loads.get(place, ()):  # a text that has a `value` is a member of an Enum
            yield from ((target, path) for target in file.loads[place][".value"])
        if file.path in self.project.data and place == file.first + self.project.data[file.path].root:
            yield from ((call, path) for call in self.readers_of(place))

    def appearances(self, place: int) -> Iterable[int]:
        """The places that a class or an object gets to, where something of it is read or it gives all that it has."""
        found: dict[int, None] = self.ask(
            (_APPEARANCES, place),
            lambda: {
                at: None
                for at, path in self.closed((place, _ANY), self._after, LONGEST_OF_USES, 1)
                if path == _ANY and (at in (file := self.at(at)).loads or any(map(_gives_all, file.out.get(at, ()))))
            },
        )
        return found

    def _read_of(self, at: int, path: Path) -> Iterator[State]:
        """The states that a field of a class or an object leads to from a place that this gets to."""
        file = self.at(at)
        yield from ((target, path[1:]) for target in alike(file.loads.get(at), path[0], matches))
        for edge in filter(_gives_all, file.out.get(at, ())):
            into_holder = edge[1] == ARGUMENT and edge[2] == "**"  # one of the places itself
            yield from (state for state in self._along(file, edge, path) if not into_holder or state[1] != path)

    def _of_object(self, place: int, path: Path, made: ClassValue) -> Iterator[State]:
        """The states of a field of an object that its class leads to."""
        file = self.at(place)
        if path == _ANY:
            yield from ((each, path) for each in self._selves_above(file, made))
            yield from ((each, path) for each in self._annotated(file.first + made.node))
        if path[1:2] == ("()",) and path[0] in self.run_by["instance"]:
            yield place, path[1:]
        elif path[:2] in GIVING:
            yield place, ("[*]", *path[3 - GIVING[path[:2]] :])
        if path[0][1:] in made.fields:  # of a named tuple, which is unpacked
            yield place, (f"[{made.fields.index(path[0][1:])}]", *path[1:])

    def _held(self, place: int, path: Path) -> Iterator[State]:
        """A place that holds a value, and the objects that are in it."""
        yield place, path
        if self.kind(place)[0] not in _MADE:
            yield from ((origin.place, path) for origin in self.origins(place) if origin.kind in _MADE)

    def _annotated(self, cls: int) -> Iterable[int]:
        """The values that are annotated with a class."""
        found: dict[int, None] = self.ask(
            ("annotated", cls),
            lambda: {
                target: None
                for place in self.appearances(cls)
                for target, kind, _ in self.at(place).out.get(place, ())
                if kind == TYPE
            },
        )
        return found

    def _overrides(self, file: ValueFile, cls: int, path: Path) -> bool:
        """Return whether a class defines what it would inherit: its objects too, but for what is of them. To call an
        object is not to call its class."""
        what = file.kinds.get(cls, UNKNOWN)[0]
        if path[0] == "()":
            return what == "instance" or (what == "class" and len(path) == 1)
        return what == "class" and path[0] in file.stores.get(cls, ())

    def _selves_above(self, file: ValueFile, made: ClassValue) -> Iterator[int]:
        """The first parameters of the methods that a class inherits."""
        for base in made.bases:
            for origin in self.origins(file.first + base):
                if origin.kind == "class":
                    above = self.at(origin.place)
                    one: ClassValue = above.kinds[origin.place][1]
                    yield from (above.first + each for each in one.selves)
                    yield from self._selves_above(above, one) if one is not made else ()

    def _importers(self, file: ValueFile, path: Path) -> Iterator[State]:
        """The places where other files import a name of a module, or the module itself and take the name from it."""
        name, rest = path[0], path[1:]
        if name[0] != ".":
            return
        for other, nodes in self.importers(file.path, name[1:]).items():
            first = self.first_of(other)
            yield from ((first + node, path if is_module else rest) for node, is_module in nodes)


def _gives_all(edge: tuple[int, int, str]) -> bool:
    """Return whether an edge gives all that a value has, and not the value; or a class to what is annotated with it."""
    _, kind, label = edge
    return kind in (INHERIT, KEYS, TYPE) or (kind == ARGUMENT and label in ("*", "**"))
