"""The dotted names by which the files of a project are imported, read from their paths and from what imports them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath

from gpu2npu.python.project.interface import Exports
from gpu2npu.python.project.project import Project


def module_names(project: Project) -> dict[str, str]:
    """The dotted name of each file of a project, by path.

    A package begins at the outermost of the nested folders that have an `__init__.py`. Folders above it, also above the
    project's root, belong to its name if the project itself imports it so: `megatron.core`, whose `megatron` has no
    `__init__.py`. A file in no package is named by its path.
    """
    folders = {posixpath.dirname(path) for path in project.files if posixpath.basename(path) == "__init__.py"}
    prefixes = {prefix for path in project.files for prefix in _imported(project, path)}
    outermost = {folder for folder in folders if not folder or posixpath.dirname(folder) not in folders}
    root = project.root or PurePath()
    tops = {folder: _top_name(project, root, folder, prefixes) for folder in outermost}
    return {path: _name(path, folders, tops) for path in project.files}


def offered_names(project: Project, path: str) -> dict[str, str]:
    """The names that can be taken from a module, each with the path of the file that binds it: its own, and those that
    its star imports bring in. What `__all__` lists and nothing binds is given with the file that lists it."""
    bound: dict[str, str] = {}
    listed: dict[str, str] = {}
    waiting: list[tuple[str, frozenset[str] | None]] = [(path, None)]
    seen = set(waiting)
    while waiting:
        inner, wanted = waiting.pop()
        interface = project.interface(inner, path)
        if interface is None:
            continue
        exports = interface.exports or Exports(frozenset(), is_whole=False)
        starred = wanted
        if inner != path and exports.is_whole:
            starred = exports.names if wanted is None else exports.names & wanted
        for names, found in ((interface.names, bound), (exports.names, listed)):
            for name in names if inner == path else _starred(names, exports, starred):
                found.setdefault(name, inner)
        modules = (project.module_path(star, inner) for star in reversed(interface.stars))
        steps = [(module, starred) for module in modules if module is not None and (module, starred) not in seen]
        seen.update(steps)
        waiting += steps
    return {**listed, **bound}


def _starred(names: Iterable[str], exports: Exports, wanted: frozenset[str] | None) -> Iterator[str]:
    """Those of the names of a module that a star brings in: of the `wanted`, or what is public."""
    for name in names:
        if name in wanted if wanted is not None else not name.startswith("_") or name in exports.names:
            yield name


def absolute_name(qualified: str, module: str, path: str) -> str:
    """The whole name of what the file of a module imports, where it is written with leading dots."""
    stripped = qualified.lstrip(".")
    if stripped == qualified:
        return qualified
    package = module.split(".")
    up = len(qualified) - len(stripped) - path.endswith("__init__.py")
    return ".".join((*package[: max(len(package) - up, 0)], stripped))


def _imported(project: Project, path: str) -> Iterable[str]:
    """The absolute modules that a file imports, with the packages they are in."""
    interface = project.interface(path, path)
    for name in interface.imports if interface is not None else ():
        if not name.startswith("."):
            yield from (name.rsplit(".", count)[0] for count in range(name.count(".") + 1))


def _name(path: str, folders: set[str], tops: Mapping[str, str]) -> str:
    folder, stem = posixpath.dirname(path), posixpath.basename(path).removesuffix(".py")
    inner: list[str] = [] if stem == "__init__" else [stem]
    if folder not in folders:
        return ".".join([part for part in folder.split("/") if part] + inner) or stem
    while folder not in tops:
        folder, _, last = folder.rpartition("/")
        inner.insert(0, last)
    return ".".join([tops[folder], *inner])


def _top_name(project: Project, root: PurePath, folder: str, imported: Iterable[str]) -> str:
    """The longest of the endings of a folder's path that is imported and means no other file, or its bare name."""
    parts = [*root.parts, *(part for part in folder.split("/") if part)]
    names = [".".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
    own = (None, f"{folder}/__init__.py".lstrip("/"))
    fitting = (name for name in reversed(names) if name in imported and project.module_path(name, "") in own)
    return next(fitting, names[0] if names else "")
