"""The imports between the files of a project."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from gpu2npu.python.project.program import Program
from gpu2npu.python.tree.syntax import IMPORTS, imported_names
from gpu2npu.python.tree.syntax_tree import parse_statement

# To parse every file would take too long: only what may be import statements is.
_WORD = re.compile(rb"import\b")
_BEFORE = re.compile(rb"(?:.*[:;])?[ \t]*(?P<home>from[ \t]+[.\w]+[ \t]+)?", re.DOTALL)
_BEHIND = re.compile(rb"[ \t]*(?:\([^)]*\)|(?:[^\n\\#;]|\\\r?\n)*)")


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
    for module in imported_modules(source):
        other = program.project.module_path(module, path)
        if other is not None and other != path:
            yield other


def imported_modules(source: bytes) -> Iterator[str]:
    """Every module that the text may import: of `from a import b`, both `a` and `a.b`."""
    for statement in _statements(source):
        yield from _named_by(statement)


@lru_cache(maxsize=20_000)  # the files of a project repeat most of their import statements
def _named_by(statement: bytes) -> tuple[str, ...]:
    """The modules that an import statement may import; none where it is not one."""
    node = parse_statement(statement.decode("utf-8", "replace"))
    home = ("." * node.level + (node.module or ""),) if isinstance(node, ast.ImportFrom) else ()
    return (*home, *(qualified for _, qualified in imported_names(node))) if isinstance(node, IMPORTS) else ()


def _statements(source: bytes) -> Iterator[bytes]:
    """The text of what may be import statements."""
    for word in _WORD.finditer(source):
        line = max(source.rfind(b"\n", 0, word.start()), source.rfind(b"\r", 0, word.start())) + 1
        before = _BEFORE.fullmatch(source, line, word.start())
        behind = _BEHIND.match(source, word.end())
        if before is not None and behind is not None:
            yield (before["home"] or b"") + word[0] + behind[0]
