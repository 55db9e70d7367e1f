"""The values of a project, read file by file as questions lead to them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gpu2npu.python.facts.value_walk import placed_values, value_facts
from gpu2npu.python.facts.values import MODULE, ValueFacts, decoded_values
from gpu2npu.python.flow.call_effects import read_values
from gpu2npu.python.flow.value_files import CallEffect, ValueFile
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import EVERY_FILE, Project

_MOST_ROUNDS = 12


class Questions:
    """Remembers answers. One that leads to itself is the least that agrees with all others in its circle: whoever was
    given less than what is known now is computed again until nothing is added, so that the order of questions does not
    matter. What leads to no circle, and a circle whose answers no longer grow, is known for good at once: circles are
    the strongly connected components of what asks what, as Tarjan finds them."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[Any, Any]] = {}
        self._cut: set[Hashable] = set()  # questions whose answer is not complete
        self._forget_open()

    def _forget_open(self) -> None:
        self._order: list[Hashable] = []  # what is not known yet, as it was asked
        self._open: dict[Hashable, int] = {}  # where in this order each is
        self._partial: dict[Hashable, dict[Any, Any]] = {}
        self._ways: dict[Hashable, Callable[[], dict[Any, Any]]] = {}  # how each is computed
        self._given_to: dict[Hashable, set[Hashable]] = {}  # who was given a partial answer
        self._outdated: set[Hashable] = set()  # who was given less than what is known now
        self._asking: list[Hashable] = []
        self._lowest = 0  # the least number of what was asked by what is asked now, or by what that asked

    def is_complete(self, key: tuple[Any, ...]) -> bool:
        """Return whether nothing was left out of an answer for the sake of time."""
        return key not in self._cut

    def is_known(self, key: tuple[Any, ...]) -> bool:
        """Return whether the answer to a question is known for good."""
        return key in self._known

    def ask(self, key: tuple[Any, ...], compute: Callable[[], dict[Any, Any]]) -> Any:
        """The answer to a question: a dict, which only grows."""
        known = self._known.get(key)
        if known is not None:
            return known
        if key not in self._open:
            lowest = self._lowest
            try:
                self._ask_first(key, compute)
            except BaseException:
                self._forget_open()  # nobody who waits for an answer gets one
                raise
            self._lowest = min(lowest, self._lowest)
            if key in self._known:
                return self._known[key]
        else:
            self._lowest = min(self._lowest, self._open[key])
        self._given_to[key].add(self._asking[-1])
        return self._partial[key]

    def _ask_first(self, key: Hashable, compute: Callable[[], dict[Any, Any]]) -> None:
        number = self._open[key] = self._lowest = len(self._order)
        self._order.append(key)
        self._partial[key], self._ways[key], self._given_to[key] = {}, compute, set()
        self._compute(key)
        if self._lowest == number:
            self._complete(number)

    def _compute(self, key: Hashable) -> None:
        """Compute an answer and add it to what is known; whoever was given less is outdated."""
        self._outdated.discard(key)
        self._asking.append(key)
        answer, before = self._ways[key](), self._partial[key]
        self._asking.pop()
        if before and any(each not in answer for each in before):
            answer = {**before, **answer}
        if len(answer) != len(before):
            self._partial[key] = answer
            self._outdated |= self._given_to[key]
            self._given_to[key] = set()

    def _complete(self, first: int) -> None:
        """Ask again whoever in a circle is outdated, last asked first, and who joins it; then all of it is known. It is
        not where one of them now asks what was asked before the circle: that has to be known with it."""
        for _ in range(_MOST_ROUNDS):
            for each in reversed(self._order[first:]):
                if each in self._outdated:
                    self._compute(each)
            if self._lowest < first:
                return
            if self._outdated.isdisjoint(self._order[first:]):
                break
        else:
            self._cut.update(self._order[first:])
        for each in self._order[first:]:
            self._known[each] = self._partial.pop(each)
            del self._open[each], self._ways[each], self._given_to[each]
            self._outdated.discard(each)
        del self._order[first:]


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
        self._places: dict[str, tuple[ast.AST, Mapping[ast.AST, int]]] = {}
        self._codes: dict[str, str] = {}  # of the texts that they were read from
        self._groups: dict[Hashable, tuple[dict[Any, Any], dict[Any, list[Any]]]] = {}
        self._asker = ""
        self._is_near = False

    def ask(self, key: tuple[Any, ...], compute: Callable[[], dict[Any, Any]]) -> Any:
        """The answer to a question about a place or a file. What it is looked up in is noted for the file that it is
        about, and whoever asks depends on that file: also where the answer is remembered from somebody else."""
        about = key[1] if isinstance(key[1], str) else self.at(key[1]).path
        if self._asker != about and (about in self.project.files or about in self.project.data):
            self.project.consult(self._asker, about)
        question = (*key, "near") if self._is_near else key
        known = self._known.get(question)
        return known if known is not None else super().ask(question, lambda: self._by(about, compute))

    def _by(self, about: str, compute: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
        """Compute an answer for the file that asks."""
        asker, self._asker = self._asker, about
        try:
            return compute()
        finally:
            self._asker = asker

    def grouped(self, key: tuple[Any, ...], found: dict[tuple[Any, Any], None]) -> Mapping[Any, list[Any]]:
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
            facts = decoded_values(known) if known else value_facts(names.file)
            self._by_path[path] = None if facts is None else self._read(path, facts)
            self._codes[path] = code
        return self._by_path[path]

    def places(self, names: Names) -> Mapping[ast.AST, int]:
        """The places of the expressions, functions and classes of a parsed file, less its first. The file is walked
        again for them: facts have only those of calls, texts and operators."""
        tree, found = self._places.get(names.path, (None, {}))
        if tree is not names.file.tree:
            facts, found = placed_values(names.file)
            if names.path not in self._by_path:
                self._by_path[names.path] = None if facts is None else self._read(names.path, facts)
                self._codes[names.path] = names.facts.code
            self._places[names.path] = names.file.tree, found
        return found

    def place(self, names: Names, node: ast.AST) -> int:
        """The place of an expression, function or class of a parsed file; 0 where it is not followed."""
        self._asker = names.path
        if isinstance(node, ast.Call) and names.path in self._by_path and names.path not in self._places:
            file = self.file_of(names)  # which has calls
            return file.ends.get((node.end_lineno or 0, node.end_col_offset or 0), 0) if file is not None else 0
        found, file = self.places(names).get(node, 0), self.file_of(names)
        return file.first + found if file is not None and found else 0

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
        facts = self.project.facts(path, self._asker)
        if facts is not None and facts.values:
            self._by_path[path] = self._read(path, decoded_values(facts.values))
            self._codes[path] = facts.code
            return self._by_path[path]
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
        project.consult(self._asker, EVERY_FILE)
        importing = project.importing(path) - {path}
        starring = {
            other
            for other in importing & project.starring
            if (facts := project.facts(other, other)) is not None
            and path in (project.module_path(star, other) for star in facts.stars)
        }
        files = importing & (project.naming(name) | starring)
        if len(files) > MOST_FILES:
            self._cut.add(("importers", path, name))
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

    def module_of(self, asker: str, module: str, name: str) -> str | None:
        """The file of the module that an import statement names; None where it names something in one."""
        dotted = module if not name else f"{module}{name}" if module.endswith(".") else f"{module}.{name}"
        return self.project.module_path(dotted, asker)
