"""The dotted names by which the files of a project are imported, told from their paths and from what imports them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from pathlib import PurePath

from gpu2npu.python.project import Project


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


def offered_names(project: Project, path: str) -> set[str]:
    """The names that a module binds, and the public ones that its star imports may bring in."""
    interface = project.interface(path, path)
    offered = set(interface.names) if interface is not None else set()
    seen = {path}
    waiting = [interface]
    while waiting:
        importer = waiting.pop()
        for star in importer.stars if importer is not None else ():
            inner = project.module_path(star, importer.path) if importer is not None else None
            if inner is not None and inner not in seen:
                seen.add(inner)
                brought = project.interface(inner, path)
                offered.update(name for name in (brought.names if brought else ()) if not name.startswith("_"))
                waiting.append(brought)
    return offered


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
