"""The imports between the files of a project, and the dotted names by which the files are imported."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import PurePath

from msgspec import Struct

from gpu2npu.python.facts.record import Exports, FileFacts
from gpu2npu.python.meaning.module_names import ModuleNames
from gpu2npu.python.project.program import Program
from gpu2npu.python.project.project import EVERY_FILE, IMPORTS, Project
from gpu2npu.python.tree.syntax import IMPORT_FUNCTIONS, member_of


class ImportGraph(Struct, frozen=True):
    """`imports` has, for each file, the project's files that it imports; `importers` the other way round."""

    imports: Mapping[str, frozenset[str]]
    importers: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, program: Program) -> ImportGraph:
        """The graph of a program, made once."""
        return program.once(
            cls, lambda: cls.from_imports({path: frozenset(_imported(program, path)) for path in program.sources})
        )

    @classmethod
    def from_imports(cls, imports: Mapping[str, frozenset[str]]) -> ImportGraph:
        """The graph of which it is known which file imports which."""
        importers: dict[str, set[str]] = {}
        for path, others in imports.items():
            for other in others:
                importers.setdefault(other, set()).add(path)
        return cls(imports, {path: frozenset(others) for path, others in importers.items()})

    def components(self) -> list[list[str]]:
        """The files in groups that import nothing from each other."""
        edges = {path: others | self.importers.get(path, frozenset()) for path, others in self.imports.items()}
        groups: list[list[str]] = []
        seen: set[str] = set()
        for path in edges:
            if path not in seen:
                group = closure([path], lambda each: edges.get(each, ()))
                seen |= group
                groups.append(sorted(group))
        return groups

    def loaded_by(self, path: str, most: int | None = None) -> frozenset[str]:
        """The files that are loaded with a file, itself among them; where they are more than `most`, some of them."""
        return closure([path], lambda each: self.imports.get(each, ()), most)

    def that_load(self, paths: Iterable[str]) -> frozenset[str]:
        """The files that load one of some files, these among them."""
        return closure(paths, lambda path: self.importers.get(path, ()))


def closure(start: Iterable[str], step: Callable[[str], Iterable[str]], most: int | None = None) -> frozenset[str]:
    """The files to which steps lead from some, these among them; where they are more than `most`, some of them."""
    found = set(start)
    pending = list(found)
    while pending and (most is None or len(found) <= most):
        new = set(step(pending.pop())) - found
        found |= new
        pending += new
    return frozenset(found)


def _imported(program: Program, path: str) -> Iterator[str]:
    project = program.project
    facts = project.facts(path, path)
    if facts is None:
        return
    if not facts.called.isdisjoint(IMPORT_FUNCTIONS):
        yield from files_below(program, path)
    for module in facts.imports:
        other = project.module_path(module, path)
        if other is not None and other != path:
            yield other


def files_below(program: Program, path: str) -> Iterator[str]:
    """The files in the folder of one and below: as a rule those of which it makes up the names at run time."""
    folder = path.rpartition("/")[0]
    return (other for other in program.sources if other != path and folder and other.startswith(f"{folder}/"))


def chosen_by_name(program: Program, loaded: Iterable[str]) -> frozenset[str]:
    """The files of which one of those that are loaded makes up the names, and those of what it takes from them:
    `getattr(import_module(f"models.{name}"), kind)`."""
    found: set[str] = set()
    for path in loaded:
        facts = program.project.facts(path, path)
        if facts is not None and "getattr" in facts.called and not facts.called.isdisjoint(IMPORT_FUNCTIONS):
            found.update(files_below(program, path))
    return frozenset(found)


def files_naming(program: Program, wanted: frozenset[str]) -> tuple[str, ...]:
    """The files that may use something outside the project of which the qualified names are `wanted`, by whatever name:
    those that have the last part of one in their code, and those that load a file in which it has another name."""
    return program.once((files_naming, wanted), lambda: _files_naming(program, wanted))


