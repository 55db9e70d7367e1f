"""The part of a project that is installed, and that programs outside of the project can import: judged by the files
that say how it is built."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping

from gpu2npu.codemods.choice import Installation
from gpu2npu.project.check.entry_points import entry_points, toml_content
from gpu2npu.project.tree.parts import parts_of
from gpu2npu.python.project.project import Project
from gpu2npu.report.check.result import Part

# Folders of packages beside the file that says how they are built: flat, and in the src layout.
_HOMES = ("", "src")


def installation(python: Mapping[str, bytes], build_files: Mapping[str, bytes]) -> Installation:
    """Return what a project with such Python files installs, by path; nothing where no file says how it is built.

    Packages of tests, examples and the like are not counted: nobody imports them elsewhere.
    """
    homes = {
        posixpath.join(posixpath.dirname(path), home) for path, source in build_files.items() if _builds(path, source)
        for home in _HOMES
    }  # fmt: skip
    if not homes:
        return Installation()
    part = parts_of(python)
    initial = [path for path in python if posixpath.basename(path) == "__init__.py" and part(path) is Part.PROGRAM]
    packages = {posixpath.dirname(path) for path in initial if posixpath.dirname(posixpath.dirname(path)) in homes}
    return Installation(tuple(sorted(packages - {""})), tuple(sorted(set(_commands(python, build_files)))))


def _commands(python: Iterable[str], build_files: Mapping[str, bytes]) -> Iterator[str]:
    project = Project(frozenset(python))
    for path, module, _ in entry_points(build_files):
        found = project.module_path(module, path)
        if found is not None:
            yield found


def _builds(path: str, source: bytes) -> bool:
    """Return whether a file says how a distribution is built; it may only have settings of tools.

    https://packaging.python.org/en/latest/specifications/pyproject-toml/#declaring-build-system-metadata-the-build-system-table
    """
    name = posixpath.basename(path)
    if name == "setup.py":
        return b"setup(" in source
    if name == "setup.cfg":
        return b"[metadata]" in source or b"[options]" in source
    return "build-system" in toml_content(source)
