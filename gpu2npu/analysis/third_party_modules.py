"""What the Python files of a library are called when they are imported, told from their paths alone."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_IMPORTED = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([A-Za-z_][\w.]*)", re.MULTILINE)


def module_names(root: Path, files: Mapping[str, bytes]) -> dict[str, str]:
    """The dotted name of each Python file of a library that lies in the folder `root`, by path.

    A package begins at the outermost of the nested folders that have an `__init__.py`. Folders above it, also above
    `root`, belong to its name if the library itself imports it so: `megatron.core`, whose `megatron` has no
    `__init__.py`. A file in no package is named by its path.
    """
    python = [path for path in files if path.endswith(".py")]
    folders = {posixpath.dirname(path) for path in python if posixpath.basename(path) == "__init__.py"}
    imported = {name.decode() for path in python for name in _IMPORTED.findall(files[path])}
    prefixes = {name.rsplit(".", count)[0] for name in imported for count in range(name.count(".") + 1)}
    outermost = {folder for folder in folders if not folder or posixpath.dirname(folder) not in folders}
    tops = {folder: _top_name(root, folder, prefixes) for folder in outermost}
    return {path: _name(path, folders, tops) for path in python}


def _name(path: str, folders: set[str], tops: Mapping[str, str]) -> str:
    folder, stem = posixpath.dirname(path), posixpath.basename(path).removesuffix(".py")
    inner: list[str] = [] if stem == "__init__" else [stem]
    if folder not in folders:
        return ".".join([part for part in folder.split("/") if part] + inner) or stem
    while folder not in tops:
        folder, _, last = folder.rpartition("/")
        inner.insert(0, last)
    return ".".join([tops[folder], *inner])


def _top_name(root: Path, folder: str, imported: Iterable[str]) -> str:
    """The longest of its paths' endings that is imported, or its bare name."""
    parts = [*root.parts, *(part for part in folder.split("/") if part)]
    names = [".".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
    return next((name for name in reversed(names) if name in imported), names[0])
