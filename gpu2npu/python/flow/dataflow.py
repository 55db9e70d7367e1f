"""The calls that make the value of an expression, and those that call a function, as nodes of a program's files: what
the solver for values answers, with the calls of libraries that pass on what they are given."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from gpu2npu.python.flow.forward import BUDGET, LONGEST
from gpu2npu.python.flow.value_files import Path, State
from gpu2npu.python.flow.values import Values
from gpu2npu.python.project.program import ParsedFile, Program
from gpu2npu.python.tree.place import (
    AnyPlace,
    CallPlace,
    FunctionPlace,
    Place,
    argument,
    enclosing_function,
    returned,
    same_name,
)
from gpu2npu.python.tree.scopes import Parameter
from gpu2npu.python.tree.syntax import DEFINITIONS, FUNCTIONS, Definition, is_self, last_name

# Calls that pass on the elements of their first argument.
PASSED_ON = frozenset(
    {"enumerate", "tqdm", "iter", "next", "islice", "cycle", "track", "list", "reversed", "tenumerate"}
)
_FOUND = (ast.Call, ast.Dict, ast.DictComp, *DEFINITIONS)


class Made(Struct, frozen=True):
    """A call that makes a value, and the call of the function around it for which it does so, if that is known."""

    place: CallPlace
    via: CallPlace | None = None

    @property
    def key(self) -> ast.Call:
        """The node of the call."""
        return self.place.node


class Dataflow:
    """Follows values over the given files of a program. `runs` are the files that each start of a program loads. `same`
    are the methods of libraries' objects that give their own object."""

    def __init__(
        self,
        program: Program,
        files: Mapping[str, ParsedFile],
        values: Values,
        runs: Sequence[Collection[str]] = (),
        same: frozenset[str] = frozenset(),
    ) -> None:
        self.program = program
        self.files = files
        self._values = values
        self._runs = runs
        self._same = same
        scopes = (scope for file in files.values() for scope in file.scopes.values())
        bound = ((name, each) for scope in scopes for name, several in scope.bindings.items() for each in several)
        self._callable = {each.name for file in files.values() for each in file.functions}
        self._callable |= {name for name, each in bound if not isinstance(each, Parameter)}
        self._nodes: dict[str, dict[int, AnyPlace]] = {}
        self._callees: dict[int, list[AnyPlace]] = {}
        self._names: dict[str, dict[int, list[AnyPlace]]] = {}

    @property
    def calls(self) -> list[CallPlace]:
        return [Place(file, node) for file in self.files.values() for node in file.nodes(ast.Call)]

    @property
    def functions(self) -> list[FunctionPlace]:
        return [Place(file, node) for file in self.files.values() for node in file.functions]

    def are_together(self, one: ParsedFile, other: ParsedFile) -> bool:
        """Return whether some start of a program loads both files."""
        return one is other or not self._runs or any(one.path in run and other.path in run for run in self._runs)

    # Names

    def assigned(self, name: Place[ast.Name]) -> list[AnyPlace]:
        """The expressions that a name is assigned as a whole; empty if any binding of it is of another kind."""
        values = name.file.scope_of(name.node).values(name.node)
        known = [name.at(value) for value in values if value is not None]
        return list(known) if len(known) == len(values) else []

    def is_assigned(self, attribute: str) -> bool:
        """Return whether the program assigns an attribute of that name, of whatever object."""
        return not self.program.project.storing(attribute).isdisjoint(self.files)

    def updates(self, name: Place[ast.Name]) -> list[CallPlace | Place[ast.Subscript]]:
        """The calls `name.update(...)` and the targets `name[key]` of assignments."""
        found: list[CallPlace | Place[ast.Subscript]] = []
        targets = (each for each in name.file.nodes(ast.Subscript) if isinstance(each.ctx, ast.Store))
        found += [name.at(each) for each in targets if same_name(name, each.value)]
        for call in name.file.nodes(ast.Call):
            func = call.func
            if isinstance(func, ast.Attribute) and func.attr == "update" and same_name(name, func.value):
                found.append(name.at(call))
        return found

    # Where a value is made

    def containers(self, place: AnyPlace) -> list[AnyPlace]:
        """The dictionaries written out in the program, or comprehensions of them, that an expression may be."""
        at = self._place(place)
        made = self._values.sources(at, place.file.path) if at else []
        found = (self._node(each.place) for each in made if each.kind == "container")
        return [each for each in found if each is not None and isinstance(each.node, (ast.Dict, ast.DictComp))]

    def makers(self, place: AnyPlace) -> list[CallPlace]:
        """The calls of the program that may make the value of an expression: of library functions and of classes."""
        return list({made.key: made.place for made in self.made(place)}.values())

    def made(self, place: AnyPlace) -> list[Made]:
        """The same, with the calls of the functions that they are in: one entry for each."""
        found: dict[tuple[ast.Call, ast.Call | None], Made] = {}
        for at, via in self._making(self._place(place)):
            call = self._call(at)
            if call is not None:
                within = enclosing_function(call)
                called = [each.node for each in self._called(via)] if via and within is not None else []
                known = self._call(via) if within is not None and within.node in called else None
                found[call.node, known.node if known is not None else None] = Made(call, known)
        return list(found.values())

    def _making(self, start: int) -> Iterator[tuple[int, int]]:
        """The calls from which a value comes, each with the last call of a function on its way or 0."""
        pending: list[tuple[State, int]] = [((start, ()), 0)] if start else []
        seen: set[tuple[State, int]] = set()
        while pending and len(seen) < BUDGET:
            state, via = pending.pop()
            if (state, via) in seen or len(state[1]) > LONGEST:
                continue
            seen.add((state, via))
            at, path = state
            is_call = at in self._values.at(at).calls
            given = self._passed_values(at, path) if is_call else None
            if is_call and given is None and not path:
                yield at, via
                continue
            if not path and self._values.kind(at)[0] == "instance":
                given = [(each, ()) for each in self._objects(at, via)]
            before = self._values.before(at, path) if given is None else given
            by_function = is_call and any(isinstance(each.node, FUNCTIONS) for each in self._called(at))
            pending += reversed([(each, at if by_function else via) for each in before])

    def _objects(self, instance: int, via: int) -> Iterable[int]:
        """The values that `self` may be: what a method is called on, or else the calls that make objects."""
        receiver = self._values.receiver(via)
        made = self._values.at(instance).first + self._values.kind(instance)[1].node
        return [receiver] if receiver else self._values.callers(made)

    def _passed_values(self, at: int, path: Path) -> list[State] | None:
        """The values that a function of the program returns, or that a call of a library passes on; None for others."""
        functions = [each.at(each.node) for each in self._called(at) if isinstance(each.node, FUNCTIONS)]
        if functions:
            results = (self._place(each) for function in functions for each in returned(function))
            return None if path else [(each, ()) for each in results if each]
        file = self._values.at(at)
        call, given = file.calls[at], file.arguments(file.calls[at])
        receiver = self._values.receiver(at)
        if receiver and (call.name in self._same or call.name == "__iter__"):
            return [(receiver, path)]
        if path or call.name == "dict":
            return None if path else []
        if call.name == "zip":
            return [(each, ()) for key, each in given.items() if key.isdigit()]
        if call.name in ("items", "values") and receiver:
            return [(receiver, ("[*]",))]
        return [(given["0"], ())] * ("0" in given) if call.name in PASSED_ON else None

    def passed_on(self, place: AnyPlace) -> list[AnyPlace]:
        """The calls such as `tqdm(x)` on the way of a value."""
        start = self._place(place)
        ways = self._values.way_to(start) if start else {}
        found = (self._node(at) for at, path in ways if not path and at in self._values.at(at).calls)
        return [call for call in found if call is not None and last_name(call.node) in PASSED_ON]

    # Where a value is used

    def same(self, start: AnyPlace, is_other: Callable[[CallPlace], bool]) -> Iterator[AnyPlace]:
        """The names, attributes, items and calls that have the value of an expression, but for what a call gives that
        `is_other`."""
        at, others = self._place(start), set[State | None]()
        for state, before in self._values.reach(at).items() if at else ():
            file = self._values.at(state[0])
            call = self._call(state[0]) if not state[1] and state[0] != at else None
            if before in others or (call is not None and is_other(call)):
                others.add(state)
            elif not state[1] and file.path in self.files:
                yield from self._named(file.path).get(state[0] - file.first, ())

    def _named(self, path: str) -> dict[int, list[AnyPlace]]:
        """The names, attributes, items and calls of a file by their places."""
        if path not in self._names:
            parsed, found = self.files[path], dict[int, list[AnyPlace]]()
            for node, number in self._values.places(parsed.names).items():
                if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) and number:
                    found.setdefault(number, []).append(Place(parsed, node))
            self._names[path] = found
        return self._names[path]

    # Calls and what they call

    def targets(self, call: CallPlace) -> list[Place[Definition]]:
        """The functions and classes of the program that a call may call."""
        at = self._place(call)
        found = self._called(at) if at else []
        return [each.at(each.node) for each in found if isinstance(each.node, DEFINITIONS)]

    def run_by(self, call: CallPlace) -> list[FunctionPlace]:
        """The functions of the program that a call may run: of a class its `__init__`."""
        found: list[AnyPlace] = []
        for target in self.targets(call):
            is_class = isinstance(target.node, ast.ClassDef)
            found += self._defined(self._place(target), (".__init__",)) if is_class else [target]
        return [each.at(each.node) for each in found if isinstance(each.node, FUNCTIONS)]

    def iterated(self, source: AnyPlace) -> list[AnyPlace]:
        """Return what the objects that an expression may be give when they are iterated over: those of classes with an
        `__iter__`; of one that gives itself, what its `__next__` returns."""
        found: list[AnyPlace] = []
        for made in self.makers(source):
            classes = [target for target in self.targets(made) if isinstance(target.node, ast.ClassDef)]
            parts = [owner.at(part) for owner in classes for part in owner.node.body if isinstance(part, FUNCTIONS)]
            given = {name: self._returned(parts, name) for name in ("__iter__", "__next__")}
            found += given["__next__" if any(is_self(each.node) for each in given["__iter__"]) else "__iter__"]
        return found

    def _returned(self, methods: Sequence[FunctionPlace], name: str) -> list[AnyPlace]:
        return [place for method in methods if method.node.name == name for place in returned(method)]

    def callers(self, definition: Place[Definition]) -> list[CallPlace]:
        """The calls of a function or method of the program, or those that make an object of a class; of `__init__`
        those of its class."""
        at = self._place(definition)
        calls = sorted(self._values.callers(at), key=lambda each: (self._values.at(each).path, each)) if at else []
        found = map(self._call, calls)
        return [call for call in found if call is not None and call.file.path in self.files]

    def arguments(self, function: FunctionPlace, parameter: str) -> list[AnyPlace]:
        """Return what a parameter is given, over all calls of its function."""
        found = [argument(call, function, parameter) for call in self.callers(function)]
        return [place for place in found if place is not None]

    # Nodes of trees, and places of the solver

    def _place(self, place: AnyPlace) -> int:
        """The place of an expression, function or class; 0 where it is not followed."""
        return self._values.place(place.file.names, place.node)

    def _node(self, place: int) -> AnyPlace | None:
        """The call, dict, function or class in a place."""
        file = self._values.at(place)
        if file.path not in self._nodes:
            parsed = self.program.file(file.path)
            nodes = self._values.places(parsed.names) if parsed is not None else {}
            self._nodes[file.path] = {
                number: Place(parsed, node) for node, number in nodes.items() if parsed and isinstance(node, _FOUND)
            }
        return self._nodes[file.path].get(place - file.first)

    def _call(self, place: int) -> CallPlace | None:
        found = self._node(place) if place else None
        return found.at(found.node) if found is not None and isinstance(found.node, ast.Call) else None

    def _called(self, call: int) -> list[AnyPlace]:
        """The functions and classes of the program that a call may call."""
        if call not in self._callees:
            one = self._values.at(call).calls[call]
            is_callable = one.name in self._callable or not one.name
            callee = self._values.at(call).first + one.callee
            self._callees[call] = self._defined(callee, ()) if is_callable else []
        return self._callees[call]

    def _defined(self, place: int, path: Path) -> list[AnyPlace]:
        """The functions and classes that are the value of a place, under some fields."""
        origins = self._values.origins(place, path)
        found = (self._node(each.place) for each in origins if each.kind in ("function", "class"))
        return [each for each in found if each is not None]
