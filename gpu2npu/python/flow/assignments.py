"""The index that values are followed through: what the files of a program assign, call and define, by name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import Struct

from gpu2npu.python.project.program import ParsedFile
from gpu2npu.python.tree.place import AnyPlace, CallPlace, FunctionPlace, Key, Place, enclosing_class
from gpu2npu.python.tree.scopes import Parameter, Scope
from gpu2npu.python.tree.syntax import elements, last_name


class Value(Struct, frozen=True):
    """The value of a name or an attribute: `steps` into the value of an expression, which is made for the call `via` if
    it is what a function returns."""

    place: AnyPlace
    steps: tuple[Key, ...] = ()
    via: CallPlace | None = None

    def inside(self, steps: tuple[Key, ...]) -> Value:
        """The value at further steps into this one."""
        return Value(self.place, (*self.steps, *steps), self.via)


@dataclass(eq=False)
class Assignments:
    """`named` are the values of the names of a scope, `attributes` those of attributes by file, `members` those of
    attributes given in a class, `givers` the classes that give one, `items` the targets such as `x[key]` by file,
    `functions` all functions and `methods` those of a class, `callable` the names by which functions and classes may
    be called."""

    named: dict[tuple[Scope, str], list[Value]] = field(default_factory=lambda: defaultdict(list))
    attributes: dict[str, dict[str, list[Value]]] = field(default_factory=lambda: defaultdict(dict))
    members: dict[tuple[ast.ClassDef, str], list[Value]] = field(default_factory=lambda: defaultdict(list))
    givers: dict[str, set[ast.ClassDef]] = field(default_factory=lambda: defaultdict(set))
    items: dict[str, list[Place[ast.Subscript]]] = field(default_factory=lambda: defaultdict(list))
    calls: dict[str, list[CallPlace]] = field(default_factory=lambda: defaultdict(list))
    functions: dict[str, list[FunctionPlace]] = field(default_factory=lambda: defaultdict(list))
    methods: dict[tuple[ast.ClassDef, str], list[FunctionPlace]] = field(default_factory=lambda: defaultdict(list))
    callable: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, files: Iterable[ParsedFile]) -> Assignments:
        """Go over some files once."""
        found = cls()
        for file in files:
            found._add(file)
        return found

    def _add(self, file: ParsedFile) -> None:
        for assign in file.nodes(ast.Assign):
            for target in assign.targets:
                self._assign(file, target, Value(Place(file, assign.value)))
        for annotated in file.nodes(ast.AnnAssign):
            if annotated.value is not None:
                self._assign(file, annotated.target, Value(Place(file, annotated.value)))
        for named in file.nodes(ast.NamedExpr):
            self._assign(file, named.target, Value(Place(file, named.value)))
        loops: list[ast.For | ast.AsyncFor | ast.comprehension] = [*file.fors, *file.nodes(ast.comprehension)]
        for loop in loops:
            self._assign(file, loop.target, Value(Place(file, loop.iter), (None,)))
        for call in file.nodes(ast.Call):
            self.calls[last_name(call.func) or ""].append(Place(file, call))
        for function in file.functions:
            place = Place(file, function)
            self.functions[function.name].append(place)
            owner = enclosing_class(place)
            if owner is not None:
                self.methods[owner, function.name].append(place)
        for scope in file.scopes.values():
            for name, bindings in scope.bindings.items():
                if not all(isinstance(binding, Parameter) for binding in bindings):
                    self.callable.add(name)
        self.callable |= self.functions.keys()

    def _assign(self, file: ParsedFile, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            found = file.scope_of(target).lookup(target.id)
            if found is not None:
                self.named[found[0], target.id].append(value)
        elif isinstance(target, ast.Attribute):
            self.attributes[target.attr].setdefault(file.path, []).append(value)
            owner = enclosing_class(Place(file, target))
            if owner is not None:
                self.members[owner, target.attr].append(value)
                self.givers[target.attr].add(owner)
        elif isinstance(target, ast.Subscript):
            self.items[file.path].append(Place(file, target))
        for index, element in enumerate(elements(target)):
            inner = element.value if isinstance(element, ast.Starred) else element
            self._assign(file, inner, value.inside((index,)))
