"""The imports between the files of a project, and the dotted names by which the files are imported."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath

from gpu2npu.python.meaning.names import ModuleNames
from gpu2npu.python.project.interface import Exports
from gpu2npu.python.project.program import Program
from gpu2npu.python.project.project import EVERY_FILE, Project
from gpu2npu.python.tree.syntax import IMPORTS, imported_names, member_of, string_value
from gpu2npu.python.tree.syntax_tree import parse_statement

# To parse every file would take too long: only what may be import statements is.
_WORD = re.compile(rb"import\b")
_BEFORE = re.compile(rb"(?:.*[:;])?[ \t\f]*(?P<home>from\b(?:[.\w\x80-\xff \t\f]|\\\r?\n)*)?", re.DOTALL)
_BEHIND = re.compile(rb"[ \t]*(?:\((?:[^)#]|#[^\r\n]*)*\)|(?:[^\r\n\\#;]|\\\r?\n)*)")
# What stands before the name of a member, in code or in a string: `nn.DataParallel`, `getattr(nn, "DataParallel")`.
_MEMBER = rb"[.\"'](?:[\s\\]|#[^\r\n]*[\r\n])*"
_LONG_QUOTES = re.compile(rb"\"\"\"|'''")


@dataclass(frozen=True)
class ImportGraph:
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
                group = _closure([path], edges)
                seen |= group
                groups.append(sorted(group))
        return groups

    def loaded_by(self, path: str, most: int | None = None) -> frozenset[str]:
        """The files that are loaded with a file, itself among them; where they are more than `most`, some of them."""
        return _closure([path], self.imports, most)

    def that_load(self, paths: Iterable[str]) -> frozenset[str]:
        """The files that load one of some files, these among them."""
        return _closure(paths, self.importers)


def _closure(start: Iterable[str], edges: Mapping[str, frozenset[str]], most: int | None = None) -> frozenset[str]:
    found = set(start)
    pending = list(found)
    while pending and (most is None or len(found) <= most):
        for other in edges.get(pending.pop(), frozenset()) - found:
            found.add(other)
            pending.append(other)
    return frozenset(found)


def _imported(program: Program, path: str) -> Iterator[str]:
    source = program.sources[path]
    if b"import_module(" in source or b"__import__(" in source:
        # The names of modules are made up at run time: those beside the file, as a rule.
        folder = path.rpartition("/")[0]
        yield from (other for other in program.sources if other != path and folder and other.startswith(f"{folder}/"))
    # The odd parts lie in strings of several lines, as a rule: then an import there is an example.
    parts = _LONG_QUOTES.split(source)
    found, within = (_paths_of(program.project, path, parts[start::2]) for start in (0, 1))
    if within - found:  # only the syntax tree shows
        interface = program.project.interface(path, path)
        found = found | within if interface is None else _project_paths(program.project, path, interface.imports)
    yield from found


def _paths_of(project: Project, path: str, texts: Iterable[bytes]) -> set[str]:
    """The files that the import statements in parts of a file may import: of `from a import b`, both `a` and `a.b`."""
    return _project_paths(
        project, path, {name for text in texts for each in _statements(text) for name in _named_by(each)}
    )


def _project_paths(project: Project, path: str, modules: Iterable[str]) -> set[str]:
    """The other files of the project that some modules mean in the file at `path`."""
    return {other for other in (project.module_path(each, path) for each in modules) if other not in (None, path)}


@lru_cache(maxsize=20_000)  # the files of a project repeat most of their import statements
def _named_by(statement: bytes) -> tuple[str, ...]:
    """The modules that an import statement may import; none where it is not one."""
    node = parse_statement(statement.decode("utf-8", "replace"))
    home = ("." * node.level + (node.module or ""),) if isinstance(node, ast.ImportFrom) else ()
    return (*home, *(qualified for _, qualified in imported_names(node))) if isinstance(node, IMPORTS) else ()


def _statements(source: bytes) -> Iterator[bytes]:
    """The text of what may be import statements."""
    for word in _WORD.finditer(source):
        before = _BEFORE.fullmatch(source, _line_start(source, word.start()), word.start())
        behind = _BEHIND.match(source, word.end())
        if before is not None and behind is not None:
            yield (before["home"] or b"") + word[0] + behind[0]


def _line_start(source: bytes, offset: int) -> int:
    """The start of the line that holds a byte, with the lines that go on in it."""
    line = max(source.rfind(b"\n", 0, offset), source.rfind(b"\r", 0, offset)) + 1
    end = source[max(0, line - 3) : line].rstrip(b"\r\n")
    return _line_start(source, line - 2) if line >= 2 and end.endswith(b"\\") else line


def files_naming(program: Program, wanted: frozenset[str]) -> tuple[str, ...]:
    """The files that may use something outside the project of which the qualified names are `wanted`, by whatever name:
    those that spell the last part of one, and those that load a file in which it has another name."""
    return program.once((files_naming, wanted), lambda: _files_naming(program, wanted))


def _files_naming(program: Program, wanted: frozenset[str]) -> tuple[str, ...]:
    leaves = frozenset(name.rpartition(".")[2] for name in wanted)
    texts = [leaf.encode() for leaf in leaves]
    spelled, member = (re.compile(before + rb"(?:" + b"|".join(texts) + rb")\b") for before in (rb"\b", _MEMBER))
    has_builtin = any("." not in name for name in wanted)
    found: set[str] = set()
    renaming: list[str] = []
    for path, source in program.sources.items():
        if not any(text in source for text in texts) or spelled.search(source) is None:
            continue
        if has_builtin or member.search(source) is not None or _may_bind(source, leaves):
            found.add(path)
            interface = program.project.interface(path, path)
            if interface is not None and _renames(ModuleNames(interface, program.project), leaves, wanted):
                renaming.append(path)
    return tuple(sorted(found | ImportGraph.of(program).that_load(renaming) if renaming else found))


def _may_bind(source: bytes, leaves: frozenset[str]) -> bool:
    """Return whether what may be an import statement of a file names one of some last parts, or has a star."""
    return any(
        statement.rstrip().endswith(b"*") or any(name.rpartition(".")[2] in leaves for name in _named_by(statement))
        for statement in _statements(source)
    )


def _renames(names: ModuleNames, leaves: frozenset[str], wanted: frozenset[str]) -> bool:
    """Return whether a module gives something that is wanted another name."""
    bound = names.interface.names.items()
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
        interface = project.interface(inner, path)
        if interface is None:
            continue
        exports = interface.exports or Exports(frozenset(), is_whole=False)
        starred = wanted
        if inner != path and exports.is_whole:
            starred = exports.names if wanted is None else exports.names & wanted
        for names, found in ((interface.names, bound), (exports.names, listed)):
            for name in names if inner == path else _starred(names, exports, starred):
                found.setdefault(name, inner)
        modules = (project.module_path(star, inner) for star in reversed(interface.stars))
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
    project.consult(asker, EVERY_FILE)
    stem = posixpath.basename(path.removesuffix(".py").removesuffix("/__init__"))
    return project.settled(("importers", path), lambda: frozenset(_importers(project, path, stem))) or frozenset()


def _importers(project: Project, path: str, stem: str) -> Iterator[str]:
    for other in sorted(project.spelling(stem) - {path}):
        interface = project.interface(other, path)
        if interface is not None and path in project.imported_paths(interface):
            yield other


def is_taken(project: Project, path: str, name: str) -> bool:
    """Return whether another file imports a name from the one at `path`, by itself or by a star, reads it as an
    attribute of that module, or names both, the module in a string."""
    project.consult(path, EVERY_FILE)
    spelled = project.spelling(name) - {path}
    taking = sorted(spelled | project.starring - {path})
    return any(_takes(project, other, path, name) for other in taking) or any(
        _quotes(project, other, path, name) for other in sorted(spelled)
    )


def _takes(project: Project, other: str, path: str, name: str) -> bool:
    if not path.endswith("__init__.py") and not _may_import(project, other, path):
        return False  # a package is imported with each of its modules
    interface = project.interface(other, path)
    if interface is None or path not in project.imported_paths(interface):
        return False
    modules = {module for module in interface.imports if project.module_path(module, other) == path}
    own = project.interface(path, path)
    if not modules.isdisjoint(interface.stars) and (own is None or own.may_star(name)):
        return True
    if any(member_of(module, name) in interface.imports for module in modules):
        return True
    return other in project.spelling(name) and _reads(project, other, path, name)


def _quotes(project: Project, other: str, path: str, name: str) -> bool:
    """Return whether a file that has a name also has a string with the dotted name of the module at `path`, as
    `import_module("a.b")` and `mock.patch("a.b.name")` have."""
    parts = path.removesuffix(".py").removesuffix("/__init__").rpartition("/")
    if other not in project.spelling(parts[2]):
        return False
    names = project.names(other, path)
    texts = {text for node, _ in names.file.uses if (text := string_value(node))} if names is not None else set()
    modules = {f"{text}.".partition(f".{name}.")[0].removesuffix(".") for text in texts}
    return any(project.module_path(each, other) == path for each in modules if each.replace(".", "").isidentifier())


def _may_import(project: Project, other: str, path: str) -> bool:
    """Judge whether a file imports another by what may be import statements in it; its tree is not needed."""
    stem = posixpath.basename(path).removesuffix(".py")
    return other in project.spelling(stem) and path in _paths_of(project, other, (project.read(other),))


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
    interface = project.interface(path, path)
    for name in interface.imports if interface is not None else ():
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
