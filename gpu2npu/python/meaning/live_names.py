"""All that an expression may name where it is, for edits that are wrong unless each of its values is meant.

`Names.qualified` answers with the first qualified name among the bindings of a name. Here each binding counts that may
reach the use: not those before a later one that always runs, and those too that other files set.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from gpu2npu.python.facts.reading import loaded_module
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import Project
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Assigned, Binding, Defined, Imported, Parameter, Scope, value_of
from gpu2npu.python.tree.syntax import FORS, IMPORTS, member_of, string_value

_LOOPS = (*FORS, ast.While)
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete, *IMPORTS)


class LiveName(NamedTuple):
    """One value of an expression: its qualified name, None where it has none, and the line that gives it."""

    qualified: str | None
    path: str
    line: int


LiveNames = frozenset[LiveName]


def live_names(names: Names, node: ast.AST) -> LiveNames:
    """Return all that a name, or a dotted one, may mean where it is, but for None and `lambda x: x`, which take the
    place of what is not used."""
    return _Search(names, {}).of(node)


def live_bindings(file: PythonFile, bindings: Iterable[Binding], owner: Scope, use: ast.AST | None) -> list[Binding]:
    """The bindings of a name of the scope `owner` that may reach a use in it; with None those that are left at its
    end, and those of functions that declare the name global."""
    alive: list[Binding] = []
    for binding in sorted(bindings, key=lambda each: _start(file, each)):
        if use is not None and not _may_come_before(file, binding, use):
            continue
        if _always_runs(file, binding, owner, use):
            alive.clear()
        alive.append(binding)
    return alive


class _Search:
    """`known` are the values found by scope, name and use; a name adds nothing to itself in a circle."""

    def __init__(self, names: Names, known: dict[tuple[Scope, str, ast.AST | None], LiveNames]) -> None:
        self.names = names
        self.file = names.file
        self.project = names.project
        self.known = known

    def of(self, node: ast.AST) -> LiveNames:
        scope = self.file.scope_of(node)
        if isinstance(node, ast.Name):
            return self.of_name(node.id, scope, node)
        if not isinstance(node, ast.Attribute):
            return self._one(self.names.qualified(node, scope), node)
        dotted = self.names.import_path(node, scope)
        found = self._member(dotted) if dotted is not None else None
        if found is not None:
            return found
        owners = self.of(node.value)
        return frozenset(owner._replace(qualified=self.names.members(owner.qualified, [node.attr])) for owner in owners)

    def of_name(self, name: str, scope: Scope, use: ast.AST | None) -> LiveNames:
        found = scope.lookup(name)
        if found is None:
            return self._starred(name, scope, use)
        owner, bindings = found
        at = use if use is not None and self.file.scope_of(use) is owner else None
        key = owner, name, at
        if key not in self.known:
            self.known[key] = frozenset()
            self.known[key] = self._of_bindings(name, owner, bindings, at)
        return self.known[key]

    def _of_bindings(self, name: str, owner: Scope, bindings: Iterable[Binding], use: ast.AST | None) -> LiveNames:
        given = [binding for binding in bindings if not is_declaration(binding)]
        live = live_bindings(self.file, given, owner, use)
        values = frozenset[LiveName]().union(*(self._bound(binding, owner) for binding in live))
        return values | self._set_by_others(name) if owner.kind == "module" else values

    def _bound(self, binding: Binding, owner: Scope) -> LiveNames:
        node = _node(binding)
        if isinstance(binding, Imported):
            found = self._member(binding.qualified)
            return self._one(self.names.follow(binding.qualified), node) if found is None else found
        value = value_of(binding)
        if isinstance(value, (ast.Name, ast.Attribute)):
            line = self.file.span(node).start_line
            return frozenset(each._replace(path=self.names.path, line=line) for each in self.of(value))
        if _is_placeholder(value) and self.file.scope_of(node) is owner:
            return frozenset()
        return self._one(loaded_module(value), node)

    def _one(self, qualified: str | None, node: ast.AST) -> LiveNames:
        line = self.file.span(self.file.statement(node)).start_line
        return frozenset({LiveName(qualified, self.names.path, line)})

    def _member(self, dotted: str) -> LiveNames | None:
        """The values of a name of another module of the project; None where the dotted name is not that."""
        leading = dotted[: len(dotted) - len(dotted.lstrip("."))]
        head, _, last = dotted.lstrip(".").rpartition(".")
        module = leading + head
        path = self.project.module_path(module, self.names.path) if module else None
        if path is None or path == self.names.path or self.project.library.has(dotted):
            return None
        other = self.names.module(module)
        if other is None:
            return None
        if last not in other.facts.bound and (
            not other.facts.stars or self.project.module_path(dotted, self.names.path) is not None
        ):
            return None
        return _Search(other, self.known).of_name(last, other.file.module, None)

    def _starred(self, name: str, scope: Scope, use: ast.AST | None) -> LiveNames:
        """The values of a name that no statement of this file binds."""
        for star in self.names.facts.stars:
            path = self.project.module_path(star, self.names.path)
            if path is not None and self.project.may_star(path, name, self.names.path):
                found = self._member(member_of(star, name))
                if found is not None:
                    return found
        return self._one(self.names.name(name, scope), use or self.file.tree.body[0])

    def _set_by_others(self, name: str) -> LiveNames:
        """The values that files of the project set a name of this module to: `module.name = value`."""
        return frozenset(
            LiveName(None, other, line)
            for other in self.project.storing(name)
            for path, attribute, line in _stores(self.project, other, self.names.path)
            if (path, attribute) == (self.names.path, name)
        )


def _stores(project: Project, path: str, asker: str) -> frozenset[tuple[str, str, int]]:
    """The attributes of modules of the project that a file sets: the module's path, the attribute, and the line."""
    names = project.names(path, asker)
    if names is None:
        return frozenset()
    return project.cached(("stores", path), partial(frozenset, _stored(names))) or frozenset()


