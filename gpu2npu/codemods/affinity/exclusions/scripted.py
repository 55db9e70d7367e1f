"""Code that TorchScript compiles or torch.func transforms: all that is given to them, and what this names in turn."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from msgspec import Struct

from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.facts.values import ARGUMENT
from gpu2npu.python.flow.value_calls import ValueOrigin
from gpu2npu.python.project.imports import ImportGraph
from gpu2npu.python.tree.scopes import Assigned, Binding, Defined, Imported, Parameter
from gpu2npu.python.tree.syntax import (
    DEFINITIONS,
    IMPORT_FUNCTIONS,
    dotted_name,
    last_name,
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
        if named or file.qualified(use) in _CLASSES or _is_switched_off(file, use):
            return
        call = file.call_of(use)
        given = [*call.args, *(each.value for each in call.keywords)] if call is not None else []
        origins = sources(file, given[0]) if given else []
        names, paths = set[str](), {file.path}
        for node, path in self._made_of(file, given[0]) if given else ():
            self.parts.add(node)
            names |= _names(node)
            paths.add(path)
        if names & _BY_STRINGS or not origins or any(each.kind == "unknown" for each in origins):
            self._leave_all(names, paths)
        else:
            self._reach(names, paths)

    def _made_of(self, file: ParsedFile, node: ast.expr) -> Iterator[tuple[ast.AST, str]]:
        """A value, and the calls, functions and classes that it comes from, through variables, attributes and callers,
        and what these calls are given, each with its file."""
        yield node, file.path
        values = values_of(self.program.project)
        start = values.place(file.names, node)
        seen, pending = {start}, [start] if start else []
        for at in pending:  # grows while it is read
            one = values.at(at)
            found = {place for place, _ in values.way_to(at)} | {each.place for each in values.origins(at)}
            found |= {source for source, kind, _ in one.into.get(at, ()) if kind == ARGUMENT}
            pending += sorted(found - seen)
            seen |= found
            for parsed in self.program.parsed([one.path]):
                nodes = self.program.of_file(_places, parsed)
                if at - one.first in nodes:
                    yield nodes[at - one.first], one.path

    def _leave_all(self, names: Set[str], paths: Iterable[str]) -> None:
        """Leave the files that load some files, and all that they load; every file where names import made-up names."""
        graph = ImportGraph.of(self.program)
        if names & IMPORT_FUNCTIONS:
            self.files |= set(self.program.sources)
        else:
            self.files |= {path for other in graph.that_load(paths) for path in graph.loaded_by(other)}

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


def sources(file: ParsedFile, node: ast.expr) -> list[ValueOrigin]:
    """The sources of a value, without dicts that lack it: `f(**{"fast": True})` gives no other parameter a value."""
    values = values_of(file.names.project)
    place = values.place(file.names, node)
    found = values.sources(place, file.path) if place else []
    return [each for each in found if each.kind != "unknown" or values.kind(each.place)[0] != "container"]


def may_be_true(file: ParsedFile, node: ast.expr) -> bool:
    """Return whether a value may be another than False, through parameters too: a default that no caller replaces."""
    values = values_of(file.names.project)
    found = [values.kind(each.place) for each in sources(file, node)]
    return not found or any(kind != "number" or number is not False for kind, number in found)


def _is_switched_off(file: ParsedFile, node: ast.AST) -> bool:
    """Return whether a node runs only where a parameter is true that is False unless a caller gives another value, and
    that no caller does."""
    for above, below in file.steps(node):
        test = above.test if isinstance(above, ast.If) and below in above.body else None
        bound = file.scope_of(test).bound(test) if isinstance(test, ast.Name) else ()
        if test is not None and any(isinstance(each, Parameter) for each in bound) and not may_be_true(file, test):
            return True
    return False


def _places(file: ParsedFile) -> dict[int, ast.AST]:
    """The calls, functions and classes of a file by their places in its values."""
    places = values_of(file.names.project).places(file.names)
    return {number: node for node, number in places.items() if isinstance(node, (ast.Call, ast.Lambda, *DEFINITIONS))}


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
