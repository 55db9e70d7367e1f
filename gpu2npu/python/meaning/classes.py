"""The classes of a project, as the objects that an expression may mean need them: bases, methods and properties."""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from gpu2npu.python.meaning.meaning import Found, Meaning, MeaningKind, joined
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import CALLED
from gpu2npu.python.project.project import EVERY_FILE, Project
from gpu2npu.python.tree.scopes import Defined, Scope
from gpu2npu.python.tree.syntax import FUNCTIONS, is_property, is_static

# The name behind `def`, as bytes: every encoding of Python files has these letters where ASCII has them.
_DEFINED = re.compile(rb"def(?<!\wdef)(?:[ \t\f]|\\\r?\n?)+([\w\x80-\xff]+)")
_Answer = TypeVar("_Answer")
_DEPTH = 50  # questions that one leads to, one within the other, before nothing is found
_CLASS, _NAME = MeaningKind.CLASS, MeaningKind.NAME


class Classes(ABC):
    """Answers questions about the classes of a project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.library = project.library
        self._depth = 0

    @abstractmethod
    def of(self, node: ast.AST | None, scope: Scope, names: Names) -> Found:
        """Return what an expression in a scope of a file may mean; nothing where that is not known."""

    def deeper(self, ask: Callable[[], _Answer]) -> _Answer | None:
        """The answer to a question that others lead to; None where too many do."""
        if self._depth > _DEPTH:
            self.project.cut_short()
            return None
        self._depth += 1
        try:
            return ask()
        finally:
            self._depth -= 1

    def cached(self, question: tuple[str, ...], ask: Callable[[], _Answer]) -> _Answer | None:
        """The answer to a question that is remembered for good."""
        return self.deeper(partial(self.project.cached, question, ask))

    def definition(self, meaning: Meaning) -> tuple[Defined, Names] | None:
        """The function or class that is meant, or the class of an object, with the names of its file; of several with
        one name the last."""
        names = self.project.names(meaning.path) if meaning.path and meaning.name else None
        scope = names.file.module if names is not None else None
        found: Defined | None = None
        for part in meaning.name.split("."):
            inner = (each for each in reversed(scope.bindings.get(part, ()) if scope else ()))
            found = next((each for each in inner if isinstance(each, Defined)), None)
            scope = found.scope if found is not None else None
        return (found, names) if found is not None and names is not None else None

    def mro(self, cls: Meaning) -> Found:
        """A class of the project and those it inherits from, nearest first."""
        question = "classes", cls.path, cls.name
        return self.cached(question, partial(self._find_mro, cls)) or (cls,)

    def _find_mro(self, cls: Meaning) -> Found:
        own = Meaning(_CLASS, cls.name, cls.path)
        lines = (self.mro(base) if base.kind is _CLASS else (base,) for base in self.bases(own))
        return tuple(dict.fromkeys((own, *joined(lines))))

    def bases(self, cls: Meaning) -> Found:
        """The classes that a class of the project names as its bases."""
        found = self.definition(cls)
        if found is None or not isinstance(found[0].node, ast.ClassDef):
            return ()
        defined, names = found
        outer = defined.scope.parent or defined.scope
        written = [base.value if isinstance(base, ast.Subscript) else base for base in found[0].node.bases]
        return tuple(each for base in written for each in self.of(base, outer, names) if each.kind in (_CLASS, _NAME))

    def method(self, cls: Meaning, name: str, inherited_only: bool = False) -> Meaning | None:
        """The method of a class of the project, its own or inherited; `inherited_only`: only inherited."""
        for each in self.mro(cls)[1 if inherited_only else 0 :]:
            if each.path and name in self._methods(each):
                return Meaning(MeaningKind.FUNCTION, f"{each.name}.{name}", each.path)
        return None

    def _methods(self, cls: Meaning) -> dict[str, bool]:
        """The methods that a class defines itself; True for those that are read like attributes."""
        return self.cached(("methods", cls.path, cls.name), partial(self._own_methods, cls)) or {}

    def _own_methods(self, cls: Meaning) -> dict[str, bool]:
        found = self.definition(cls)
        bindings = found[0].scope.bindings if found is not None else {}
        methods = ((name, each) for name, several in bindings.items() for each in several if isinstance(each, Defined))
        return {name: is_property(each.node) for name, each in methods if isinstance(each.node, FUNCTIONS)}

    def outside_base(self, cls: Meaning) -> str | None:
        """The nearest class that a class of the project inherits from and that is not the project's."""
        return next((each.name for each in self.mro(cls) if not each.path), None)

    def is_layer(self, cls: Meaning) -> bool:
        """Return whether a class of the project is one of the library's layers, as far as can be known."""
        line = self.mro(cls)
        is_known = any(self.library.is_module_class(each.name) for each in line if not each.path)
        return is_known or self.method(cls, CALLED[0]) is not None

    def reads_property(self, owner: Meaning, name: str) -> Meaning | None:
        """The property that an attribute of an object of the project reads."""
        method = self.method(owner, name) if owner.kind is MeaningKind.OBJECT else None
        cls, _, last = method.name.rpartition(".") if method is not None else ("", "", "")
        is_read = method is not None and self._methods(Meaning(_CLASS, cls, method.path))[last]
        return method if is_read else None


def method_parameters(project: Project, method: str, asker: str) -> frozenset[tuple[str, ...]]:
    """The names of the parameters that can be given by position, of each method of a name that the project's classes
    define, without the first where it is the object or class itself."""
    project.consult(asker, EVERY_FILE)
    return project.cached(("parameters", method), partial(_parameters_of, project, method)) or frozenset()


def _parameters_of(project: Project, method: str) -> frozenset[tuple[str, ...]]:
    defining = project.cached(("functions",), partial(_files_of_functions, project)) or {}
    return frozenset(
        positional
        for path in defining.get(method.encode(errors="surrogatepass"), ())
        for positional in _positional(project.names(path), method)
    )


def _positional(names: Names | None, method: str) -> Iterator[tuple[str, ...]]:
    for cls in names.file.scopes.values() if names is not None else ():
        for binding in cls.bindings.get(method, ()) if cls.kind == "class" else ():
            if isinstance(binding, Defined) and isinstance(binding.node, FUNCTIONS):
                given = binding.node.args
                first = 0 if is_static(binding.node) else 1
                yield tuple(each.arg for each in (*given.posonlyargs, *given.args))[first:]


def _files_of_functions(project: Project) -> dict[bytes, list[str]]:
    """The files that seem to define a function of a name; no other defines one. They are not parsed for it."""
    found: dict[bytes, list[str]] = {}
    for path in sorted(project.files):
        try:
            source = project.read(path)
        except OSError:
            continue
        for name in set(_DEFINED.findall(source)):
            found.setdefault(name, []).append(path)
    return found
