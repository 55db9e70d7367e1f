"""Where the value of an expression is made: followed back through names, attributes, calls and files.

It over-approximates: an expression may come from each of the calls found, and from elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst

from gpu2npu.codemods.program import ParsedFile, Program
from gpu2npu.codemods.syntax import (
    Key,
    Place,
    argument,
    elements_under,
    enclosing_class,
    enclosing_function,
    is_property,
    key_of,
    returned,
    walk,
)
from gpu2npu.engine.scopes import Imported, Parameter
from gpu2npu.engine.tree import children, last_name

Function = cst.FunctionDef

# Calls that hand on the elements of what they are given first.
PASSED_ON = frozenset(
    {"enumerate", "tqdm", "iter", "next", "islice", "cycle", "track", "list", "reversed", "tenumerate"}
)
_DEPTH = 25


@dataclass(frozen=True)
class _Value:
    """What is assigned to a name or an attribute: `steps` into the value of an expression, which is made for the call
    `via` if it is what a function returns."""

    place: Place
    steps: tuple[Key, ...] = ()
    via: Place | None = None


@dataclass(frozen=True)
class Made:
    """A call that makes a value, and the call of the function around it for which it does so, if that is known."""

    place: Place
    via: Place | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.place.key


_Found = dict[tuple[tuple[str, int], tuple[str, int] | None], Made]


@dataclass(eq=False)
class Dataflow:
    """Definitions and uses over the given files, which are parsed already."""

    program: Program
    files: dict[str, ParsedFile]
    _named: dict[tuple[int, str], list[_Value]] = field(default_factory=lambda: defaultdict(list))
    _attributes: dict[str, list[tuple[Place, _Value]]] = field(default_factory=lambda: defaultdict(list))
    _calls: dict[str, list[Place]] = field(default_factory=lambda: defaultdict(list))
    _functions: dict[str, list[Place]] = field(default_factory=lambda: defaultdict(list))
    _items: list[Place] = field(default_factory=list)  # targets such as x[key]
    _targets: dict[tuple[str, int], list[Place]] = field(default_factory=dict)
    _owners: dict[tuple[str, int], list[cst.ClassDef]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for file in self.files.values():
            for node in walk(file.module):
                self._index(file, node)

    def _index(self, file: ParsedFile, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Assign):
            for target in node.targets:
                self._assign(file, target.target, _Value(Place(file, node.value)))
        elif isinstance(node, (cst.AnnAssign, cst.NamedExpr)) and node.value is not None:
            self._assign(file, node.target, _Value(Place(file, node.value)))
        elif isinstance(node, (cst.For, cst.CompFor)):
            self._assign(file, node.target, _Value(Place(file, node.iter), (None,)))
        elif isinstance(node, cst.Call):
            self._calls[last_name(node.func) or ""].append(Place(file, node))
        elif isinstance(node, cst.FunctionDef):
            self._functions[node.name.value].append(Place(file, node))

    def _assign(self, file: ParsedFile, target: cst.CSTNode, value: _Value) -> None:
        if isinstance(target, cst.Name):
            owner = file.scope_of(target).lookup(target.value)
            if owner is not None:
                self._named[id(owner[0]), target.value].append(value)
        elif isinstance(target, cst.Attribute):
            self._attributes[target.attr.value].append((Place(file, target), value))
        elif isinstance(target, cst.Subscript):
            self._items.append(Place(file, target))
        elif isinstance(target, (cst.Tuple, cst.List)):
            for index, element in enumerate(target.elements):
                self._assign(file, element.value, _Value(value.place, (*value.steps, index)))

    @cached_property
    def calls(self) -> list[Place]:
        return [place for places in self._calls.values() for place in places]

    @cached_property
    def functions(self) -> list[Place]:
        return [place for places in self._functions.values() for place in places]

    # Names

    def assigned(self, name: Place) -> list[Place]:
        """The expressions that a name is assigned as a whole; empty if any binding of it is of another kind."""
        assert isinstance(name.node, cst.Name)
        found = name.file.scope_of(name.node).lookup(name.node.value)
        values = self._named.get((id(found[0]), name.node.value), []) if found is not None else []
        if found is None or len(values) != len(found[1]) or any(value.steps for value in values):
            return []
        return [value.place for value in values]

    def assignments(self, name: Place) -> list[cst.CSTNode]:
        """The expressions that a name takes its value from, or a part of it."""
        assert isinstance(name.node, cst.Name)
        found = name.file.scope_of(name.node).lookup(name.node.value)
        values = self._named.get((id(found[0]), name.node.value), []) if found is not None else []
        return [value.place.node for value in values]

    def containers(self, place: Place) -> list[Place]:
        """The dictionaries written out in the program, or comprehensions of them, that an expression may be."""
        found: list[Place] = []
        seen: set[tuple[str, int]] = set()
        pending: list[tuple[Place, tuple[Key, ...]]] = [(place, ())]
        while pending and len(seen) < 50:
            current, steps = pending.pop()
            if current.key in seen:
                continue
            seen.add(current.key)
            if isinstance(current.node, (cst.Dict, cst.DictComp)) and not steps:
                found.append(current)
            pending += [(value.place, value.steps) for value in self._sources(current, steps)]
        return found

    def is_assigned(self, attribute: str) -> bool:
        """Whether the program assigns an attribute of that name, of whatever object."""
        return attribute in self._attributes

    def updates(self, name: Place) -> list[Place]:
        """The calls `name.update(...)` and the targets `name[key]` of assignments."""
        owners = [(target, target.node.value) for target in self._items if isinstance(target.node, cst.Subscript)]
        owners += [
            (call, call.node.func.value)
            for call in self._calls.get("update", ())
            if isinstance(call.node, cst.Call) and isinstance(call.node.func, cst.Attribute)
        ]
        return [place for place, owner in owners if self._same_name(name, Place(place.file, owner))]

    def _same_name(self, one: Place, other: Place) -> bool:
        if not (isinstance(one.node, cst.Name) and isinstance(other.node, cst.Name)):
            return False
        mine, its = (place.file.scope_of(place.node).lookup(place.node.value) for place in (one, other))  # type: ignore[attr-defined]
        return one.node.value == other.node.value and mine is not None and its is not None and mine[0] is its[0]

    # Where a value is made

    def makers(self, place: Place) -> list[Place]:
        """The calls of the program that may make the value of an expression: of library functions and of classes."""
        return list({made.key: made.place for made in self.made(place)}.values())

    def made(self, place: Place) -> list[Made]:
        """The same, told apart by the calls of the functions that they stand in."""
        found: _Found = {}
        self._follow(_Value(place), found, set(), _DEPTH)
        return list(found.values())

    def _follow(self, value: _Value, found: _Found, seen: set[tuple[object, ...]], depth: int) -> None:
        place, via = value.place, value.via
        state = (place.key, value.steps, via.key if via is not None else None)
        if depth == 0 or state in seen:
            return
        seen.add(state)
        if isinstance(place.node, cst.Call) and not self._handed_on(place):
            if not value.steps:
                known = via if via is not None and self._calls_function_of(via, place) else None
                found[place.key, known.key if known is not None else None] = Made(place, known)
            return
        for source in self._sources(place, value.steps):
            nearer = source.via if source.via is not None else via
            self._follow(_Value(source.place, source.steps, nearer), found, seen, depth - 1)

    def _calls_function_of(self, call: Place, place: Place) -> bool:
        function = enclosing_function(place)
        return function is not None and any(target.node is function.node for target in self.targets(call))

    def _handed_on(self, place: Place) -> bool:
        """Whether a call only hands on what another expression makes."""
        call = place.node
        assert isinstance(call, cst.Call)
        name = last_name(call.func)
        if name in PASSED_ON or name in {"zip", "items", "values", "dict"}:
            return True
        return any(isinstance(target.node, cst.FunctionDef) for target in self.targets(place))

    def _sources(self, place: Place, steps: tuple[Key, ...]) -> Iterator[_Value]:
        """One step back: the values that an expression takes its own from."""
        node, file = place.node, place.file
        if isinstance(node, cst.Name):
            yield from self._of_name(place, steps)
        elif isinstance(node, cst.Attribute):
            yield from self._of_attribute(place, steps)
        elif isinstance(node, cst.Subscript):
            yield _Value(Place(file, node.value), (key_of(node), *steps))
        elif isinstance(node, cst.Call):
            yield from self._of_call(place, steps)
        elif isinstance(node, cst.IfExp):
            yield from (_Value(Place(file, part), steps) for part in (node.body, node.orelse))
        elif isinstance(node, cst.BooleanOperation):
            yield from (_Value(Place(file, part), steps) for part in (node.left, node.right))
        elif isinstance(node, cst.NamedExpr):
            yield _Value(Place(file, node.value), steps)
        elif steps:
            yield from (_Value(Place(file, part), steps[1:]) for part in elements_under(node, steps[0]))

    def _of_name(self, place: Place, steps: tuple[Key, ...]) -> Iterator[_Value]:
        name = place.node
        assert isinstance(name, cst.Name)
        found = place.file.scope_of(name).lookup(name.value)
        if found is None:
            return
        scope, bindings = found
        for value in self._named.get((id(scope), name.value), ()):
            yield _Value(value.place, (*value.steps, *steps))
        for binding in bindings:
            if isinstance(binding, Imported):
                yield from (_Value(v.place, (*v.steps, *steps)) for v in self._exported(binding.qualified, place.file))
            elif isinstance(binding, Parameter) and isinstance(scope.node, cst.FunctionDef):
                yield from (_Value(arg, steps) for arg in self.arguments(Place(place.file, scope.node), name.value))

    def _exported(self, qualified: str, importer: ParsedFile) -> list[_Value]:
        leading = qualified[: len(qualified) - len(qualified.lstrip("."))]
        module, _, name = qualified.lstrip(".").rpartition(".")
        path = self.program.context.module_path(leading + module, importer.path) if leading or module else None
        other = self.files.get(path) if path is not None else None
        return self._named.get((id(other.names.scopes.module), name), []) if other is not None else []

    def _of_attribute(self, place: Place, steps: tuple[Key, ...]) -> Iterator[_Value]:
        node = place.node
        assert isinstance(node, cst.Attribute)
        known = self._attributes.get(node.attr.value, [])
        if self._is_self(node.value):
            mine = enclosing_class(place)
            own = [item for item in known if mine is not None and enclosing_class(item[0]) is mine]
            known = own or known
        for _, value in known:
            yield _Value(value.place, (*value.steps, *steps))
        module = place.file.names.import_path(node.value, place.file.scope_of(node))
        if module is not None:
            yield from (
                _Value(v.place, (*v.steps, *steps)) for v in self._exported(f"{module}.{node.attr.value}", place.file)
            )
        for method in self._functions.get(node.attr.value, ()):
            if isinstance(method.node, cst.FunctionDef) and is_property(method.node):
                yield from (_Value(value, steps) for value in returned(method))

    @staticmethod
    def _is_self(node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Name) and node.value == "self"

    def _of_call(self, place: Place, steps: tuple[Key, ...]) -> Iterator[_Value]:
        call, file = place.node, place.file
        assert isinstance(call, cst.Call)
        name = last_name(call.func)
        if name == "zip":
            yield from (_Value(Place(file, arg.value), steps) for arg in call.args if not arg.star)
        elif name in PASSED_ON:
            yield from (_Value(Place(file, arg.value), steps) for arg in call.args[:1] if not arg.star)
        elif name in {"items", "values"} and isinstance(call.func, cst.Attribute):
            inner = steps[2:] if name == "items" and steps[1:2] == (1,) else steps[1:]
            yield _Value(Place(file, call.func.value), (None, *inner))
        elif name == "dict":
            for arg in call.args:
                if arg.keyword is not None and steps and steps[0] in (None, arg.keyword.value):
                    yield _Value(Place(file, arg.value), steps[1:])
        else:
            for target in self.targets(place):
                if isinstance(target.node, cst.FunctionDef):
                    yield from (_Value(value, steps, place) for value in returned(target))

    # Calls and what they call

    def targets(self, place: Place) -> list[Place]:
        """The functions and classes of the program that a call may call."""
        if place.key not in self._targets:
            self._targets[place.key] = self._find_targets(place)
        return self._targets[place.key]

    def _find_targets(self, place: Place) -> list[Place]:
        call, file = place.node, place.file
        assert isinstance(call, cst.Call)
        if last_name(call.func) not in self._callable:
            return []
        found = self._definition(Place(file, call.func))
        if found is not None:
            return [found]
        if isinstance(call.func, cst.Attribute) and not self._is_module(Place(file, call.func.value)):
            return self._methods(call.func, file)
        return []

    @cached_property
    def _callable(self) -> set[str]:
        """The names by which functions and classes of the program may be called."""
        named = set(self._functions)
        for file in self.files.values():
            for scope in file.names.scopes.by_node.values():
                for name, bindings in scope.bindings.items():
                    if any(not isinstance(binding, Parameter) for binding in bindings):
                        named.add(name)
        return named

    def _definition(self, place: Place) -> Place | None:
        """The function or class of the program that an expression names."""
        names, scope = place.file.names, place.file.scope_of(place.node)
        found = names.definition(place.node, scope)
        if found is None:
            return None
        file = self.files.get(found[0].path)
        if file is None:  # known by its names only: parse it, which makes new nodes
            file = self.program.file(found[0].path)
            found = names.definition(place.node, scope)
        return Place(file, found[1].node) if file is not None and found is not None else None

    def _is_module(self, place: Place) -> bool:
        return place.file.names.import_path(place.node, place.file.scope_of(place.node)) is not None

    def _methods(self, func: cst.Attribute, file: ParsedFile) -> list[Place]:
        """The methods that `x.name` may be: of x's class where that is known, else all of that name."""
        named = [place for place in self._functions.get(func.attr.value, ()) if enclosing_class(place) is not None]
        if not named:
            return []
        if self._is_self(func.value):
            mine = enclosing_class(Place(file, func))
            own = [place for place in named if enclosing_class(place) is mine]
            return own or named
        owners = self._classes(Place(file, func.value))
        own = [place for place in named if any(enclosing_class(place) is owner for owner in owners)]
        if owners:
            return own
        return named if func.attr.value not in _OF_LIBRARIES else []

    def _classes(self, place: Place) -> list[cst.ClassDef]:
        """The classes of the program that the value of an expression may be of."""
        if place.key not in self._owners:
            self._owners[place.key] = []  # asked again while it is worked out
            found: _Found = {}
            self._follow(_Value(place), found, set(), 8)
            targets = [target.node for made in found.values() for target in self.targets(made.place)]
            self._owners[place.key] = [node for node in targets if isinstance(node, cst.ClassDef)]
        return self._owners[place.key]

    def iterated(self, made: Place) -> list[Place]:
        """What an object gives when it is iterated over, if a call makes one of a class with an `__iter__`."""
        methods = [
            Place(target.file, part)
            for target in self.targets(made)
            if isinstance(target.node, cst.ClassDef)
            for part in children(target.node.body)
            if isinstance(part, cst.FunctionDef) and part.name.value == "__iter__"
        ]
        return [place for method in methods for place in returned(method)]

    def callers(self, function: Place) -> list[Place]:
        """The calls of a function or method of the program."""
        assert isinstance(function.node, cst.FunctionDef)
        name, owner = function.node.name.value, enclosing_class(function)
        if name == "__init__" and owner is not None:
            named, wanted = owner.name.value, {id(owner)}
        else:
            named, wanted = name, {id(function.node)}
        calls = self._calls.get(named, ())
        return [call for call in calls if any(id(target.node) in wanted for target in self.targets(call))]

    def instances(self, owner: cst.ClassDef) -> list[Place]:
        """The calls that make an object of a class of the program."""
        calls = self._calls.get(owner.name.value, ())
        return [call for call in calls if any(target.node is owner for target in self.targets(call))]

    def arguments(self, function: Place, parameter: str) -> list[Place]:
        """What a parameter is given, over all calls of its function."""
        found = [argument(call, function, parameter) for call in self.callers(function)]
        return [place for place in found if place is not None]


# Methods that modules and tensors of libraries have too: by their name alone they say nothing about the class.
_OF_LIBRARIES = frozenset(
    {
        "add", "append", "backward", "close", "copy", "cpu", "cuda", "eval", "forward", "get", "item", "items", "keys",
        "load", "log", "mean", "reset", "run", "save", "state_dict", "step", "sum", "to", "train", "update", "values",
        "write", "zero_grad",
    }
)  # fmt: skip
