"""The files of a project from which imports lead to certain packages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpu2npu.engine.imports import imported_packages
from gpu2npu.python.meaning.names import Names

_CHAIN = 2  # files through which a name of a package is followed: a base class, and one that is made of it


def leads_to_package(names: Names, packages: frozenset[str]) -> bool:
    """Return whether a file imports one of some packages, itself or through at most _CHAIN files of the project.

    A package's `__init__.py` hands names on and is not counted. Longer chains reach all of a large project.
    """
    if not packages.isdisjoint(imported_packages(names.file)):
        return True
    wanted = names.project.settled(("imports", packages), partial(_importing, names, packages)) or frozenset()
    return bool(wanted) and not wanted.isdisjoint(_reached(names))


def _importing(names: Names, packages: frozenset[str]) -> frozenset[str]:
    """The files of a project that import one of some packages: of those whose text holds its name."""
    found: set[str] = set()
    for path in names.project.spelling(*packages):
        facts = names.project.facts(path, names.path)
        if facts is not None and facts.imports_one_of(packages):
            found.add(path)
    return frozenset(found)


def _reached(names: Names) -> Iterator[str]:
    """The files that the imports of a file lead to, nearest first."""
    project, seen = names.project, set[str]()
    near = list(project.imported_paths(names.facts, names.path))
    for length in range(1, _CHAIN + 1):
        far: list[str] = []
        for path in near:
            if path in seen:
                continue
            seen.add(path)
            yield path
            hands_on = path.endswith("__init__.py")
            facts = project.facts(path, names.path) if hands_on or length < _CHAIN else None
            if facts is not None:
                (near if hands_on else far).extend(project.imported_paths(facts, path))
        near = far
