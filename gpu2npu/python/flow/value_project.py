"""The values of a project, read file by file as questions lead to them."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gpu2npu.python.facts.record import FileFacts
from gpu2npu.python.facts.value_walk import placed_values, value_facts
from gpu2npu.python.facts.values import MODULE, ValueFacts, decoded_values
from gpu2npu.python.flow.call_effects import read_values
from gpu2npu.python.flow.questions import Question, Questions
from gpu2npu.python.flow.value_files import CallEffect, Path, State, ValueFile
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import IMPORTS, Project, named

UNKNOWN = ("unknown", None)
REACH = "reach"  # the question of all places that a value gets to
MOST_FILES = 40  # that are read for those that import a name


class ValueProject(Questions):
    """The files. `effects` are what calls do with values, by the last name of what is called, `readers` the functions
    that read a file of data: both are data of the caller, as libraries are not known here.

    A file has the same places whenever its text is read, so that answers stay where its edges are freed."""

    def __init__(
        self, project: Project, effects: Mapping[str, CallEffect], readers: frozenset[str] = frozenset()
    ) -> None:
        super().__init__()
        self.project = project
        self.effects = effects
        self.readers = readers
        self._readers: dict[int, dict[int, bool | None]] | None = None
        # The methods by which an object is made or called.
        calls = tuple(f".{name}" for name in project.library.object_calls)
        self.run_by: Mapping[str, Path] = {"class": (".__init__", ".__new__"), "instance": calls}
        self.fluent = frozenset(f".{name}" for name in project.library.fluent)
        self._reading = frozenset(name.rpartition(".")[2] for name in readers)
        self._file_by_place: list[ValueFile | None] = []  # None for a file that was freed
        self._by_path: dict[str, ValueFile | None] = {}  # None for a file without values
        # The first place of each file that was read, in order, with its values if they can be read again.
        self._starts: list[tuple[int, str, bytes]] = []
        self._freed: dict[str, int] = {}  # the first places of files that were freed
        self._kept: dict[int, ValueFile] = {}  # those that can be freed, by their first places
        self._places: dict[str, tuple[ast.AST, Mapping[ast.AST, int]]] = {}
        self._codes: dict[str, str] = {}  # of the texts that they were read from
        self._importing_files: dict[str, tuple[list[tuple[str, FileFacts]], frozenset[str]]] = {}
        self._groups: dict[Question, tuple[dict[Any, Any], dict[Any, list[Any]]]] = {}
        self._asker = ""
        self._is_near = False
        self.size = 0  # the number of places in the files that can be freed

    def ask(self, key: Question, compute: Callable[[], dict[Any, Any]]) -> Any:
        """The answer to a question about a place or a file. What it is looked up in is noted for the file that it is
        about, and whoever asks depends on that file: also where the answer is remembered from somebody else."""
        about = key[1] if isinstance(key[1], str) else self.path_at(key[1])
        if self._asker != about and (about in self.project.files or about in self.project.data):
            self.project.consult(self._asker, about)
        question = (*key, "near") if self._is_near else key
        known = self._known.get(question)
        return known if known is not None else super().ask(question, lambda: self._by(about, compute))

    def is_complete(self, key: Question) -> bool:
        """Return whether nothing was left out of an answer, as it is given now."""
        return super().is_complete((*key, "near") if self._is_near else key)

    def _by(self, about: str, compute: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
        """Compute an answer for the file that asks."""
        asker, self._asker = self._asker, about
        try:
            return compute()
        finally:
            self._asker = asker

    def grouped(self, key: Question, found: dict[tuple[Any, Any], None]) -> Mapping[Any, list[Any]]:
        """The pairs of the answer to a question by their first. An answer that has grown is another dict."""
        answer, groups = self._groups.get((key, self._is_near), ({}, {}))
        if answer is not found:
            groups = {}
            for first, rest in found:
                groups.setdefault(first, []).append(rest)
            self._groups[key, self._is_near] = found, groups
        return groups

    @contextmanager
    def near(self, asker: str) -> Iterator[None]:
        """Answer a file's questions from what leads to a value, and not from the files that import it."""
        before = self._asker, self._is_near
        self._asker, self._is_near = asker, True
        try:
            yield
        finally:
            self._asker, self._is_near = before

    def file_of(self, names: Names) -> ValueFile | None:
        """The values of a parsed file: of the text that it has now, if another one was at its path before."""
        path, code = names.path, names.facts.code
        if path not in self._by_path or self._codes.get(path, code) != code:
            known = names.facts.values
            self._read(path, decoded_values(known) if known else value_facts(names.file), names.facts)
        return self._by_path[path]

    def places(self, names: Names) -> Mapping[ast.AST, int]:
        """The places of the expressions, functions and classes of a parsed file, less its first. The file is walked
        again for them: facts have only those of calls, texts and operators."""
        tree, found = self._places.get(names.path, (None, {}))
        if tree is not names.file.tree:
            facts, found = placed_values(names.file)
            if names.path not in self._by_path:
                self._read(names.path, facts, names.facts)
            self._places[names.path] = names.file.tree, found
        return found

    def place(self, names: Names, node: ast.AST) -> int:
        """The place of an expression, function or class of a parsed file; 0 where it is not followed."""
        self._asker = names.path
        is_read = names.path in self._by_path or names.path in self._freed
        if isinstance(node, ast.Call) and is_read and names.path not in self._places:
            file = self.file_of(names)  # which has calls
            return file.ends.get((node.end_lineno or 0, node.end_col_offset or 0), 0) if file is not None else 0
        found, file = self.places(names).get(node, 0), self.file_of(names)
        return file.first + found if file is not None and found else 0

    def _read(self, path: str, values: ValueFacts | None, facts: FileFacts | None = None) -> ValueFile | None:
        """Read the values of a file, at the places that it had before it was freed."""
        code, first = facts.code if facts is not None else "", self._freed.pop(path, None)
        if first is not None and self._codes[path] == code:
            return self._read_again(first)
        first, encoded = len(self._file_by_place), facts.values if facts is not None else b""
        self._starts.append((first, path, encoded))
        file = None if values is None else read_values(path, first, values, self.effects)
        if file is not None:
            self._hold(file, bool(encoded))
        self._by_path[path], self._codes[path] = file, code
        return file

    def _hold(self, file: ValueFile, is_read_again: bool) -> None:
        self._file_by_place[file.first : file.first + len(file.lines)] = [file] * len(file.lines)
        if is_read_again:
            self._kept[file.first] = file
            self.size += len(file.lines)

    def free(self) -> None:
        """Free the edges of the files whose facts have their values: these are read again where a question leads. The
        ways of values are freed too, most of what is known, and hardly any is asked for again."""
        for first, file in self._kept.items():
            self._file_by_place[first : first + len(file.lines)] = [None] * len(file.lines)
            if self._by_path.get(file.path) is file:  # and not another text at its path
                self._freed[file.path] = first
                del self._by_path[file.path]
        self._kept, self.size = {}, 0
        self._known = {key: answer for key, answer in self._known.items() if key[0] != REACH}
        self._places.clear()
        self._groups.clear()

    def first_of(self, path: str) -> int:
        """The first place of a file that was read and has values."""
        file = self._by_path.get(path)
        return file.first if file is not None else self._freed[path]

    def file_at(self, path: str | None) -> ValueFile | None:
        if path is None or (path not in self._by_path and path not in self.project.files):
            return None
        if path in self._by_path:
            found = self._by_path[path]
            if found is not None:
                self.project.consult(self._asker, path)
            return found
        facts = self.project.facts(path, self._asker)
        if facts is not None and facts.values:
            return self._read(path, decoded_values(facts.values), facts)
        names = self.project.names(path, self._asker)
        if names is None:
            self._by_path[path] = None
            return None
        return self.file_of(names)

    def data_at(self, path: str) -> ValueFile:
        """The values of a file of data of the project."""
        file = self._by_path.get(path) or self._read(path, self.project.data[path].facts)
        assert file is not None
        return file

    def at(self, place: int) -> ValueFile:
        """The file that a place is in."""
        file = self._file_by_place[place]
        return file if file is not None else self._read_again(place)

    def path_at(self, place: int) -> str:
        """The path of the file that a place is in, which is not read for it."""
        file = self._file_by_place[place]
        return file.path if file is not None else self._starts[self._start(place)][1]

    def _start(self, place: int) -> int:
        return bisect_right(self._starts, place, key=lambda each: each[0]) - 1

    def _read_again(self, place: int) -> ValueFile:
        """The file that was freed at a place, of the text that it had then."""
        first, path, encoded = self._starts[self._start(place)]
        file = read_values(path, first, decoded_values(encoded), self.effects)
        self._hold(file, is_read_again=True)
        if self._freed.get(path, first) == first and path not in self._by_path:
            self._freed.pop(path, None)
            self._by_path[path] = file
        return file

    def line(self, place: int) -> int:
        file = self.at(place)
        return file.lines[place - file.first]

    def kind(self, place: int) -> tuple[str, Any]:
        return self.at(place).kinds.get(place, UNKNOWN)

    def text(self, place: int) -> str | None:
        """The string that is written in a place."""
        return self.at(place).values.get(place)

    def operator(self, place: int) -> str:
        """The operator that gives what is in a place, if one does."""
        one = self.at(place).operations.get(place)
        return one.operator if one is not None else ""

    def operators_on(self, place: int) -> list[str]:
        """The operators whose first operand is in a place."""
        file = self.at(place)
        return [one.operator for one in file.operations.values() if file.first + one.operands[0] == place]

    def fields(self, place: int) -> Iterable[str]:
        """The fields that are read of what is in a place."""
        return self.at(place).loads.get(place, ())

    def importers(self, path: str, name: str) -> dict[str, tuple[tuple[int, bool], ...]]:
        """The nodes of import statements in other files that bring in a name of a file, or the file as a module."""
        project = self.project
        if self._is_near or path not in project.files:
            return {}
        found: dict[str, tuple[tuple[int, bool], ...]] = self.ask(
            ("importers", path, name), lambda: self._find_importers(path, name)
        )
        return found

    def _find_importers(self, path: str, name: str) -> dict[str, tuple[tuple[int, bool], ...]]:
        project = self.project
        for each in (IMPORTS, named(name)):
            project.consult(self._asker, each)
        importing, starring = self._importing(path)
        files = starring.union([each for each, facts in importing if facts.has(name)])
        if len(files) > MOST_FILES:
            self.cut()
            return {}
        found: dict[str, tuple[tuple[int, bool], ...]] = {}
        of_data = {
            other for other, data in project.data.items() if any(name == each.name for each in data.facts.imports)
        }
        for other in sorted(files | of_data):
            file = self.data_at(other) if other in of_data else self.file_at(other)
            if file is None:
                continue
            nodes = []
            for taken in file.facts.imports:
                if taken.name == name and project.module_path(taken.module, other) == path:
                    nodes.append((taken.node, False))
                elif self.module_of(other, taken.module, taken.name) == path:
                    nodes.append((taken.node, True))
            if other in starring:
                nodes += [(MODULE, True), *((node, False) for node, read in file.facts.outside if read == name)]
            if nodes:
                found[other] = tuple(nodes)
        return found

    def _importing(self, path: str) -> tuple[list[tuple[str, FileFacts]], frozenset[str]]:
        """The other files that import one, with their facts, and those of them that do so with a star."""
        if path not in self._importing_files:
            project = self.project
            others = project.importing(path) - {path}
            found = [(other, facts) for other in others if (facts := project.facts(other, other)) is not None]
            starring = (each for each, facts in found if path in (project.module_path(x, each) for x in facts.stars))
            self._importing_files[path] = found, frozenset(starring)
        return self._importing_files[path]

    def module_of(self, asker: str, module: str, name: str) -> str | None:
        """The file of the module that an import statement names; None where it names something in one."""
        dotted = module if not name else f"{module}{name}" if module.endswith(".") else f"{module}.{name}"
        return self.project.module_path(dotted, asker)

    def imported(self, file: ValueFile, module: str, name: str, path: Path) -> Iterator[State]:
        """The module, or the name in it, that an import statement brings in."""
        inner = self.file_at(self.module_of(file.path, module, name))
        outer = self.file_at(self.project.module_path(module, file.path)) if name else None
        is_other = outer is not None and (outer.names_value(f".{name}") or bool(outer.facts.stars))
        if inner is not None and inner is not file and not is_other:
            yield inner.first + MODULE, path
        elif outer is not None and outer is not file:
            yield outer.first + MODULE, (f".{name}", *path)

    def through_stars(self, file: ValueFile, name: str, path: Path) -> Iterator[State]:
        """A name of the modules that a file imports with a star."""
        for module in file.facts.stars:
            other = self.project.module_path(module, file.path)
            if other is not None and self.project.may_star(other, name, file.path):
                found = self.file_at(other)
                if found is not None:
                    yield found.first + MODULE, (f".{name}", *path)

    def starred(self, place: int, name: str) -> str:
        """The name of what nothing in a file binds: that which the star of a library gives it."""
        stars = self.at(place).facts.stars
        return next(filter(None, (self.project.library.starred(each, name) for each in stars)), name)
