"""The meanings of a library's expressions in a running program, by where their values come from: modules, functions,
classes, objects. What is not of the library is a dotted name. They hold no nodes of a syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import partial
from typing import NamedTuple

from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.facts.values import MODULE
from gpu2npu.python.flow.value_calls import ValueOrigin
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import TENSOR, TENSORS
from gpu2npu.python.project.imports import absolute_name, module_names
from gpu2npu.python.project.project import Project
from gpu2npu.python.tree.scopes import Defined, Scope
from gpu2npu.python.tree.syntax import DEFINITIONS, FUNCTIONS, is_property

_PARTS = re.compile(r"\(\)|\[[^\]]*\]|\.\w+")  # of what comes behind a name: `torch.nn.Linear()[*].weight`
_OF_CLASS = re.compile(r"\.[A-Z]\w*\.")  # a name in a class, which may be that of one of the project
_SEVERAL = frozenset({TENSOR, TENSORS})


class MeaningKind(Enum):
    """The kinds of what an expression means."""

    MODULE = "module"
    FUNCTION = "function"
    CLASS = "class"
    OBJECT = "object"  # of a class of the project
    NAME = "name"  # a qualified name that is not the project's
    INSTANCE = "instance"  # an object of a class that is not the project's; TENSOR for the library's tensors
    MEMBER = "member"  # an attribute of such an object, or one that a class of the project has from such a class


class Meaning(NamedTuple):
    """One thing that an expression may mean.

    With a `path`, `name` is what the file there defines, with the classes around it (the class of an object; "" for the
    module itself); without, a qualified name.
    """

    kind: MeaningKind
    name: str
    path: str = ""


_MODULE, _FUNCTION, _CLASS, _OBJECT, _NAME, _INSTANCE, _MEMBER = MeaningKind
_OF_ORIGINS = {"function": _FUNCTION, "class": _CLASS, "instance": _OBJECT}


def defined_name(scope: Scope) -> str | None:
    """The name of the function or class that opens a scope, with those of the classes around it; None within a
    function."""
    parts: list[str] = []
    inner: Scope | None = scope
    while inner is not None and inner.kind != "module":
        if inner.kind != "types":
            if not isinstance(inner.node, ast.ClassDef) and inner is not scope:
                return None
            parts.append(getattr(inner.node, "name", ""))
        inner = inner.parent
    return ".".join(reversed(parts))


class Meanings:
    """Answers what the expressions of a project's files may mean. `modules` are the dotted names of its files."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.library = project.library
        self.values = values_of(project)
        self.modules = module_names(project)
        self._names: dict[int, str] = {}  # of what is defined in a place
        self._classes: dict[Meaning, tuple[int, Scope]] = {}  # their places and scopes
        for names in self.files():
            for node, scope in names.file.scopes.items():
                name = defined_name(scope) if isinstance(node, DEFINITIONS) else None
                if name is not None and (place := self.values.place(names, node)):
                    self._names[place] = name
                    if isinstance(node, ast.ClassDef):
                        self._names[self._instance(place)] = name
                        self._classes[Meaning(_CLASS, name, names.path)] = place, scope

    def _instance(self, cls: int) -> int:
        instance: int = self.values.kind(cls)[1].instance
        return self.values.at(cls).first + instance

    def files(self) -> Iterator[Names]:
        """The files of the project that can be parsed, sorted by path."""
        return filter(None, map(self.project.names, sorted(self.modules)))

    def of(self, node: ast.AST, names: Names) -> list[Meaning]:
        """Return what an expression of a file may mean; nothing where that is not known."""
        place = self.values.place(names, node)
        with self.values.near(names.path):
            found = self._meanings(self.values.sources(place, names.path)) if place else []
        if any(each.kind is _NAME and _OF_CLASS.search(each.name) for each in found):
            direct = names.qualified(node, names.file.scope_of(node))
            found = [
                each._replace(kind=_MEMBER)
                if each.kind is _NAME and each.name != direct and _OF_CLASS.search(each.name)
                else each
                for each in found
            ]
        return found

    def member(self, path: str, name: str) -> list[Meaning]:
        """Return what a name of a module means, through its imports."""
        file = self.values.file_at(path)
        return self._meanings(self.values.sources(file.first + MODULE, path, (f".{name}",))) if file is not None else []

    def _meanings(self, origins: Iterable[ValueOrigin]) -> list[Meaning]:
        """The meanings of some sources; those that a class of the project has from one that is not, where it has none
        of its own."""
        found = dict.fromkeys(filter(None, map(self._meaning, origins)))
        inherited = [each for each in found if each.kind in (_INSTANCE, _MEMBER)]
        return inherited if len(inherited) == len(found) else [each for each in found if each not in inherited]

    def _meaning(self, origin: ValueOrigin) -> Meaning | None:
        path = self.values.path_at(origin.place)
        if origin.kind == "module":
            return Meaning(_MODULE, "", path)
        if origin.kind == "outside":
            return self._outside(origin, path)
        kind, name = _OF_ORIGINS.get(origin.kind), self._names.get(origin.place)
        return Meaning(kind, name, path) if kind is not None and name is not None else None

    def _outside(self, origin: ValueOrigin, path: str) -> Meaning | None:
        """The meaning of a dotted name, and of calls and attributes of it."""
        name = re.split(r"[(\[]", origin.text)[0]
        if "." not in name and self.values.kind(origin.place)[0] == "outside":
            return None  # a builtin
        found: Meaning | None = Meaning(
            _NAME, self.library.canonical(absolute_name(name, self.modules.get(path, ""), path))
        )
        for part in _PARTS.findall(origin.text, len(name)):
            if found is not None and part == "()":
                found = self._given(found)
            elif found is not None and part[0] == ".":
                found = self._attribute(found, part)
            elif found is not None and found.name in self.library.packages:
                return None  # getattr(torch, name)
        return found

    def _attribute(self, owner: Meaning, attribute: str) -> Meaning | None:
        cls, _, last = owner.name.rpartition(".")
        if owner.kind is _NAME:
            return Meaning(_NAME, self.library.canonical(owner.name + attribute))
        if owner.kind is _INSTANCE:
            return Meaning(_MEMBER, owner.name + attribute)
        is_tensor = cls == TENSOR and TENSOR in self.library.tensor_attribute(last)
        return Meaning(_MEMBER, TENSOR + attribute) if is_tensor else None

    def _given(self, called: Meaning) -> Meaning | None:
        """The result of calling something outside the project: an object of a class, whose name has a capital; of the
        library's functions and layers the tensor."""
        owner, _, last = called.name.rpartition(".")
        if called.kind is _INSTANCE:
            types = self.library.layer_result(called.name)
        elif called.kind is _NAME and last in self.library.object_calls and self.library.is_module_class(owner):
            types = _SEVERAL  # of a layer of the project
        elif called.kind is _MEMBER and last in self.library.fluent:
            return Meaning(_INSTANCE, owner)
        elif called.kind is _MEMBER:
            types = self.library.tensor_method(last) if owner == TENSOR else frozenset()
        elif called.name in self.library.tensors:
            types = _SEVERAL
        elif last[:1].isupper():
            return Meaning(_INSTANCE, called.name)
        else:
            types = self.library.assumed_result(called.name)
        return Meaning(_INSTANCE, TENSOR) if _SEVERAL & types else None

    def dotted(self, meaning: Meaning) -> str:
        """The dotted name of what is meant, of an object that of its class."""
        if not meaning.path:
            return meaning.name
        module = self.modules[meaning.path]
        return f"{module}.{meaning.name}" if meaning.name else module

    # Classes

    def mro(self, cls: Meaning) -> tuple[Meaning, ...]:
        """A class of the project and those it inherits from, nearest first."""
        own = cls._replace(kind=_CLASS)
        return self.project.cached(("mro", *own[1:]), partial(self._mro, own)) or (own,)

    def _mro(self, cls: Meaning) -> tuple[Meaning, ...]:
        above = (self.mro(base) if base.kind is _CLASS else (base,) for base in self.bases(cls))
        return tuple(dict.fromkeys((cls, *(each for line in above for each in line))))

    def bases(self, cls: Meaning) -> list[Meaning]:
        """The classes that a class of the project names as its bases."""
        place, _ = self._classes.get(cls._replace(kind=_CLASS), (0, None))
        first = self.values.at(place).first
        places = self.values.kind(place)[1].bases if place else ()
        found = (self._meanings(self.values.sources(first + base, cls.path)) for base in places if base)
        return [each for several in found for each in several if each.kind in (_CLASS, _NAME)]

    def method(self, cls: Meaning, name: str) -> Meaning | None:
        """The method of a class of the project, its own or inherited."""
        found = self._method(cls, name)
        return found[0] if found is not None else None

    def reads_property(self, owner: Meaning, name: str) -> Meaning | None:
        """The property that an attribute of an object of the project reads."""
        found = self._method(owner, name) if owner.kind is _OBJECT else None
        return found[0] if found is not None and is_property(found[1].node) else None

    def _method(self, cls: Meaning, name: str) -> tuple[Meaning, Defined] | None:
        for each in self.mro(cls) if cls.path else ():
            _, scope = self._classes.get(each, (0, None))
            for binding in scope.bindings.get(name, ()) if scope is not None else ():
                if isinstance(binding, Defined) and isinstance(binding.node, FUNCTIONS):
                    return Meaning(_FUNCTION, f"{each.name}.{name}", each.path), binding
        return None

    def is_layer(self, cls: Meaning) -> bool:
        """Return whether a class of the project is one of the library's layers, as far as can be known."""
        is_known = any(self.library.is_module_class(each.name) for each in self.mro(cls) if not each.path)
        return is_known or self.method(cls, "forward") is not None
