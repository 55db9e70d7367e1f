"""The part of a project that is installed, which other programs can import, by the files that build it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu2npu.codemods.choice import Installation
from gpu2npu.project.config import toml_of
from gpu2npu.project.tree.parts import parts_of
from gpu2npu.python.flow.reachability import tree_of
from gpu2npu.python.project.project import Project
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import string_value
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


# Tables of entry points: https://packaging.python.org/en/latest/specifications/pyproject-toml/#entry-points
_TABLES = (
    ("project", "scripts"), ("project", "gui-scripts"), ("project", "entry-points"),
    ("tool", "poetry", "scripts"), ("tool", "poetry", "plugins"),
)  # fmt: skip


def entry_points(sources: Mapping[str, bytes]) -> Iterator[tuple[str, str, str]]:
    """Each entry point: the file that names it, its module and its function, "" for none."""
    if not sources:
        return
    from importlib.metadata import EntryPoint  # takes as long to import as a check of a small file

    for path, source in sources.items():
        read = _READ.get(posixpath.basename(path))
        for value in read(source) if read is not None else ():
            point = EntryPoint(name="", value=value.strip(), group="")
            if point.pattern.fullmatch(point.value) is not None:
                yield path, point.module, point.attr or ""


def toml_content(source: bytes) -> dict[str, Any]:
    """The content of a TOML file; nothing where it cannot be read."""
    try:
        return toml_of(source)
    except (ValueError, RecursionError):
        return {}


def _in_toml(source: bytes) -> Iterator[str]:
    content = toml_content(source)
    for table in _TABLES:
        found: Any = content
        for key in table:
            found = found.get(key) if isinstance(found, dict) else None
        yield from _texts(found)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


def _in_ini(source: bytes) -> Iterator[str]:
    import configparser

    reader = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        reader.read_string(source.decode("utf-8-sig"))
    except (UnicodeDecodeError, configparser.Error):
        return
    if reader.has_section("options.entry_points"):
        for lines in reader["options.entry_points"].values():
            yield from _values(lines)


def _in_script(source: bytes) -> Iterator[str]:
    for node in walk(tree_of(source)):
        yield from _values(string_value(node) or "")


def _values(lines: str) -> Iterator[str]:
    """The values of lines such as `app = app.cli:main`."""
    named = (line.partition("=") for line in lines.splitlines())
    return (value for _, equals, value in named if equals and ":" in value)


_READ = {"pyproject.toml": _in_toml, "setup.cfg": _in_ini, "setup.py": _in_script}
BUILD_FILES = frozenset(_READ)
