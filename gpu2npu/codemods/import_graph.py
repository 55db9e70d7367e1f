"""Which file of a project imports which, told by a search of the text: parsing every file would take too long."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpu2npu.codemods.program import Program

_STATEMENT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|(?:[^\n\\]|\\\r?\n)*)|import[ \t]+([^\n#;]*))",
    re.MULTILINE,
)
_NAME = re.compile(rb"[\w.]+|\*")


@dataclass(frozen=True)
class ImportGraph:
    """`imports` has, for each file, the project's files that it imports; `importers` the other way round."""

    imports: Mapping[str, frozenset[str]]
    importers: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, program: Program) -> ImportGraph:
        """The graph of a program, made once."""
        return program.once(cls, lambda: cls._of(program))

    @classmethod
    def _of(cls, program: Program) -> ImportGraph:
        imports = {path: frozenset(_imported(program, path)) for path in program.sources}
        importers: dict[str, set[str]] = {}
        for path, others in imports.items():
            for other in others:
                importers.setdefault(other, set()).add(path)
        return cls(imports, {path: frozenset(others) for path, others in importers.items()})

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
    if b"import_module(" in program.sources[path] or b"__import__(" in program.sources[path]:
        # The names of modules are made up at run time: those beside the file, as a rule.
        folder = path.rpartition("/")[0]
        yield from (other for other in program.sources if other != path and folder and other.startswith(f"{folder}/"))
    for module in _modules(program.sources[path]):
        other = program.context.module_path(module, path)
        if other is not None and other != path:
            yield other


def _modules(source: bytes) -> Iterator[str]:
    """Every module that the text may import: of `from a import b`, both `a` and `a.b`."""
    for home, names, plain in _STATEMENT.findall(source):
        if home:
            module = home.decode()
            yield module
            for name in _NAME.findall(re.sub(rb"#[^\n]*|\bas\s+\w+", b"", names)):
                yield f"{module}{'' if module.endswith('.') else '.'}{name.decode()}"
        for part in plain.split(b","):
            words = part.split()
            if words and _NAME.fullmatch(words[0]):
                yield words[0].decode()