def _stored(names: Names) -> Iterator[tuple[str, str, int]]:
    for node in names.file.parents:
        owner, attribute = _target(node)
        if owner is None or attribute is None:
            continue
        module = names.import_path(owner, names.file.scope_of(owner))
        path = names.project.module_path(module, names.path) if module is not None else None
        if path is not None:
            yield path, attribute, names.file.span(node).start_line


def _target(node: ast.AST) -> tuple[ast.AST | None, str | None]:
    """`module` and "name" of `module.name = value` and `setattr(module, "name", value)`."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.value, node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr" and node.args[1:]:
        return node.args[0], string_value(node.args[1])
    return None, None


def _node(binding: Binding) -> ast.AST:
    """The statement, or the part of one, that binds a name."""
    return binding.node if isinstance(binding, (Defined, Parameter)) else binding.statement


def _start(file: PythonFile, binding: Binding) -> int:
    node = _node(binding)
    return file.bounds(node if isinstance(binding, Parameter) else file.statement(node))[0]


def is_declaration(binding: Binding) -> bool:
    """`name: type`, which binds nothing."""
    statement = binding.statement if isinstance(binding, Assigned) else None
    return isinstance(statement, ast.AnnAssign) and statement.value is None


def _is_placeholder(value: ast.expr | None) -> bool:
    """`None` and `lambda x: x`"""
    if isinstance(value, ast.Lambda):
        given = [each.arg for each in value.args.args]
        return isinstance(value.body, ast.Name) and given[:1] == [value.body.id]
    return isinstance(value, ast.Constant) and value.value is None


def _may_come_before(file: PythonFile, binding: Binding, use: ast.AST) -> bool:
    """Return whether a binding may run before a use in the same scope: it is before, or a loop holds both."""
    if isinstance(binding, Parameter):
        return True
    node = _node(binding)
    if isinstance(node, ast.ExceptHandler):  # its end deletes the name
        return node in file.above(use)
    statement = file.statement(node)
    if _bound_at(file, statement) <= file.bounds(use)[0]:
        return True
    loops = {part for part in file.above(use) if isinstance(part, _LOOPS)}
    return any(part in loops for part in file.above(statement))


def _bound_at(file: PythonFile, statement: ast.AST) -> int:
    """The offset from which on a name has what a statement gives it: `x = f(x)` asks for what x was before."""
    start, end = file.bounds(statement)
    return end if isinstance(statement, _SIMPLE) else start


def _always_runs(file: PythonFile, binding: Binding, owner: Scope, use: ast.AST | None) -> bool:
    """Return whether a binding runs on all ways to a use, so that those before it do not reach the use."""
    node = _node(binding)
    if isinstance(binding, Parameter):
        return True
    if isinstance(node, ast.ExceptHandler):
        return use is not None  # which is in it
    statement = file.statement(node)
    if isinstance(node, FORS) and use is not None and any(part in node.body for part in (use, *file.above(use))):
        return True
    is_sure = node is statement and isinstance(statement, _SIMPLE)
    if not (is_sure or isinstance(binding, Defined) or isinstance(node, ast.withitem)):
        return False
    if file.scope_of(statement) is not owner:  # in a function that declares the name global
        return False
    if use is not None and file.bounds(use)[0] < _bound_at(file, statement):  # in a later round of a loop only
        return False
    block: Sequence[ast.AST] = file.block(statement)
    if use is None:
        return file.parents[statement] is owner.node
    return any(part in block for part in (use, *file.above(use)))
