"""The Python files of a project: found by the names that imports give them, parsed when they are needed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gpu2npu.python.facts.reading import is_known, read_facts, remember
from gpu2npu.python.facts.record import FileFacts, decoded, with_packages
from gpu2npu.python.meaning.library import Library
from gpu2npu.python.project.module_paths import files_by_stem, module_stems
from gpu2npu.python.text.source import SourceReadError, read_source
from gpu2npu.python.tree.file import PythonFile, parsed_file
from gpu2npu.python.tree.syntax_tree import TreeError

if TYPE_CHECKING:
    from gpu2npu.python.facts.values import DataValues
    from gpu2npu.python.flow.values import Values
    from gpu2npu.python.meaning.names import Names

_Answer = TypeVar("_Answer")
# The calls that read a file of data, by file and node: True for one that names no other file, None if it names none.
Readers = Mapping[str, Mapping[tuple[str, int], "bool | None"]]

# What a file depends on if an answer was looked up in all files.
EVERY_FILE = "*"
# And if it was looked up in their import statements.
IMPORTS = "*import statements"
_RETAINED = 3_000_000  # characters of parsed files that stay in memory for the next question


def named(name: str) -> str:
    """The dependency on which files have a name in their code, or with "def name" on the methods of that name."""
    return f"*{name}"


def no_file(path: str) -> bytes:
    """Read a file of a project that has none."""
    raise FileNotFoundError(path)


class Project:
    """One project as this process knows it. `files` are the paths of its Python files, relative, with forward slashes;
    `read` gives the bytes of one. `root` is where they are on disk (None: nowhere).
    The last parsed files stay in memory, up to `retained` characters of them (None: all files). `folders` are those
    that the project's own code puts on sys.path. `given` has encoded facts of files that another process has read,
    `data` the values of files that are not Python and that programs may read.

    `consulted` has what the answers about a file depend on: other files, EVERY_FILE, IMPORTS and names (`named`).
    """

    def __init__(
        self,
        files: frozenset[str] = frozenset(),
        read: Callable[[str], bytes] = no_file,
        root: Path | None = None,
        library: Library | None = None,
        retained: int | None = _RETAINED,
        folders: tuple[str, ...] = (),
        given: Mapping[str, bytes] | None = None,
        data: Mapping[str, DataValues] | None = None,
    ) -> None:
        self.files = files
        self.read = read
        self.root = root
        self.library = library or Library()
        self._retained = retained
        self.folders = folders
        self.given = given or {}
        self.data = data or {}
        # What the first part of an absolute import may be, if it is of the project.
        self._parts = {part for path in files for part in path.removesuffix(".py").split("/")}
        if root is not None and "__init__.py" in files:
            self._parts.update(root.parts)
        self._at = files_by_stem(files)
        self.consulted: dict[str, set[str]] = {}
        self._grown: set[str] = set()
        self._names: OrderedDict[str, Names | None] = OrderedDict()
        self._size = 0  # characters of the files in it
        self._held: dict[str, Names | None] = {}
        self._facts: dict[str, FileFacts | None] = {}
        self._naming: dict[str, frozenset[str]] = {}
        self._indexes: dict[str, dict[str, set[str]]] = {}
        self._spelling: dict[str, bool] = {}
        self._paths: dict[tuple[str, str], tuple[str, ...]] = {}
        self._answers: dict[tuple[object, ...], Any] = {}
        self._running: set[tuple[object, ...]] = set()
        self._incomplete: set[tuple[object, ...]] = set()  # answers found within a circle
        self._circles = 0
        self._cached: dict[tuple[object, ...], Any] = {}
        self._imports: dict[str, frozenset[str] | None] = {}
        self._imported_by: dict[str, frozenset[str]] = {}
        self._importing: dict[str, frozenset[str]] | None = None
        self._has_library: bool | None = None
        self.values: Values | None = None  # made by the first who needs it
        self.readers: Readers | None = None  # found by it

    def __reduce__(self) -> tuple[type[Project], tuple[Any, ...]]:
        return Project, (
            self.files, self.read, self.root, self.library, self._retained, self.folders, self.given, self.data
        )  # fmt: skip

    def consult(self, asker: str, path: str) -> None:
        """Note that an answer about the file `asker` may depend on the file at `path`, or what else `consulted` has."""
        others = self.consulted.setdefault(asker, set())
        if path not in others:
            others.add(path)
            self._grown.add(asker)

    def grown(self) -> set[str]:
        """The files for which `consulted` has grown since the last call."""
        found, self._grown = self._grown, set()
        return found

    def once(self, question: tuple[object, ...], ask: Callable[[], _Answer]) -> _Answer | None:
        """The answer to a question that leads to others, perhaps in a circle: a module that imports from one that
        imports from it. Until the outermost is answered, each is looked up once; within itself it is None."""
        answers = self._answers
        if question in answers:
            if question in self._running or question in self._incomplete:
                self._circles += 1
            known: _Answer | None = answers[question]
            return known
        outermost = not answers
        circles = self._circles
        answers[question] = None
        self._running.add(question)
        try:
            answers[question] = answer = ask()
        finally:
            self._running.discard(question)
            if outermost:
                answers.clear()
                self._incomplete.clear()
            elif self._circles != circles:
                self._incomplete.add(question)
        return answer

    @property
    def is_answering(self) -> bool:
        """Return whether a question is being answered of which answers in between may lack something; see `once`."""
        return bool(self._answers)

    def cached(self, question: tuple[object, ...], ask: Callable[[], _Answer]) -> _Answer | None:
        """The same, remembered for good unless it was answered within a circle, where it may lack something. The
        question and its answer hold no nodes."""
        if question in self._cached:
            known: _Answer | None = self._cached[question]
            return known
        outermost = not self._answers
        circles = self._circles
        answer = self.once(question, ask)
        if outermost or self._circles == circles:
            self._cached[question] = answer
        return answer

    def module_path(self, module: str, importer: str) -> str | None:
        """The project file that `module` (dotted, relative with leading dots) means in `importer`, or None."""
        if not module.startswith(".") and module.partition(".")[0] not in self._parts:
            return None
        key = module, importer.rpartition("/")[0]
        if key not in self._paths:
            stems = (*module_stems(module, importer), *self._in_root(module), *self._in_folders(module))
            self._paths[key] = tuple(path for stem in stems for path in self._at.get(stem, ()))
        found = self._paths[key]
        return next((path for path in found if not self._is_hidden(path, module, importer)), None) if found else None

    def _is_hidden(self, path: str, module: str, importer: str) -> bool:
        """Return whether an import by a bare name cannot mean a file: it is the importer, or is in a package that the
        importer is a module of, as its other imports show."""
        if "." in module:
            return False
        if path == importer:
            return not path.endswith("__init__.py")
        folder = path.removesuffix(".py").removesuffix("/__init__").removesuffix(module)
        if f"{folder}__init__.py" not in self.files or not importer.startswith(folder):
            return False
        facts = self.facts(importer, importer)
        own = (".", f"{importer.removeprefix('src/').partition('/')[0]}.")
        return facts is not None and any(name.startswith(own) for name in facts.imports)

    def _in_root(self, module: str) -> list[str]:
        """The stems that an absolute `module` may have where the root is itself a package: `a/b` of `lib.a.b` in the
        folder `lib`."""
        if self.root is None or "__init__.py" not in self.files:
            return []
        parts = module.split(".")
        above = self.root.parts
        depths = range(1, len(parts) + 1)
        return ["/".join(parts[depth:]) for depth in depths if tuple(parts[:depth]) == above[-depth:]]

    def _in_folders(self, module: str) -> list[str]:
        """The stems that an absolute `module` may have in the folders that are put on sys.path."""
        if module.startswith("."):
            return []
        return [f"{folder}/{module.replace('.', '/')}" for folder in self.folders]

    def names(self, path: str, asker: str | None = None) -> Names | None:
        """Return what the names of another file mean; None where it cannot be read or parsed."""
        if asker is not None:
            self.consult(asker, path)
        if path in self._held:
            return self._held[path]
        if path in self._names:
            self._names.move_to_end(path)
            return self._names[path]
        found = self._load(path)
        self._remember(path, found)
        return found

    def parsed(self, path: str) -> Names | None:
        """The names of a file that is in memory already."""
        return self._held.get(path) or self._names.get(path)

    def keep(self, names: Names) -> None:
        """Use a parsed file as the one at its path, if the project has one there."""
        if names.path in self.files:
            self._facts[names.path] = names.facts
            self._remember(names.path, names)

    def _remember(self, path: str, names: Names | None) -> None:
        """Store a parsed file, and forget those that were not used for longest."""
        self._size += _size(names) - _size(self._names.pop(path, None))
        self._names[path] = names
        while self._retained is not None and self._size > self._retained and len(self._names) > 1:
            self._size -= _size(self._names.popitem(last=False)[1])

    def hold(self, path: str) -> Names | None:
        """The same as `names`, and the file stays in memory: its nodes are the same at each request."""
        if path not in self._held:
            self._held[path] = self.names(path)
            self._size -= _size(self._names.pop(path, None))
        return self._held[path]

    def facts(self, path: str, asker: str) -> FileFacts | None:
        """Return the facts of the file at `path`; None where it cannot be read or parsed."""
        self.consult(asker, path)
        if path not in self._facts:
            known = self.parsed(path)
            if known is not None:
                self._facts[path] = known.facts
            elif path in self.given:
                self._facts[path] = decoded(self.given[path])
            else:
                self._facts[path] = read_facts(self._bytes(path), path)
        return self._facts[path]

    def files_with(self, holds: Callable[[FileFacts], bool]) -> frozenset[str]:
        """The files of whose facts something is true."""
        found = ((path, self.facts(path, path)) for path in self.files)
        return frozenset(path for path, facts in found if facts is not None and holds(facts))

    def naming(self, name: str, asker: str | None = None) -> frozenset[str]:
        """The files whose code has a name, or a string that is one."""
        if asker is not None:
            self.consult(asker, named(name))
        if name not in self._naming:
            self._naming[name] = self.files_with(lambda facts: facts.has(name))
        return self._naming[name]

    def consult_naming(self, asker: str, name: str) -> None:
        """Note that an answer depends on which files have a name, and on what these say."""
        for path in self.naming(name, asker):
            self.consult(asker, path)

    def quoting(self, name: str) -> frozenset[str]:
        """The files that have a string with dots in which a name is."""
        dotted = self._index(
            "quoting", lambda facts: (p for text in facts.texts if "." in text for p in text.split("."))
        )
        return frozenset(dotted.get(name, ()))

    def storing(self, name: str) -> frozenset[str]:
        """The files that assign an attribute of some name."""
        return frozenset(self._index("storing", lambda facts: facts.stored).get(name, ()))

    def deriving(self, name: str) -> frozenset[str]:
        """The files that derive a class from one of some name."""
        return frozenset(self._index("deriving", lambda facts: facts.bases).get(name, ()))

    def _index(self, what: str, words: Callable[[FileFacts], Iterable[str]]) -> Mapping[str, Set[str]]:
        """The files by words that are taken from their facts."""
        if what not in self._indexes:
            found = self._indexes[what] = {}
            for path in self.files:
                facts = self.facts(path, path)
                for word in words(facts) if facts is not None else ():
                    found.setdefault(word, set()).add(path)
        return self._indexes[what]

    def methods(self, name: str, asker: str) -> frozenset[tuple[str, ...]]:
        """The parameters of the methods of some name (`FileFacts.methods`), in all classes of the project."""
        self.consult(asker, named(f"def {name}"))
        found = (self.facts(path, path) for path in self._index("methods", lambda facts: facts.methods).get(name, ()))
        return frozenset(each for facts in found if facts is not None for each in facts.methods[name])

    @property
    def starring(self) -> frozenset[str]:
        """The files that have an import with a star."""
        return frozenset(self._index("starring", lambda facts: ("",) if facts.stars else ()).get("", ()))

    def _bytes(self, path: str) -> bytes:
        try:
            return self.read(path)
        except OSError:
            return b""

    def may_star(self, path: str, name: str, asker: str) -> bool:
        """Return whether a star import of the file at `path` may bring in a name."""
        facts = self.facts(path, asker)
        return facts is not None and facts.may_star(name)

    def spells_library(self, path: str) -> bool:
        """Return whether the code of a file names a package of the library, or one with that in it; or a text does."""
        if path not in self._spelling:
            facts = self.facts(path, path) if path in self.files else None
            is_spelled = facts is not None and any(map(facts.spells, self.library.packages))
            self._spelling[path] = is_spelled or (facts is None and self.mentions_library(self._bytes(path)))
        return self._spelling[path]

    def mentions_library(self, source: bytes) -> bool:
        """Return whether a text has the name of a package of the library in it."""
        return any(package.encode() in source for package in self.library.packages)

    @property
    def has_library(self) -> bool:
        """Return whether some file of the project names a package of the library.

        Otherwise no name in the project has anything to do with the library.
        """
        if self._has_library is None:
            self._has_library = any(map(self.spells_library, sorted(self.files)))
        return self._has_library

    def leads_to_library(self, names: Names) -> bool:
        """Return whether the imports of a file lead, through files of the project, to one that names the library;
        otherwise no name of another file has anything to do with the library."""
        seen: set[str] = set()
        pending = [*self.imported_paths(names.facts, names.path)]
        while pending:
            path = pending.pop()
            if path in seen:
                continue
            seen.add(path)
            self.consult(names.path, path)
            imported = self._imported(path)
            if imported is None:
                return True
            pending += imported
        return False

    def _imported(self, path: str) -> frozenset[str] | None:
        """The files of the project that a file imports; None for one that names the library."""
        if path not in self._imports:
            self._imports[path] = None if self.spells_library(path) else self.imported_by(path)
        return self._imports[path]

    def imported_paths(self, facts: FileFacts, path: str) -> frozenset[str]:
        """The files of the project that the import statements of the file at `path` may run."""
        paths = (self.module_path(module, path) for module in with_packages(facts.imports) if module)
        return frozenset(path for path in paths if path is not None)

    def imported_by(self, path: str) -> frozenset[str]:
        """The files of the project that the import statements of one of them may run."""
        if path not in self._imported_by:
            facts = self.facts(path, path)
            self._imported_by[path] = self.imported_paths(facts, path) if facts is not None else frozenset()
        return self._imported_by[path]

    def importing(self, path: str) -> frozenset[str]:
        """The files of the project whose import statements may run the one at a path."""
        if self._importing is None:
            found: dict[str, set[str]] = {}
            for other in sorted(self.files):
                for imported in self.imported_by(other):
                    found.setdefault(imported, set()).add(other)
            self._importing = {imported: frozenset(others) for imported, others in found.items()}
        return self._importing.get(path, frozenset())

    def _load(self, path: str) -> Names | None:
        from gpu2npu.python.meaning.names import Names

        try:
            return Names(self.parse(path), self)
        except (OSError, SourceReadError, TreeError):
            return None

    def parse(self, path: str) -> PythonFile:
        """Parse a file of the project. Raises OSError: it cannot be read. Raises SourceReadError or TreeError: it is
        not text, or not Python."""
        source = self.read(path)
        if path in self.given and not is_known(source):
            remember(source, self.given[path])
        return parsed_file(read_source(source, path))


def _size(names: Names | None) -> int:
    return len(names.file.text) if names is not None else 0
