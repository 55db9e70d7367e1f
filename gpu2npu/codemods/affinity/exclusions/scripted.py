"""Code that TorchScript compiles or torch.func transforms: all that is given to them, and what this names in turn."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from msgspec import Struct

from gpu2npu.codemods.affinity.exclusions.switches import callers_of, is_switched_off
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.python.project.imports import ImportGraph
from gpu2npu.python.tree.scopes import Assigned, Binding, Defined, Imported, Parameter, Scope
from gpu2npu.python.tree.syntax import (
    DEFINITIONS,
    FUNCTIONS,
    IMPORT_FUNCTIONS,
    dotted_name,
    is_self,
    last_name,
    parameters,
    string_value,
)

_COMPILERS = frozenset(
    f"torch.jit.{name}" for name in ("script", "script_method", "script_if_tracing", "export", "_script.script")
)
_CLASSES = frozenset({"torch.jit.ScriptModule", "torch.jit.RecursiveScriptModule"})
_PYTHON = frozenset({"torch.jit.ignore", "torch.jit.unused"})
# Not the role of Sphinx in docstrings, `:func:`, nor "jitter", which most files of a library of pictures have.
_WORDS = rb"jit(?!ter)|\bscript\b|vmap|functorch|\bfunc\b(?!:`)"
# What transforms a function into its derivative or over a batch, by rules that npu operators lack, and what only calls.
_TRANSFORMS = ("torch.vmap", "torch.func.", "functorch.", "torch._functorch.")
# What gives objects by names that are made up at run time.
_BY_STRINGS = IMPORT_FUNCTIONS | {"getattr", "globals"}
# Objects whose attributes are not definitions of modules of the program: `getattr(self, f"layer{i}")`.
_OUTSIDE = frozenset({"self", "torch", "nn", "F"})
_MODULES = frozenset({"torch.jit", "torch.func", "functorch"})
_CALLS = frozenset({"torch.func.functional_call", "torch.func.stack_module_state"})


class ScriptedCode(Struct, frozen=True):
    """The definitions and statements that are compiled or transformed, and the files of which any may be."""

    parts: Set[ast.AST]
    files: Set[str]

    def holds(self, file: ParsedFile, node: ast.AST) -> bool:
        """Return whether a node may be compiled or transformed."""
        return file.path in self.files or any(each in self.parts for each in (node, *file.above(node)))


def scripted_code(program: TrainingProgram) -> ScriptedCode:
    """All that is compiled or transformed, found once."""
    return program.once(scripted_code, lambda: _Search(program).run())


@dataclass(eq=False)
class _Search:
    program: TrainingProgram
    parts: set[ast.AST] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    _looked_at: set[ast.AST] = field(default_factory=set)

    def run(self) -> ScriptedCode:
        found = list(self.program.with_word(_WORDS))
        uses = {file.path: list(_uses(file)) for file in found}
        aliases = frozenset(name for file in found for use in uses[file.path] for name in _alias(file, use))
        for file in found:
            for definition in _decorated(file, aliases):
                whole = next((each for each in file.above(definition) if isinstance(each, ast.ClassDef)), definition)
                self.parts.add(whole)
                self._reach(_names(whole), {file.path})
            for use in (*uses[file.path], *_aliased(file, aliases)):
                self._use(file, use)
        return ScriptedCode(self.parts, self.files)

    def _use(self, file: ParsedFile, use: ast.expr) -> None:
        """Follow what a use of torch.jit.script is given."""
        parent = file.parents[use]
        named = isinstance(parent, (*DEFINITIONS, ast.Assign)) and not isinstance(use, ast.Call)
        if named or file.qualified(use) in _CLASSES:
            return
        if is_switched_off(self.program, file, use):
            return
        names, paths = None, {file.path}
        call = file.call_of(use)
        if call is not None:
            given = [*call.args, *(each.value for each in call.keywords)]
            names = self._values(file, given[0], paths) if given else None
        if names is None:
            self._leave_all(frozenset(), {file.path})
        else:
            self._reach(names, paths)

    def _leave_all(self, names: Set[str], paths: Iterable[str]) -> None:
        """Leave the files that load some files, and all that they load; every file where names import made-up names."""
        graph = ImportGraph.of(self.program)
        if names & IMPORT_FUNCTIONS:
            self.files |= set(self.program.sources)
        else:
            self.files |= {path for other in graph.that_load(paths) for path in graph.loaded_by(other)}

    def _values(self, file: ParsedFile, node: ast.expr, paths: set[str]) -> set[str] | None:
        """The names in the expressions that lead to a value, through variables, attributes and callers, whose files are
        added to `paths`; None where another program may give it."""
        self.parts.add(node)
        names = _names(node)
        if names & _BY_STRINGS:
            self._leave_all(names, paths)
            return None
        for part in ast.walk(node):
            if not isinstance(part, ast.Name) or part in self._looked_at:
                continue
            self._looked_at.add(part)
            above = file.parents[part]
            if is_self(part) and isinstance(above, ast.Attribute):
                found = self._attribute(file, above, paths)
            else:
                found = self._variable(file, part, paths)
            if found is None:
                return None
            names |= found
        return names

    def _attribute(self, file: ParsedFile, node: ast.Attribute, paths: set[str]) -> set[str] | None:
        cls = file.scope_of(node).enclosing_class()
        if cls is None or not (node.attr in cls.attributes or node.attr in cls.bindings):
            return None
        return self._all(file, [assigned for assigned, _ in cls.attributes.get(node.attr, ())], None, paths)

    def _variable(self, file: ParsedFile, node: ast.Name, paths: set[str]) -> set[str] | None:
        scope = file.scope_of(node)
        owner, bindings = scope.lookup(node.id) or (scope.module, [])
        return set() if owner.kind == "module" else self._all(file, bindings, owner, paths)

    def _all(
        self, file: ParsedFile, bindings: Iterable[Binding], owner: Scope | None, paths: set[str]
    ) -> set[str] | None:
        names: set[str] = set()
        for binding in bindings:
            found: set[str] | None = set()
            if isinstance(binding, Parameter):
                found = self._callers(file, binding, owner, paths)
            elif isinstance(binding, Imported):
                found = {binding.qualified.rpartition(".")[2]}
            elif isinstance(binding, Defined):
                self.parts.add(binding.node)
                found = _names(binding.node)
            elif isinstance(binding, Assigned) and binding.value is not None:
                found = self._values(file, binding.value, paths)
            if found is None:
                return None
            names |= found
        return names

    def _callers(self, file: ParsedFile, parameter: Parameter, owner: Scope | None, paths: set[str]) -> set[str] | None:
        """The names in what the callers of a function, which are found by its name, give a parameter."""
        function = owner.node if owner is not None else None
        if not isinstance(function, FUNCTIONS):
            return set()
        cls = owner.enclosing_class() if owner is not None and _is_self(parameter) else None
        if cls is not None:
            return _names(cls.node)
        callers = callers_of(self.program, file, function)
        if not callers:
            return None
        names = _names(function.args)
        for other, caller in callers:
            paths.add(other.path)
            if not isinstance(caller, ast.Call):
                self.parts.add(caller)
                names |= _names(caller)
                continue
            given = [self._values(other, each, paths) for each in _given(caller, function, parameter)]
            if any(each is None for each in given):
                return None
            names.update(*(each for each in given if each is not None))
        return names

    def _reach(self, names: Set[str], paths: Iterable[str]) -> None:
        """Add the definitions that names mean in files, or in those that they load, and what these name in turn."""
        graph = ImportGraph.of(self.program)
        loaded = sorted({path for other in paths for path in graph.loaded_by(other)})
        index = _index([file for file in map(self.program.file, loaded) if file is not None])
        seen: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            if name in _BY_STRINGS:
                self._leave_all({name}, paths)
                return
            seen.add(name)
            for binding in index.get(name, ()):
                if isinstance(binding, Defined):
                    self.parts.add(binding.node)
                    pending += _names(binding.node)
                elif isinstance(binding, Assigned):
                    self.parts.add(binding.statement)
                    pending += _names(binding.statement)
                elif isinstance(binding, Imported) and binding.renamed:
                    pending.append(binding.qualified.rpartition(".")[2])


def _index(files: Iterable[ParsedFile]) -> Mapping[str, list[Binding]]:
    """The bindings of the names of modules; those of a container with what a decorator registers in it."""
    found: dict[str, list[Binding]] = {}
    for file in files:
        for name, bindings in file.names.file.module.bindings.items():
            found.setdefault(name, []).extend(bindings)
    decorated = [each for several in found.values() for each in several if isinstance(each, Defined)]
    for binding in decorated:
        for container in {name for each in binding.node.decorator_list for name in _containers(each, found)}:
            found[container].append(binding)
    return found


def _containers(decorator: ast.expr, index: Mapping[str, list[Binding]]) -> Iterator[str]:
    """The variables of modules in a decorator and in the function that it calls."""
    named = _names(decorator)
    bodies = [each.node for name in named for each in index.get(name, ()) if isinstance(each, Defined)]
    for name in named.union(*map(_names, bodies)):
        if any(isinstance(each, Assigned) for each in index.get(name, ())):
            yield name


def _named(file: ParsedFile) -> Iterator[ast.Name | ast.Attribute]:
    """The names that are read, and the attributes."""
    named: list[ast.Name | ast.Attribute] = [*file.nodes(ast.Name), *file.nodes(ast.Attribute)]
    yield from (node for node in named if isinstance(node.ctx, ast.Load))


def _aliased(file: ParsedFile, aliases: Set[str]) -> list[ast.Name | ast.Attribute]:
    """The other names that variables have for what compiles, where they are."""
    if not aliases:
        return []
    return [node for node in _named(file) if last_name(node) in aliases and not _takes_code(file.qualified(node) or "")]


def _uses(file: ParsedFile) -> Iterator[ast.expr]:
    """The names of what compiles, where they are."""
    for node in _named(file):
        if _takes_code(file.qualified(node) or ""):
            yield node
    for call in file.nodes(ast.Call):  # getattr(torch.jit, "script")
        if isinstance(call.func, ast.Name) and call.func.id == "getattr" and len(call.args) > 1:
            module, name = file.qualified(call.args[0]), string_value(call.args[1])
            if _takes_code(f"{module}.{name}") or (name is None and module in _MODULES):
                yield call


def _takes_code(name: str) -> bool:
    return name in _COMPILERS | _CLASSES or (name.startswith(_TRANSFORMS) and name not in _CALLS)


def _alias(file: ParsedFile, use: ast.expr) -> Iterator[str]:
    """The names that an assignment gives to what compiles."""
    parent = file.parents[use]
    if isinstance(parent, ast.Assign) and file.qualified(use) in _COMPILERS:
        yield from (each.id for each in parent.targets if isinstance(each, ast.Name))


def _decorated(file: ParsedFile, aliases: Set[str]) -> Iterator[ast.AST]:
    """The definitions with a decorator that compiles, or that is called something with "jit", and script modules."""
    for definition in file.definitions:
        for decorator in definition.decorator_list:
            name = decorator.func if isinstance(decorator, ast.Call) else decorator
            is_compiler = "jit" in file.code(decorator) or last_name(name) in aliases
            if (is_compiler and file.qualified(name) not in _PYTHON) or _takes_code(file.qualified(name) or ""):
                yield definition
        if isinstance(definition, ast.ClassDef) and any(file.qualified(base) in _CLASSES for base in definition.bases):
            yield definition


def _given(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, parameter: Parameter) -> list[ast.expr]:
    """The arguments of a call that a parameter may get."""
    named = [each.value for each in call.keywords if each.arg in (None, parameter.node.arg)]
    at = parameter.position - int(parameters(function)[0].arg == "self")
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    return [*named, *(call.args if starred or parameter.position < 0 else call.args[at : at + 1])]


def _is_self(parameter: Parameter) -> bool:
    return parameter.position == 0 and parameter.node.arg == "self"


def _names(node: ast.AST) -> set[str]:
    """The names in some code, of attributes too; "getattr" only where the name of the attribute is made up."""
    found: set[str] = set()
    known: set[ast.AST] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and last_name(part.func) == "getattr" and len(part.args) > 1:
            name = string_value(part.args[1])
            found |= {name} if name is not None else set()
            outside = (dotted_name(part.args[0]) or "").partition(".")[0] in _OUTSIDE
            known |= {part.func} if name is not None or outside else set()
        elif isinstance(part, ast.Name) and part not in known:
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
    return found
