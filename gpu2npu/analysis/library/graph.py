"""The functions of a library with what they use: which calls which, and which need something that an NPU lacks."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpu2npu.analysis.library.meanings import Meaning, MeaningKind, Meanings, defined_name
from gpu2npu.analysis.library.needs import Needs
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import TENSOR
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import DEFINITIONS, FUNCTIONS, chain, is_annotation, last_name
from gpu2npu.report.third_party import Need

CONSTRUCTORS = ("__init__", "__new__", "__post_init__")
_AUTOGRAD = "torch.autograd.Function"
_KEEPING = frozenset({"append", "add", "update", "setdefault", "extend", "insert", "dict", "set", "list", "namedtuple"})
_INSPECTING = frozenset(
    {"isinstance", "issubclass", "hasattr", "type", "getattr", "print", "len", "str", "repr", "super"}
)


class Use(NamedTuple):
    """A place where something is called ("call"), handed on to `call` ("pass") or read ("read"), in the function
    `owner` of a file: the outermost one, with the classes around it, or "" for the module's own code."""

    node: ast.expr
    scope: Scope
    how: str
    owner: str
    call: ast.Call | None = None


def uses_of(file: PythonFile) -> Iterator[Use]:
    """The uses in a file, in the order of the source; a decorator is called by what it decorates, too."""
    for node, scope in file.uses:
        if isinstance(node, ast.Call):
            owner = _owner(node, file)
            if owner is not None:
                yield Use(node.func, scope, "call", owner)
                inspects = isinstance(node.func, ast.Name) and node.func.id in _INSPECTING
                for given in (*node.args, *(keyword.value for keyword in node.keywords)):
                    if isinstance(given, ast.Name | ast.Attribute) and not inspects:
                        yield Use(given, scope, "pass", owner, node)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = _owner(node, file) if _is_read(node, file) else None
            if owner is not None:
                yield Use(node, scope, "read", owner)
        elif isinstance(node, FUNCTIONS):
            name = defined_name(file.scopes[node])
            if name is not None:
                yield from (Use(each, scope, "call", name) for each in node.decorator_list)


def _is_read(node: ast.Attribute, file: PythonFile) -> bool:
    """Return whether an attribute is neither called, nor handed on, nor a base of a class."""
    parent = file.parents[node]
    if isinstance(parent, ast.keyword):
        parent = file.parents[parent]
    if isinstance(parent, ast.ClassDef):
        return node in parent.decorator_list
    if not isinstance(parent, ast.Call):
        return True
    return parent.func is not node and isinstance(parent.func, ast.Name) and parent.func.id in _INSPECTING


def _owner(node: ast.AST, file: PythonFile) -> str | None:
    """The function that a use is part of; None for one in an annotation."""
    owner = ""
    for above, child in file.steps(node):
        if is_annotation(above, child):
            return None
        if isinstance(above, FUNCTIONS) and child not in above.decorator_list:
            owner = defined_name(file.scopes[above]) or owner
    return owner


class Step(NamedTuple):
    """The node that is behind a function in a chain, None at the place of the need, and the line where."""

    callee: str | None
    line: int


@dataclass
class Graph:
    """Nodes are the dotted names of functions, of classes (what making an object runs) and, for the code that a module
    runs when it is imported, of modules. `places` has the path and line of each definition, `classes` are those of
    them. `callers` has, for each, who calls it and in which line; `needs` who needs something itself, and where."""

    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    classes: dict[str, Meaning] = field(default_factory=dict)
    callers: dict[str, dict[str, int]] = field(default_factory=dict)
    needs: dict[Need, dict[str, int]] = field(default_factory=dict)

    def call(self, caller: str, callee: str, line: int) -> None:
        if caller != callee:
            self.callers.setdefault(callee, {}).setdefault(caller, line)

    def need(self, need: Need | None, node: str, line: int) -> None:
        if need is not None:
            self.needs.setdefault(need, {}).setdefault(node, line)

    def reaching(self, need: Need) -> dict[str, Step]:
        """Every node from which the need is reached, with the first step of a shortest chain there."""
        reached = {node: Step(None, line) for node, line in sorted(self.needs[need].items())}
        waiting = deque(reached)
        while waiting:
            node = waiting.popleft()
            for caller, line in self.callers.get(node, {}).items():
                if caller not in reached:
                    reached[caller] = Step(node, line)
                    waiting.append(caller)
        return reached


def chain_of(node: str, reached: Mapping[str, Step]) -> list[tuple[str, int]]:
    """The nodes from `node` to the need, each with the line that calls the next."""
    found = []
    following: str | None = node
    while following is not None:
        step = reached[following]
        found.append((following, step.line))
        following = step.callee
    return found


def call_graph(meanings: Meanings, needs: Needs) -> Graph:
    """The graph of a whole library."""
    builder = _Builder(meanings, needs)
    for names in meanings.files():
        builder.define(names)
    for names in meanings.files():
        for use in uses_of(names.file):
            builder.use(use, names)
    for cls in builder.graph.classes.values():
        builder.make(cls)
    return builder.graph


