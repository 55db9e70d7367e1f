"""The imports between the files of a program, and the functions that run with a file, as far as names say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct

from gpu2npu.python.facts.outline import ImportOutline, Outline
from gpu2npu.python.project.project import Project


class _Imported(Struct, frozen=True):
    """An import of the project's own files: their paths, and the statement."""

    paths: frozenset[str]
    statement: ImportOutline


class ProgramCode:
    """The Python files of a program by their outlines. `project` finds the files that imports mean, `is_entry` says
    whether a file's function is an entry point."""

    def __init__(self, outlines: Mapping[str, Outline], project: Project, is_entry: Callable[[str, str], bool]) -> None:
        self.outlines = outlines
        self._project, self._is_entry = project, is_entry
        self._importers: dict[str, Mapping[str, bool]] = {}
        self._called: dict[tuple[str, str], bool] = {}

    def importers(self, path: str) -> Mapping[str, bool]:
        """The files that import a file. True: only where a later call does, or where they go on without it."""
        if path not in self._importers:
            self._importers[path] = dict(self._found_importers(path))
        return self._importers[path]

    def _found_importers(self, path: str) -> Iterator[tuple[str, bool]]:
        stem = path.removesuffix(".py").removesuffix("/__init__")
        within = f"{stem}/" if path.endswith("/__init__.py") else None  # its own modules are loaded after a package
        for other, imports in self._importing.get(path, {}).items():
            if other != path and not (within is not None and other.startswith(within)):
                yield other, all(self._waits(other, each) for each in imports)

    def _waits(self, importer: str, imported: ImportOutline) -> bool:
        return imported.is_choice or (imported.within != "" and not self._is_called(importer, imported.within))

    def _is_called(self, path: str, name: str) -> bool:
        if (path, name) not in self._called:
            self._called[path, name] = self._runs(path, name)
        return self._called[path, name]

    def _runs(self, path: str, name: str) -> bool:
        """Return whether code that runs with some file names a definition, or names one that names it, and so on."""
        pending = [(path, name)]
        seen = set(pending)
        while pending:
            path, name = pending.pop()
            if name in self.outlines[path].run or self._is_entry(path, name):
                return True
            for found in self._naming(path, name):
                if found not in seen:
                    seen.add(found)
                    pending.append(found)
        return False

    def _naming(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        """The names by which other files import a definition, and the definitions that name it."""
        yield from ((path, other) for other, names in self.outlines[path].definitions.items() if name in names)
        yield from ((other, local) for other, local in self._local_names.get(name, ()) if other != path)
        # As a member of the module, or by a star.
        yield from ((other, name) for other in self._importing.get(path, ()) if other != path)

    @cached_property
    def _importing(self) -> Mapping[str, Mapping[str, list[ImportOutline]]]:
        """The imports of a file by the files that have them."""
        found: dict[str, dict[str, list[ImportOutline]]] = {}
        for other, imports in self._own_imports.items():
            for each in imports:
                for path in each.paths:
                    found.setdefault(path, {}).setdefault(other, []).append(each.statement)
        return found

    @cached_property
    def _local_names(self) -> Mapping[str, set[tuple[str, str]]]:
        """The files that import a name from files of the project, each with its own name for it."""
        found: dict[str, set[tuple[str, str]]] = {}
        for path, imports in self._own_imports.items():
            for each in imports:
                for name, local in each.statement.names.items():
                    found.setdefault(name, set()).add((path, local))
        return found

    @cached_property
    def _own_imports(self) -> Mapping[str, tuple[_Imported, ...]]:
        """The imports of each file that are of the project's own files."""
        return {
            path: tuple(_Imported(paths, each) for each in outline.imports if (paths := self._paths(each, path)))
            for path, outline in self.outlines.items()
        }

    def _paths(self, imported: ImportOutline, importer: str) -> frozenset[str]:
        named = (
            self._project.module_path(each, importer) for name in imported.modules for each in _with_packages(name)
        )
        return frozenset(path for path in named if path is not None)


def _with_packages(module: str) -> Iterator[str]:
    """A module and the packages that are loaded before it: `a.b.c`, `a.b`, `a`."""
    while module.strip("."):
        yield module
        module = module.rpartition(".")[0]