def _files_naming(program: Program, wanted: frozenset[str]) -> tuple[str, ...]:
    leaves = frozenset(name.rpartition(".")[2] for name in wanted)
    found: set[str] = set()
    renaming: list[str] = []
    for path in program.sources:
        facts = program.project.facts(path, path)
        if facts is not None and _names_one_of(facts, leaves):
            found.add(path)
            if _renames(ModuleNames(path, facts, program.project), leaves, wanted):
                renaming.append(path)
    return tuple(sorted(found | ImportGraph.of(program).that_load(renaming) if renaming else found))


def _names_one_of(facts: FileFacts, leaves: frozenset[str]) -> bool:
    """Return whether the code of a file has one of some last parts of names, in a string too."""
    if not facts.names.isdisjoint(leaves):
        return True
    dotted = (*facts.imports, *facts.texts)
    return any(text.endswith(tuple(leaves)) and text.rpartition(".")[2] in leaves for text in dotted)


def _renames(names: ModuleNames, leaves: frozenset[str], wanted: frozenset[str]) -> bool:
    """Return whether a module gives something that is wanted another name."""
    bound = names.facts.bound.items()
    others = (name for name, origins in bound if any(each.name.rpartition(".")[2] in leaves for each in origins))
    return any(name not in leaves and names.global_name(name) in wanted for name in others)


def module_names(project: Project) -> dict[str, str]:
    """The dotted name of each file of a project, by path.

    A package begins at the outermost of the nested folders that have an `__init__.py`. Folders above it, also above the
    project's root, belong to its name if the project itself imports it so: `megatron.core`, whose `megatron` has no
    `__init__.py`. A file in no package is named by its path.
    """
    folders = {posixpath.dirname(path) for path in project.files if posixpath.basename(path) == "__init__.py"}
    prefixes = {prefix for path in project.files for prefix in _packages(project, path)}
    outermost = {folder for folder in folders if not folder or posixpath.dirname(folder) not in folders}
    root = project.root or PurePath()
    tops = {folder: _top_name(project, root, folder, prefixes) for folder in outermost}
    return {path: _name(path, folders, tops) for path in project.files}


def offered_names(project: Project, path: str) -> dict[str, str]:
    """The names that can be taken from a module, each with the path of the file that binds it: its own, and those that
    its star imports bring in. What `__all__` lists and nothing binds is given with the file that lists it."""
    bound: dict[str, str] = {}
    listed: dict[str, str] = {}
    waiting: list[tuple[str, frozenset[str] | None]] = [(path, None)]
    seen = set(waiting)
    while waiting:
        inner, wanted = waiting.pop()
        facts = project.facts(inner, path)
        if facts is None:
            continue
        exports = facts.exports or Exports(frozenset(), is_whole=False)
        starred = wanted
        if inner != path and exports.is_whole:
            starred = exports.names if wanted is None else exports.names & wanted
        for names, found in ((facts.bound, bound), (exports.names, listed)):
            for name in names if inner == path else _starred(names, exports, starred):
                found.setdefault(name, inner)
        modules = (project.module_path(star, inner) for star in reversed(facts.stars))
        steps = [(module, starred) for module in modules if module is not None and (module, starred) not in seen]
        seen.update(steps)
        waiting += steps
    return {**listed, **bound}


def _starred(names: Iterable[str], exports: Exports, wanted: frozenset[str] | None) -> Iterator[str]:
    """The names of a module that a star import brings in: those that are `wanted`, or all public ones."""
    for name in names:
        if name in wanted if wanted is not None else not name.startswith("_") or name in exports.names:
            yield name


def importers(project: Project, path: str, asker: str) -> frozenset[str]:
    """The files of a project that import the one at a path."""
    project.consult(asker, IMPORTS)
    return project.importing(path) - {path}