class _Builder:
    def __init__(self, meanings: Meanings, needs: Needs) -> None:
        self.graph = Graph()
        self.meanings = meanings
        self.needs = needs
        self.functions: set[str] = set()  # the last names of all functions
        self.parts: dict[str, list[tuple[Meaning, int]]] = {}  # by function, the classes that it makes objects of

    def define(self, names: Names) -> None:
        """Enter what a file defines, functions within functions left out."""
        self.graph.places[self.meanings.modules[names.path]] = names.path, 1
        for node, scope in names.file.scopes.items():
            name = defined_name(scope) if isinstance(node, DEFINITIONS) else None
            if name is not None and isinstance(node, DEFINITIONS):
                is_class = isinstance(node, ast.ClassDef)
                meaning = Meaning(MeaningKind.CLASS if is_class else MeaningKind.FUNCTION, name, names.path)
                dotted = self.meanings.dotted(meaning)
                self.graph.places[dotted] = names.path, node.lineno
                if is_class:
                    self.graph.classes[dotted] = meaning
                else:
                    self.functions.add(node.name)

    def use(self, use: Use, names: Names) -> None:
        """Enter what a use leads to."""
        caller = self.meanings.dotted(Meaning(MeaningKind.MODULE, use.owner, names.path))
        line = use.node.lineno
        for read in self._properties(use, names):
            self.graph.call(caller, self.meanings.dotted(read), line)
        found = self.meanings.of(use.node, names)
        is_run = use.how != "read" and not self._is_retained(use, names)
        for meaning in found:
            if is_run and meaning.kind in (MeaningKind.FUNCTION, MeaningKind.CLASS):
                self.graph.call(caller, self.meanings.dotted(meaning), line)
            elif meaning.kind is MeaningKind.OBJECT and use.how == "call":
                self.graph.call(caller, self.run(meaning), line)
            elif meaning.kind is MeaningKind.NAME:
                self.graph.need(self.needs.of(meaning.name, use.how), caller, line)
            elif meaning.kind is MeaningKind.MEMBER and use.how == "call":
                self.graph.need(self.needs.of(library_name(meaning), "member"), caller, line)
            if meaning.kind is MeaningKind.CLASS and use.how == "call":
                self.parts.setdefault(caller, []).append((meaning, line))
        if not found and use.how == "call" and isinstance(use.node, ast.Attribute):
            self._unknown_method(use.node, use.scope, caller)

    def _properties(self, use: Use, names: Names) -> Iterator[Meaning]:
        """The properties that a use reads on its way."""
        for part in chain(use.node)[1:]:
            assert isinstance(part, ast.Attribute)
            owners = self.meanings.of(part.value, names)
            yield from filter(None, (self.meanings.reads_property(owner, part.attr) for owner in owners))

    def _unknown_method(self, node: ast.Attribute, scope: Scope, caller: str) -> None:
        """A method of an object that is not known; never one of `self`."""
        receiver = last_name(node.value) or ""
        if not (receiver == "self" and isinstance(node.value, ast.Name) and scope.enclosing_class() is not None):
            self.graph.need(self.needs.of_method(node.attr, receiver, node.attr in self.functions), caller, node.lineno)

    def _is_retained(self, use: Use, names: Names) -> bool:
        """Return whether what is handed on is only kept: in a table, a list, or an object that is not a Module."""
        if use.call is None:
            return False
        name = (last_name(use.call.func) or "").lower()
        if "regist" in name or name in _KEEPING:
            return True
        made = self.meanings.of(use.call.func, names)
        return any(each.kind is MeaningKind.CLASS and not self.meanings.is_layer(each) for each in made)

    def run(self, cls: Meaning) -> str:
        """The node of calling an object of a class: its own `__call__` or `forward`, or one that stands for an
        inherited one together with the parts that this class gives it; of an autograd function, its `apply`."""
        calls = self.meanings.library.object_calls
        method = next((each for each in calls if self.meanings.method(cls, each) is not None), calls[-1])
        return f"{self.meanings.dotted(cls)}.{'apply' if self._is_autograd(cls) else method}"

    def _is_autograd(self, cls: Meaning) -> bool:
        return Meaning(MeaningKind.NAME, _AUTOGRAD) in self.meanings.mro(cls)

    def make(self, cls: Meaning) -> None:
        """Making an object runs its constructors; an outside base is a need of whoever makes one. A torch.nn.Module
        runs the modules that its constructor makes; an autograd function its `forward` and `backward`."""
        node = self.meanings.dotted(cls)
        line = self.graph.places[node][1]
        for constructor in CONSTRUCTORS:
            self._run_method(node, cls, constructor, line)
        for base in self.meanings.bases(cls):
            if base.kind is MeaningKind.CLASS:
                self.graph.call(node, self.meanings.dotted(base), line)
            else:
                self.graph.need(self.needs.of(base.name, "call"), node, line)
        run = self.run(cls)
        if self._is_autograd(cls):
            for method in ("forward", "backward", "setup_context"):
                self._run_method(run, cls, method, line)
        for method in self.meanings.library.object_calls:
            self._run_method(run, cls, method, line)
        if self.meanings.is_layer(cls):
            for part, place in self.parts.get(f"{node}.__init__", ()):
                if part != cls and self.meanings.is_layer(part):
                    self.graph.call(run, self.run(part), place)

    def _run_method(self, caller: str, cls: Meaning, name: str, line: int) -> None:
        method = self.meanings.method(cls, name)
        if method is not None:
            self.graph.call(caller, self.meanings.dotted(method), line)


def library_name(meaning: Meaning) -> str:
    """The name by which tables and rules have what is not the project's: of tensors, that of their class."""
    owner, dot, member = meaning.name.partition(".")
    return f"torch.Tensor{dot}{member}" if owner == TENSOR else meaning.name
