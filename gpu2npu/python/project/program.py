"""The Python files of a project looked at together: parsed when they are first needed, and then stored."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from msgspec.structs import asdict

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import Project
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.nodes import by_kind
from gpu2npu.python.tree.syntax import Definition, Function

_Answer = TypeVar("_Answer")
_Node = TypeVar("_Node", bound=ast.AST)


class ParsedFile(PythonFile, frozen=True, eq=False):
    """A file, what its names mean, and its nodes by their types."""

    names: Names
    kinds: Mapping[type[ast.AST], Sequence[ast.AST]]

    @classmethod
    def of(cls, names: Names) -> ParsedFile:
        """The file that some names are of."""
        return cls(**asdict(names.file), names=names, kinds=by_kind(names.file.tree))

    def nodes(self, kind: type[_Node]) -> Sequence[_Node]:
        """The nodes of a type, in the order of the source."""
        return cast("Sequence[_Node]", self.kinds.get(kind, ()))

    @property
    def functions(self) -> list[Function]:
        """The functions and methods."""
        return [*self.nodes(ast.FunctionDef), *self.nodes(ast.AsyncFunctionDef)]

    @property
    def definitions(self) -> list[Definition]:
        """The functions, methods and classes."""
        return [*self.functions, *self.nodes(ast.ClassDef)]

    @property
    def fors(self) -> list[ast.For | ast.AsyncFor]:
        """The loops over something."""
        return [*self.nodes(ast.For), *self.nodes(ast.AsyncFor)]

    def qualified(self, node: ast.AST) -> str | None:
        """The qualified name of what an expression means where it is."""
        if not self.names.may_lead_on(node):  # before its scope is looked for
            return None
        return self.names.qualified(node, self.scope_of(node))


class Program:
    """The files of a project by path, relative, with forward slashes."""

    def __init__(self, sources: Mapping[str, bytes], project: Project) -> None:
        self.sources = sources
        self.project = project
        self._files: dict[str, ParsedFile | None] = {}
        self._answers: dict[object, Any] = {}

    def once(self, question: object, ask: Callable[[], _Answer]) -> _Answer:
        """The answer to a question about the program, computed at the first request."""
        if question not in self._answers:
            self._answers[question] = ask()
        answer: _Answer = self._answers[question]
        return answer

    def of_file(self, ask: Callable[[ParsedFile], _Answer], file: ParsedFile) -> _Answer:
        """Return what a function says about a file, computed at the first request."""
        return self.once((ask, file.path), lambda: ask(file))

    def with_word(self, pattern: bytes, text: bytes = b"") -> Iterator[ParsedFile]:
        """The files that match a regular expression and can be parsed; faster with a `text` that each match has."""
        word = re.compile(pattern)
        found = (path for path in sorted(self.sources) if text in self.sources[path])
        return self.parsed(path for path in found if word.search(self.sources[path]) is not None)

    def parsed(self, paths: Iterable[str]) -> Iterator[ParsedFile]:
        """The files that can be parsed."""
        for path in paths:
            file = self.file(path)
            if file is not None:
                yield file

    def file(self, path: str) -> ParsedFile | None:
        """One file; None if it cannot be read or parsed."""
        if path not in self._files:
            names = self.project.hold(path) if path in self.sources else None
            self._files[path] = ParsedFile.of(names) if names is not None else None
        return self._files[path]
