"""The calls that make the value of an expression: followed back through names, attributes, calls and files.

It over-approximates: an expression may come from each of the calls found, and from elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from gpu2npu.python.flow.assignments import Assignments, Value
from gpu2npu.python.project.program import ParsedFile, Program
from gpu2npu.python.tree.place import (
    AnyPlace,
    CallPlace,
    FunctionPlace,
    Key,
    Place,
    argument,
    elements_under,
    enclosing_class,
    enclosing_function,
    key_of,
    returned,
    same_name,
)
from gpu2npu.python.tree.scopes import Imported, Parameter
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    Definition,
    argument_value,
    arguments,
    is_property,
    is_self,
    is_unpacked,
    last_name,
)

# Calls that hand on the elements of what they are given first.
PASSED_ON = frozenset(
    {"enumerate", "tqdm", "iter", "next", "islice", "cycle", "track", "list", "reversed", "tenumerate"}
)
_DEPTH = 25
_CLASS_DEPTH = 8
_MOST_CONTAINERS = 50


class Made(Struct, frozen=True):
    """A call that makes a value, and the call of the function around it for which it does so, if that is known."""

    place: CallPlace
    via: CallPlace | None = None

    @property
    def key(self) -> ast.Call:
        """The node of the call."""
        return self.place.node


_Found = dict[tuple[ast.Call, ast.Call | None], Made]


class Dataflow:
    """Follows values over the given files of a program. `runs` are the files that each start of a program loads: a
    value goes by an attribute's or a method's name only between files that are loaded together. `shared` are methods of
    libraries' objects too: their names say nothing about the class. `same` are those that give their own object."""

    def __init__(
        self,
        program: Program,
        files: Mapping[str, ParsedFile],
        runs: Sequence[Collection[str]] = (),
        shared: frozenset[str] = frozenset(),
        same: frozenset[str] = frozenset(),
    ) -> None:
        self.program = program
        self.files = files
        self.index = Assignments.of(files.values())
        self._shared = shared
        self._same = same
        self._together = _together(runs)
        self._targets: dict[ast.Call, list[Place[Definition]]] = {}
        self._owners: dict[ast.AST, list[ast.ClassDef]] = {}
        self._callers: dict[str, dict[Definition, list[CallPlace]]] = {}
        self._in_work: set[str] = set()

    @property
    def calls(self) -> list[CallPlace]:
        return [place for places in self.index.calls.values() for place in places]

    @property
    def functions(self) -> list[FunctionPlace]:
        return [place for places in self.index.functions.values() for place in places]

    def are_together(self, one: ParsedFile, other: ParsedFile) -> bool:
        """Return whether some start of a program loads both files."""
        return one is other or not self._together or other.path in self._together.get(one.path, ())

    # Names

    def assigned(self, name: Place[ast.Name]) -> list[AnyPlace]:
        """The expressions that a name is assigned as a whole; empty if any binding of it is of another kind."""
        found = name.file.scope_of(name.node).lookup(name.node.id)
        values = self._values(name)
        if found is None or len(values) != len(found[1]) or any(value.steps for value in values):
            return []
        return [value.place for value in values]

    def assignments(self, name: Place[ast.Name]) -> list[ast.AST]:
        """The expressions that a name takes its value from, or a part of it."""
        return [value.place.node for value in self._values(name)]

    def _values(self, name: Place[ast.Name]) -> list[Value]:
        found = name.file.scope_of(name.node).lookup(name.node.id)
        return self.index.named.get((found[0], name.node.id), []) if found is not None else []

    def containers(self, place: AnyPlace) -> list[AnyPlace]:
        """The dictionaries written out in the program, or comprehensions of them, that an expression may be."""
        found: list[AnyPlace] = []
        seen: set[ast.AST] = set()
        pending: list[tuple[AnyPlace, tuple[Key, ...]]] = [(place, ())]
        while pending and len(seen) < _MOST_CONTAINERS:
            current, steps = pending.pop()
            if current.node in seen:
                continue
            seen.add(current.node)
            if isinstance(current.node, (ast.Dict, ast.DictComp)) and not steps:
                found.append(current)
            pending += [(value.place, value.steps) for value in self.sources(current, steps)]
        return found

    def is_assigned(self, attribute: str) -> bool:
        """Return whether the program assigns an attribute of that name, of whatever object."""
        return attribute in self.index.attributes

    def updates(self, name: Place[ast.Name]) -> list[CallPlace | Place[ast.Subscript]]:
        """The calls `name.update(...)` and the targets `name[key]` of assignments."""
        found: list[CallPlace | Place[ast.Subscript]] = []
        found += [target for target in self.index.items.get(name.file.path, ()) if same_name(name, target.node.value)]
        found += [
            call
            for call in self.index.calls.get("update", ())
            if call.file is name.file
            and isinstance(call.node.func, ast.Attribute)
            and same_name(name, call.node.func.value)
        ]
        return found

    # Where a value is made

    def makers(self, place: AnyPlace) -> list[CallPlace]:
        """The calls of the program that may make the value of an expression: of library functions and of classes."""
        return list({made.key: made.place for made in self.made(place)}.values())

    def made(self, place: AnyPlace) -> list[Made]:
        """The same, with the calls of the functions that they are in: one entry for each."""
        return list(self._followed(Value(place), _DEPTH).values())

    def _followed(self, start: Value, depth: int) -> _Found:
        found: _Found = {}
        seen: set[tuple[object, ...]] = set()
        pending = [(start, depth)]
        while pending:
            value, left = pending.pop()
            place, via = value.place, value.via
            state = (place.node, value.steps, via.node if via is not None else None)
            if left == 0 or state in seen:
                continue
            seen.add(state)
            if isinstance(place.node, ast.Call):
                call = place.at(place.node)
                if not self._is_forwarding(call):
                    if not value.steps:
                        known = via if via is not None and self._calls_function_of(via, call) else None
                        found[call.node, known.node if known is not None else None] = Made(call, known)
                    continue
            sources = [
                (Value(source.place, source.steps, source.via if source.via is not None else via), left - 1)
                for source in self.sources(place, value.steps)
            ]
            pending += reversed(sources)
        return found

    def _calls_function_of(self, call: CallPlace, place: CallPlace) -> bool:
        function = enclosing_function(place)
        return function is not None and any(target.node is function.node for target in self.targets(call))

    def _is_forwarding(self, call: CallPlace) -> bool:
        """Return whether a call only hands on what another expression makes."""
        name = last_name(call.node.func)
        is_same = name in self._same and isinstance(call.node.func, ast.Attribute)
        if is_same or name in PASSED_ON or name in {"zip", "items", "values", "dict"}:
            return True
        return any(isinstance(target.node, FUNCTIONS) for target in self.targets(call))

    def sources(self, place: AnyPlace, steps: tuple[Key, ...]) -> Iterator[Value]:
        """One step back: the values that an expression takes its own from."""
        node = place.node
        if isinstance(node, ast.Name):
            yield from self._of_name(place.at(node), steps)
        elif isinstance(node, ast.Attribute):
            yield from self._of_attribute(place.at(node), steps)
        elif isinstance(node, ast.Subscript):
            yield Value(place.at(node.value), (key_of(node), *steps))
        elif isinstance(node, ast.Call):
            yield from self._of_call(place.at(node), steps)
        elif isinstance(node, ast.IfExp):
            yield from (Value(place.at(part), steps) for part in (node.body, node.orelse))
        elif isinstance(node, ast.BoolOp):
            yield from (Value(place.at(part), steps) for part in node.values)
        elif isinstance(node, ast.NamedExpr):
            yield Value(place.at(node.value), steps)
        elif steps:
            yield from (Value(place.at(part), steps[1:]) for part in elements_under(node, steps[0]))

    def _of_name(self, place: Place[ast.Name], steps: tuple[Key, ...]) -> Iterator[Value]:
        name = place.node.id
        found = place.file.scope_of(place.node).lookup(name)
        if found is None:
            return
        scope, bindings = found
        yield from (value.inside(steps) for value in self.index.named.get((scope, name), ()))
        for binding in bindings:
            if isinstance(binding, Imported):
                yield from (value.inside(steps) for value in self._exported(binding.qualified, place.file))
            elif isinstance(binding, Parameter) and isinstance(scope.node, FUNCTIONS):
                yield from (Value(given, steps) for given in self.arguments(Place(place.file, scope.node), name))

    def _exported(self, qualified: str, importer: ParsedFile) -> list[Value]:
        leading = qualified[: len(qualified) - len(qualified.lstrip("."))]
        module, _, name = qualified.lstrip(".").rpartition(".")
        path = self.program.project.module_path(leading + module, importer.path) if leading or module else None
        other = self.files.get(path) if path is not None else None
        return self.index.named.get((other.module, name), []) if other is not None else []

    def _of_attribute(self, place: Place[ast.Attribute], steps: tuple[Key, ...]) -> Iterator[Value]:
        node, file = place.node, place.file
        yield from (value.inside(steps) for value in self._own(place) or self._of_attributes(node.attr, file))
        module = file.names.import_path(node.value, file.scope_of(node))
        if module is not None:
            yield from (value.inside(steps) for value in self._exported(f"{module}.{node.attr}", file))
        for method in self.index.functions.get(node.attr, ()):
            if is_property(method.node) and self.are_together(file, method.file):
                yield from (Value(value, steps) for value in returned(method))

    def _own(self, place: Place[ast.Attribute]) -> list[Value]:
        """The values that the classes of `x` in `x.name` give the attribute, where these classes are known."""
        name, owner = place.node.attr, place.node.value
        cls = enclosing_class(place) if is_self(owner) else None
        owners = [cls] if cls is not None else []
        if not is_self(owner) and len(self.index.givers.get(name, ())) > 1:
            owners = self._classes(place.at(owner))
        return [value for each in dict.fromkeys(owners) for value in self.index.members.get((each, name), ())]

    def _of_attributes(self, name: str, file: ParsedFile) -> list[Value]:
        """The values of attributes of a name, of whatever object, that a file may be given."""
        by_path = self.index.attributes.get(name, {})
        together = self._together.get(file.path)
        paths = by_path if together is None else sorted(by_path.keys() & together)
        return [value for path in paths for value in by_path[path]]

    def _of_call(self, place: CallPlace, steps: tuple[Key, ...]) -> Iterator[Value]:
        call = place.node
        name = last_name(call.func)
        if name == "zip":
            given = [each for each in arguments(call) if not is_unpacked(each)]
            yield from (Value(place.at(argument_value(each)), steps) for each in given)
        elif name in PASSED_ON:
            given = [each for each in arguments(call)[:1] if not is_unpacked(each)]
            yield from (Value(place.at(argument_value(each)), steps) for each in given)
        elif name in {"items", "values"} and isinstance(call.func, ast.Attribute):
            inner = steps[2:] if name == "items" and steps[1:2] == (1,) else steps[1:]
            yield Value(place.at(call.func.value), (None, *inner))
        elif name == "dict":
            for keyword in call.keywords:
                if keyword.arg is not None and steps and steps[0] in (None, keyword.arg):
                    yield Value(place.at(keyword.value), steps[1:])
        else:
            functions = [target.at(target.node) for target in self.targets(place) if isinstance(target.node, FUNCTIONS)]
            for function in functions:
                yield from (Value(value, steps, place) for value in returned(function))
            if not functions and name in self._same and isinstance(call.func, ast.Attribute):
                yield Value(place.at(call.func.value), steps)

    # Calls and what they call

    def targets(self, call: CallPlace) -> list[Place[Definition]]:
        """The functions and classes of the program that a call may call."""
        if call.node not in self._targets:
            self._targets[call.node] = self._find_targets(call)
        return self._targets[call.node]

    def _find_targets(self, call: CallPlace) -> list[Place[Definition]]:
        func = call.node.func
        if last_name(func) not in self.index.callable:
            return []
        found = self._definition(call.at(func))
        if found is not None:
            return [found]
        if isinstance(func, ast.Attribute) and not self._is_module(call.at(func.value)):
            return list(self._methods(call.at(func)))
        return []

    def _definition(self, place: AnyPlace) -> Place[Definition] | None:
        """The function or class of the program that an expression names."""
        names, scope = place.file.names, place.file.scope_of(place.node)
        found = names.definition(place.node, scope)
        if found is None:
            return None
        file = self.files.get(found.names.path)
        if file is None:  # known by its names only: parsed to be kept, it may have new nodes
            file = self.program.file(found.names.path)
            found = names.definition(place.node, scope)
        return Place(file, found.bound.node) if file is not None and found is not None else None

    def _is_module(self, place: AnyPlace) -> bool:
        return place.file.names.import_path(place.node, place.file.scope_of(place.node)) is not None

    def _methods(self, place: Place[ast.Attribute]) -> Sequence[FunctionPlace]:
        """The methods that `x.name` may be: of x's class where that is known, else all of that name."""
        name, owner = place.node.attr, place.node.value
        if not any(enclosing_class(function) is not None for function in self.index.functions.get(name, ())):
            return []
        if is_self(owner):
            cls = enclosing_class(place)
            own = self.index.methods.get((cls, name), []) if cls is not None else []
            return own or self._named_methods(name, place.file)
        owners = self._classes(place.at(owner))
        if owners:
            return [method for each in dict.fromkeys(owners) for method in self.index.methods.get((each, name), ())]
        return self._named_methods(name, place.file) if name not in self._shared else []

    def _named_methods(self, name: str, file: ParsedFile) -> list[FunctionPlace]:
        return [
            function
            for function in self.index.functions.get(name, ())
            if self.are_together(file, function.file) and enclosing_class(function) is not None
        ]

    def _classes(self, place: AnyPlace) -> list[ast.ClassDef]:
        """The classes of the program that the value of an expression may be of."""
        if place.node not in self._owners:
            self._owners[place.node] = []  # needed again while it is worked out
            made = self._followed(Value(place), _CLASS_DEPTH).values()
            targets = [target.node for each in made for target in self.targets(each.place)]
            self._owners[place.node] = [node for node in targets if isinstance(node, ast.ClassDef)]
        return self._owners[place.node]

    def iterated(self, made: CallPlace) -> list[AnyPlace]:
        """Return what an object gives when it is iterated over, if a call makes one of a class with an `__iter__`."""
        classes = [target for target in self.targets(made) if isinstance(target.node, ast.ClassDef)]
        parts = [owner.at(part) for owner in classes for part in owner.node.body if isinstance(part, FUNCTIONS)]
        return [place for method in parts if method.node.name == "__iter__" for place in returned(method)]

    def callers(self, function: FunctionPlace) -> list[CallPlace]:
        """The calls of a function or method of the program; of `__init__` those of its class."""
        owner = enclosing_class(function)
        if function.node.name == "__init__" and owner is not None:
            return self.calls_of(owner)
        return self.calls_of(function.node)

    def calls_of(self, definition: Definition) -> list[CallPlace]:
        """The calls of a function, or those that make an object of a class, of the program."""
        name = definition.name
        if name in self._callers:
            return self._callers[name].get(definition, [])
        calls = self.index.calls.get(name, ())
        if name in self._in_work:  # needed again while it is worked out
            return [call for call in calls if any(target.node is definition for target in self.targets(call))]
        self._in_work.add(name)
        found: dict[Definition, list[CallPlace]] = {}
        for call in calls:
            for target in self.targets(call):
                found.setdefault(target.node, []).append(call)
        self._callers[name] = found
        return found.get(definition, [])

    def arguments(self, function: FunctionPlace, parameter: str) -> list[AnyPlace]:
        """Return what a parameter is given, over all calls of its function."""
        found = [argument(call, function, parameter) for call in self.callers(function)]
        return [place for place in found if place is not None]


def _together(runs: Sequence[Collection[str]]) -> dict[str, frozenset[str]]:
    """For each file the files that some run loads with it."""
    loading: dict[str, list[int]] = {}
    for number, run in enumerate(runs):
        for path in run:
            loading.setdefault(path, []).append(number)
    known: dict[tuple[int, ...], frozenset[str]] = {}
    found: dict[str, frozenset[str]] = {}
    for path, numbers in loading.items():
        key = tuple(numbers)
        if key not in known:
            known[key] = frozenset().union(*(runs[number] for number in numbers))
        found[path] = known[key]
    return found
