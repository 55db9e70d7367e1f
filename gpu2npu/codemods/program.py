"""The Python files of a project as codemods see them: parsed when asked for, with names and positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import libcst as cst

from gpu2npu.engine import ProjectContext
from gpu2npu.engine.byte_pattern import BytePattern
from gpu2npu.engine.edits import Positions, locate
from gpu2npu.engine.names import Names
from gpu2npu.engine.python_tree import python_tree
from gpu2npu.engine.scopes import Scope, collect_scopes
from gpu2npu.engine.tree import children
from gpu2npu.python.source import read_source

_Made = TypeVar("_Made")


@dataclass(frozen=True, eq=False)
class ParsedFile:
    """One file: its text, its tree, what its names mean (`names.qualified(node, scope)`), where nodes lie, and the node
    above each node, by its id."""

    path: str
    text: str
    module: cst.Module
    names: Names
    positions: Positions
    parents: Mapping[int, cst.CSTNode]

    def scope_of(self, node: cst.CSTNode) -> Scope:
        """The scope in which the names of an expression or statement are looked up."""
        above: cst.CSTNode | None = self.parents.get(id(node))
        while above is not None and id(above) not in self.names.scopes.by_node:
            above = self.parents.get(id(above))
        return self.names.scopes.module if above is None else self.names.scopes.by_node[id(above)]

    def code(self, node: cst.CSTNode) -> str:
        """The source text of a node."""
        start, end = self.positions.of(node)
        return self.text[start:end]


@dataclass(frozen=True, eq=False)
class Program:
    """The project's Python files by path, relative, with forward slashes."""

    sources: Mapping[str, bytes]
    context: ProjectContext
    _files: dict[str, ParsedFile | None] = field(default_factory=dict)
    _made: dict[type[Any], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, sources: Mapping[str, bytes], context: ProjectContext) -> Program:
        """Parsed trees are kept out of the migration's own context, which is sent to its workers."""
        own = replace(context, files=frozenset(sources), read=sources.__getitem__, parsed={}, answers={})
        return cls(sources, own)

    def once(self, kind: type[_Made], make: Callable[[], _Made]) -> _Made:
        """What takes long to find out about the program, made when it is first asked for."""
        if kind not in self._made:
            self._made[kind] = make()
        made: _Made = self._made[kind]
        return made

    def with_word(self, pattern: bytes) -> Iterator[ParsedFile]:
        """The files that contain a match of a regular expression and can be parsed."""
        word = BytePattern.of(pattern)
        for path in sorted(self.sources):
            source = self.sources[path]
            if word.is_in(source, source.lower()):
                file = self.file(path)
                if file is not None:
                    yield file

    def file(self, path: str) -> ParsedFile | None:
        """One file; None if it cannot be parsed (the migration says why)."""
        if path not in self._files:
            self._files[path] = self._parse(path)
        return self._files[path]

    def _parse(self, path: str) -> ParsedFile | None:
        try:
            text = read_source(self.sources[path], path).text
            python_tree(text)  # refuses the nesting that LibCST's parser would crash on
            module = cst.parse_module(text)
            links = list(_links(module))
            nodes = [child for _, child in links]
            positions = locate(module, None, text, nodes, frozenset(map(id, nodes)))
        except (SyntaxError, cst.ParserSyntaxError, ValueError, RecursionError, MemoryError):
            return None
        names = Names(path, collect_scopes(module), self.context)
        self.context.parsed[path] = names
        return ParsedFile(path, text, module, names, positions, {id(child): node for node, child in links})


def _links(module: cst.Module) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Each node with each of its children."""
    pending: list[cst.CSTNode] = [module]
    while pending:
        node = pending.pop()
        for child in children(node):
            yield node, child
            pending.append(child)
