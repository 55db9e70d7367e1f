"""The uses that a program makes of its model once it is wrapped, followed through arguments and attributes by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from gpu2npu.codemods.places import Step, inserted
from gpu2npu.codemods.program.entries import RETURNING_SELF, Entry, dataflow_in
from gpu2npu.codemods.program.files import MEMBERS, ParsedFile, TrainingProgram
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.text.templates import code
from gpu2npu.python.tree.place import Place, enclosing_class, function_above
from gpu2npu.python.tree.syntax import (
    Function,
    argument_keyword,
    argument_value,
    arguments,
    elements,
    is_self,
    is_static,
    last_name,
    parameters,
    string_value,
)

_MESSAGE = "The wrapped model has this in its module."
# Members of DistributedDataParallel with the same meaning. State dicts are read from the module, so their keys are
# those of the script for one card, and checkpoints load in both.
DISTRIBUTED_HAS = frozenset(MEMBERS["distributed_has"])
_PROPERTIES = frozenset({"cached_property", "property"})
# Code that takes the wrapper off, if there is one: what it gives has no `.module`.
_UNWRAPS = re.compile(r"(?:has|get)attr\([^()]*,\s*['\"]module['\"]|isinstance\([^()]*(?:DataParallel|DDP)")


class _Alias(Struct, frozen=True, eq=False):
    """An expression, `model` or `self.model`, that means the wrapped model in a function, class or file."""

    file: ParsedFile
    where: ast.AST
    code: str


class ModelUses:
    """Finds the uses of a model in one program."""

    def __init__(self, program: TrainingProgram, entry: Entry) -> None:
        self.program = program
        self.entry = entry
        self.flow = program.once((Dataflow, *entry.files), lambda: dataflow_in(program, entry.files))
        self.seen: set[tuple[ast.AST, str]] = set()

    def through_module(self, file: ParsedFile, wrap: ast.AST, target: str) -> Iterator[Step]:
        """`model.state_dict()` -> `model.module.state_dict()` in what runs after the statement `wrap`."""
        _, end = file.bounds(wrap)
        for other, use in self.of(file, wrap, target, end):
            if _needs_module(other, use):
                yield inserted(other, other.bounds(use)[1], code(".module"), _MESSAGE)

    def of(self, file: ParsedFile, made: ast.AST, target: str, after: int = 0) -> Iterator[tuple[ParsedFile, ast.expr]]:
        """Every use of the model that a statement assigns to `target`, but those above `after` in its function."""
        home = function_above(file, made)
        pending = [_Alias(file, _where(file, made, target), target)]
        while pending:
            alias = pending.pop()
            if (alias.where, alias.code) in self.seen:
                continue
            self.seen.add((alias.where, alias.code))
            for found, use in self._uses(alias):
                before = found is file and file.bounds(use)[0] < after
                if before and function_above(file, use) is home:
                    continue
                values = [(found, use)]
                while values:
                    other, value = values.pop()
                    yield other, value
                    pending += self._new_aliases(other, value)
                    values += self._same(other, value)

    def _uses(self, alias: _Alias) -> Iterator[tuple[ParsedFile, ast.expr]]:
        kind: type[ast.Attribute | ast.Name] = ast.Attribute if "." in alias.code else ast.Name
        last = alias.code.rpartition(".")[2]
        for node in alias.file.nodes(kind):
            is_named = last_name(node) == last and alias.file.code(node) == alias.code and not _is_assigned(node)
            if is_named and alias.where in alias.file.above(node) and self._is_bound_there(alias, node):
                yield alias.file, node
        if alias.code.startswith("self.") and isinstance(alias.where, ast.ClassDef):
            yield from self._from_outside(alias.where, last)

    def _from_outside(self, cls: ast.ClassDef, attribute: str) -> Iterator[tuple[ParsedFile, ast.expr]]:
        """`trainer.model`, of an object of a class."""
        for file in self.entry.files.values():
            for node in file.nodes(ast.Attribute):
                if node.attr == attribute and not _is_assigned(node) and not is_self(node.value):
                    makers = self.flow.makers(Place(file, node.value))
                    if any(each.node is cls for maker in makers for each in self.flow.targets(maker)):
                        yield file, node

    def _is_bound_there(self, alias: _Alias, node: ast.expr) -> bool:
        """Return whether a name is the one of the alias's function, and not of one inside it."""
        if not isinstance(node, ast.Name):
            return True
        found = alias.file.scope_of(node).lookup(node.id)
        return found is not None and found[0].node is alias.where

    def _same(self, file: ParsedFile, use: ast.expr) -> Iterator[tuple[ParsedFile, ast.expr]]:
        """The expressions that have the same model as their value: `model.cuda()`, `deepcopy(model)`, a call of a
        function that returns it."""
        parent = file.parents[use]
        if isinstance(parent, ast.Attribute) and parent.attr in RETURNING_SELF:
            moved = file.call_of(parent)
            if moved is not None and "cpu" not in map(string_value, moved.args):  # which is a copy: cpu_moves.py
                yield file, moved
        elif isinstance(parent, ast.Call):
            if parent.func is not use and last_name(parent.func) in {"copy", "deepcopy"}:
                yield file, parent
        elif isinstance(parent, ast.IfExp):
            if use is not parent.test and ".module" not in file.code(parent):
                yield file, parent
        elif isinstance(parent, ast.Return):
            function = function_above(file, parent)
            if function is not None and not self._is_returned(file, function):
                yield from ((call.file, call.node) for call in self.flow.callers(Place(file, function)))

    def _is_returned(self, file: ParsedFile, function: Function) -> bool:
        """Return whether the results of a function were followed, or are of another object than the wrapped model."""
        if (function, "None") in self.seen or _UNWRAPS.search(file.code(function)):
            return True
        self.seen.add((function, "None"))
        return False

    def _new_aliases(self, file: ParsedFile, use: ast.expr) -> Iterator[_Alias]:
        parent = file.parents[use]
        if isinstance(parent, ast.NamedExpr):
            parent = file.parents[parent]
        if isinstance(parent, ast.Assign):  # self.model = model
            yield from self._assigned(file, parent.targets)
        elif isinstance(parent, ast.AnnAssign):
            yield from self._assigned(file, [parent.target])
        elif isinstance(parent, ast.Return):
            yield from self._property(file, parent)
        elif isinstance(parent, ast.Tuple):
            yield from self._element(file, parent, parent.elts.index(use))
        call = file.parents[parent] if isinstance(parent, ast.keyword) else parent
        if isinstance(call, ast.Call) and call.func is not use:
            yield from self._parameters(file, call, use)

    def _element(self, file: ParsedFile, values: ast.Tuple, index: int) -> Iterator[_Alias]:
        """`self.model, self.data = model, data`, or a function that returns several values."""
        above = file.parents[values]
        if isinstance(above, ast.Return):
            yield from self._results(file, above, index)
        elif isinstance(above, ast.Assign):
            yield from self._assigned(file, above.targets, index)

    def _assigned(self, file: ParsedFile, targets: list[ast.expr], index: int | None = None) -> Iterator[_Alias]:
        """The names that a value, or its element `index`, is assigned to; an attribute of `self` in the classes that
        are built on the same class too."""
        for target in _named(targets, index):
            code = file.code(target)
            where = _where(file, target, code)
            yield _Alias(file, where, code)
            if isinstance(where, ast.ClassDef) and code.startswith("self."):
                yield from (_Alias(other, node, code) for other, node in self._kin(file, where))

    def _property(self, file: ParsedFile, end: ast.Return) -> Iterator[_Alias]:
        function = function_above(file, end)
        if function is None or _UNWRAPS.search(file.code(function)):
            return
        owner = file.parents[function]
        if isinstance(owner, ast.ClassDef) and any(last_name(each) in _PROPERTIES for each in function.decorator_list):
            code = f"self.{function.name}"
            yield _Alias(file, owner, code)
            yield from (_Alias(other, node, code) for other, node in self._kin(file, owner))

    def _kin(self, file: ParsedFile, cls: ast.ClassDef) -> Iterator[tuple[ParsedFile, ast.ClassDef]]:
        """The classes of the program that a class is built on, and those built on it, in whatever files."""
        above = self._line(file, cls)
        for other in self.entry.files.values():
            for node in other.nodes(ast.ClassDef):
                if node is not cls and (node in above or cls in self._line(other, node)):
                    yield other, node

    def _line(self, file: ParsedFile, cls: ast.ClassDef) -> list[ast.AST]:
        """A class, and the classes of the program that it is built on, nearest first."""
        return self.program.once((ModelUses, cls), lambda: self._bases(file, cls))

    def _bases(self, file: ParsedFile, cls: ast.ClassDef) -> list[ast.AST]:
        line: list[ast.AST] = [cls]
        pending = [(file, cls)]
        while pending:
            home, node = pending.pop(0)
            for base in node.bases:
                found = home.names.definition(base, home.scope_of(node))
                if found is None or not isinstance(found.bound.node, ast.ClassDef) or found.bound.node in line:
                    continue
                line.append(found.bound.node)
                of_base = self.program.file(found.names.path)
                if of_base is not None:
                    pending.append((of_base, found.bound.node))
        return line

    def _parameters(self, file: ParsedFile, call: ast.Call, use: ast.expr) -> Iterator[_Alias]:
        given = arguments(call)
        position = next((index for index, each in enumerate(given) if argument_value(each) is use), None)
        if position is None:
            return
        keyword, functions = argument_keyword(given[position]), self.flow.run_by(Place(file, call))
        for function in functions:
            is_method = enclosing_class(function) is not None and not is_static(function.node)
            names = [parameter.arg for parameter in parameters(function.node)][is_method:]
            yield from (_Alias(function.file, function.node, name) for name in _chosen(names, keyword, position))
        for cls in self.flow.targets(Place(file, call)) if not functions else ():  # a dataclass
            parts = (each.target for each in cls.node.body if isinstance(each, ast.AnnAssign))
            fields = [each.id for each in parts if isinstance(each, ast.Name)]
            yield from (_Alias(cls.file, cls.node, f"self.{name}") for name in _chosen(fields, keyword, position))

    def _results(self, file: ParsedFile, end: ast.Return, index: int) -> Iterator[_Alias]:
        """The names that callers give to the element `index` of what a function returns."""
        function = function_above(file, end)
        if function is None or (function, str(index)) in self.seen or _UNWRAPS.search(file.code(function)):
            return
        self.seen.add((function, str(index)))
        for call in self.flow.callers(Place(file, function)):
            parent = call.file.parents[call.node]
            if isinstance(parent, ast.Assign):
                yield from self._assigned(call.file, parent.targets, index)
            elif isinstance(parent, ast.Return):
                yield from self._results(call.file, parent, index)


