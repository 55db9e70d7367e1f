"""The values of a project, read file by file as questions lead to them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gpu2npu.python.facts.value_walk import value_facts
from gpu2npu.python.facts.values import MODULE, ValueFacts
from gpu2npu.python.flow.call_effects import read_values
from gpu2npu.python.flow.value_files import CallEffect, ValueFile
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import EVERY_FILE, Project

_MOST_ROUNDS = 12


class Questions:
    """Remembers answers. One that leads to itself is the least that agrees with all others in its circle: these are
    found by asking again until nothing is added, so that the order of questions does not matter. What leads to no
    circle, and a circle whose answer no longer changes, is known for good at once (as in Tarjan's search for
    components)."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[Any, Any]] = {}
        self._partial: dict[Hashable, dict[Any, Any]] = {}
        self._running: dict[Hashable, int] = {}  # how deep below the outermost each is
        self._waiting: dict[Hashable, int] = {}  # answered, but a part of a circle: the depth of its first
        self._lowest = 0  # the least depth of what was asked again by what is asked now
        self._has_grown = False
        self._cut: set[Hashable] = set()  # questions whose answer is not complete

    def is_complete(self, key: tuple[Any, ...]) -> bool:
        """Return whether nothing was left out of an answer for the sake of time."""
        return key not in self._cut

    def ask(self, key: tuple[Any, ...], compute: Callable[[], dict[Any, Any]]) -> Any:
        """The answer to a question: a dict, to which rounds only add."""
        known = self._known.get(key)
        if known is not None:
            return known
        circle_at = self._running.get(key, self._waiting.get(key))
        if circle_at is not None:
            self._lowest = min(self._lowest, circle_at)
            return self._partial.get(key, {})
        depth, start = len(self._running), len(self._waiting)
        lowest, has_grown = self._lowest, self._has_grown
        self._running[key] = depth
        try:
            answer = self._settle(key, depth, start, compute)
        finally:
            del self._running[key]
            if not self._running:
                self._partial.clear()
                self._waiting.clear()
        if self._lowest < depth:
            self._has_grown |= has_grown
        else:
            self._has_grown = has_grown
        self._lowest = min(lowest, self._lowest)
        return answer

    def _settle(self, key: Hashable, depth: int, start: int, compute: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
        """Ask until nothing is added, where this is the question of a circle that was asked first."""
        for _ in range(_MOST_ROUNDS):
            self._lowest, self._has_grown = depth + 1, False
            answer = compute()
            before = self._partial.get(key, {})
            if before and any(each not in answer for each in before):
                answer = {**before, **answer}
            self._has_grown |= len(answer) != len(before)
            if self._lowest > depth:
                self._known[key] = answer
                return answer
            self._partial[key] = answer
            if self._lowest < depth:
                self._waiting[key] = self._lowest
                return answer
            circle = [*list(self._waiting)[start:], key]
            for each in circle[:-1]:
                del self._waiting[each]
            if not self._has_grown:
                break
        else:
            self._cut.update(circle)
        for each in circle:
            self._known[each] = self._partial.pop(each)
        return answer


UNKNOWN = ("unknown", None)
MOST_FILES = 40  # that are read for those that import a name


class ValueProject(Questions):
    """The files. `effects` are what calls do with values, by the last name of what is called, `readers` the functions
    that read a file of data: both are data of the caller, as libraries are not known here."""

    def __init__(
        self, project: Project, effects: Mapping[str, CallEffect], readers: frozenset[str] = frozenset()
    ) -> None:
        super().__init__()
        self.project = project
        self.effects = effects
        self.readers = readers
        self._readers: dict[int, dict[int, bool | None]] | None = None
        self._reading = frozenset(name.rpartition(".")[2] for name in readers)
        self._file_by_place: list[ValueFile] = []
        self._by_path: dict[str, ValueFile | None] = {}
        self._asker = ""
        self._is_near = False

    def ask(self, key: tuple[Any, ...], compute: Callable[[], dict[Any, Any]]) -> Any:
        """The answer to a question about a place or a file. What it is looked up in is noted for the file that it is
        about, and whoever asks depends on that file: also where the answer is remembered from somebody else."""
        about = key[1] if isinstance(key[1], str) else self.at(key[1]).path
        asker, self._asker = self._asker, about
        if asker != about and (about in self.project.files or about in self.project.data):
            self.project.consult(asker, about)
        try:
            return super().ask((*key, "near") if self._is_near else key, compute)
        finally:
            self._asker = asker

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
        """The values of a parsed file."""
        path = names.path
        if path not in self._by_path:
            facts = value_facts(names.file)
            self._by_path[path] = None if facts is None else self._read(path, facts)
        return self._by_path[path]

    def _read(self, path: str, facts: ValueFacts) -> ValueFile:
        file = read_values(path, len(self._file_by_place), facts, self.effects)
        self._file_by_place += [file] * len(file.lines)
        return file

    def file_at(self, path: str | None) -> ValueFile | None:
        if path is None or (path not in self._by_path and path not in self.project.files):
            return None
        if path in self._by_path:
            found = self._by_path[path]
            if found is not None:
                self.project.consult(self._asker, path)
            return found
        names = self.project.names(path, self._asker)
        if names is None:
            self._by_path[path] = None
            return None
        return self.file_of(names)

    def data_at(self, path: str) -> ValueFile:
        """The values of a file of data of the project."""
        file = self._by_path.get(path)
        if file is None:
            file = self._by_path[path] = self._read(path, self.project.data[path].facts)
        return file

    @property
    def size(self) -> int:
        """The number of places in the files that were read."""
        return len(self._file_by_place)

    def at(self, place: int) -> ValueFile:
        """The file that a place is in."""
        return self._file_by_place[place]

    def line(self, place: int) -> int:
        file = self.at(place)
        return file.lines[place - file.first]

    def kind(self, place: int) -> tuple[str, Any]:
        return self.at(place).kinds.get(place, UNKNOWN)

    def text(self, place: int) -> str | None:
        """The string that is written in a place."""
        return self.at(place).values.get(place)

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
        project.consult(self._asker, EVERY_FILE)
        facts = {other: project.facts(other, other) for other in project.importing(path) - {path}}
        starring = {
            other
            for other, each in facts.items()
            if each and path in (project.module_path(one, other) for one in each.stars)
        }
        files = [
            other
            for other, each in facts.items()
            if each and (name in each.names or name in each.texts or other in starring)
        ]
        if len(files) > MOST_FILES:
            self._cut.add(("importers", path, name))
            return {}
        found: dict[str, tuple[tuple[int, bool], ...]] = {}
        for other in sorted(files):
            file = self.file_at(other)
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

    def module_of(self, asker: str, module: str, name: str) -> str | None:
        """The file of the module that an import statement names; None where it names something in one."""
        dotted = module if not name else f"{module}{name}" if module.endswith(".") else f"{module}.{name}"
        return self.project.module_path(dotted, asker)