def is_taken(project: Project, path: str, name: str, besides: Collection[str] = ()) -> bool:
    """Return whether another file imports a name from the one at `path`, by itself or by a star, reads it as an
    attribute of that module, or names both, the module in a string. `besides` are files that are not asked."""
    project.consult(path, EVERY_FILE)
    naming = project.naming(name, path)
    taking = sorted((naming | project.starring) - {path, *besides})
    stem = path.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]
    quoting = (project.quoting(stem) | project.naming(stem, path)) & (naming | project.quoting(name)) - {path, *besides}
    return any(_takes(project, other, path, name) for other in taking) or any(
        _quotes(project, other, path, name) for other in sorted(quoting)
    )


def _takes(project: Project, other: str, path: str, name: str) -> bool:
    facts = project.facts(other, path)
    if facts is None or other not in project.importing(path):
        return False
    modules = {module for module in facts.imports if project.module_path(module, other) == path}
    own = project.facts(path, path)
    if not modules.isdisjoint(facts.stars) and (own is None or own.may_star(name)):
        return True
    if any(member_of(module, name) in facts.imports for module in modules):
        return True
    return name in facts.names and _reads(project, other, path, name)


def _quotes(project: Project, other: str, path: str, name: str) -> bool:
    """Return whether a file that has a name also has a string with the dotted name of the module at `path`, as
    `import_module("a.b")` and `mock.patch("a.b.name")` have."""
    facts = project.facts(other, path)
    texts = facts.texts if facts is not None else frozenset[str]()
    if facts is None or not (name in facts.names or any(name in text.split(".") for text in texts)):
        return False
    modules = {f"{text}.".partition(f".{name}.")[0].removesuffix(".") for text in texts}
    return any(project.module_path(each, other) == path for each in modules if each.replace(".", "").isidentifier())


def _reads(project: Project, other: str, path: str, name: str) -> bool:
    """Return whether a file reads a name as an attribute of the module at `path`."""
    names = project.names(other, path)
    for node, scope in names.file.uses if names is not None else ():
        while isinstance(node, ast.Attribute) and names is not None:
            if node.attr == name:
                meanings = (names.import_path(node.value, scope), names.qualified(node.value, scope))
                if any(project.module_path(each, other) == path for each in meanings if each):
                    return True
            node = node.value
    return False


def absolute_name(qualified: str, module: str, path: str) -> str:
    """The whole name of what the file of a module imports, where it is written with leading dots."""
    stripped = qualified.lstrip(".")
    if stripped == qualified:
        return qualified
    package = module.split(".")
    up = len(qualified) - len(stripped) - path.endswith("__init__.py")
    return ".".join((*package[: max(len(package) - up, 0)], stripped))


def _packages(project: Project, path: str) -> Iterable[str]:
    """The absolute modules that a file imports, with the packages they are in."""
    facts = project.facts(path, path)
    for name in facts.imports if facts is not None else ():
        if not name.startswith("."):
            yield from (name.rsplit(".", count)[0] for count in range(name.count(".") + 1))


def _name(path: str, folders: set[str], tops: Mapping[str, str]) -> str:
    folder, stem = posixpath.dirname(path), posixpath.basename(path).removesuffix(".py")
    inner: list[str] = [] if stem == "__init__" else [stem]
    if folder not in folders:
        return ".".join([part for part in folder.split("/") if part] + inner) or stem
    while folder not in tops:
        folder, _, last = folder.rpartition("/")
        inner.insert(0, last)
    return ".".join([tops[folder], *inner])


def _top_name(project: Project, root: PurePath, folder: str, imported: Iterable[str]) -> str:
    """The longest of the endings of a folder's path that is imported and means no other file, or its bare name."""
    parts = [*root.parts, *(part for part in folder.split("/") if part)]
    names = [".".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
    own = (None, f"{folder}/__init__.py".lstrip("/"))
    fitting = (name for name in reversed(names) if name in imported and project.module_path(name, "") in own)
    return next(fitting, names[0] if names else "")