def _chosen(names: list[str], keyword: str | None, position: int) -> list[str]:
    """The name that an argument is for."""
    return names[position : position + 1] if keyword is None else [name for name in names if name == keyword]


def _where(file: ParsedFile, node: ast.AST, code: str) -> ast.AST:
    """Return the node in which a name holds: its function, the file, or the class for an attribute of `self`."""
    if code.startswith("self."):
        owner = next((part for part in file.above(node) if isinstance(part, ast.ClassDef)), None)
        return owner or file.tree
    found = file.scope_of(node).lookup(code)
    return found[0].node if found is not None else file.tree


def _named(targets: list[ast.expr], index: int | None) -> Iterator[ast.Name | ast.Attribute]:
    """The names that a value, or its element `index`, is assigned to."""
    for whole in targets:
        named = (whole,) if index is None else elements(whole)
        place = index or 0
        target = (
            named[place] if place < len(named) and not any(isinstance(each, ast.Starred) for each in named) else None
        )
        if isinstance(target, (ast.Name, ast.Attribute)):
            yield target


def _is_assigned(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def _needs_module(file: ParsedFile, use: ast.expr) -> bool:
    """`model.state_dict`, or `torch.save(model, path)`."""
    parent = file.parents[use]
    if isinstance(parent, ast.Attribute):
        return parent.attr not in DISTRIBUTED_HAS and not parent.attr.startswith("__")
    call = file.parents[parent] if isinstance(parent, ast.keyword) else parent
    return isinstance(call, ast.Call) and call.func is not use and file.code(call.func) == "torch.save"
