"""Paths of files that the name of a module may mean."""

from __future__ import annotations

from collections.abc import Iterable


def files_by_stem(files: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The files by what a module's name becomes in a path: `a/b` of `a/b.py`, then of `a/b/__init__.py`."""
    modules = [path for path in files if path.endswith(".py")]
    found: dict[str, tuple[str, ...]] = {path.removesuffix(".py"): (path,) for path in modules}
    for path in modules:
        folder, _, name = path.rpartition("/")
        if name == "__init__.py":
            found[folder] = (*found.get(folder, ()), path)
    return found


def module_stems(module: str, importer: str) -> list[str]:
    """The stems of the paths that `module` may have in `importer`, the likeliest first."""
    stripped = module.lstrip(".")
    parts = stripped.split(".") if stripped else []
    level = len(module) - len(stripped)
    package = importer.split("/")[:-1]
    if level:
        bases = [package[: len(package) - (level - 1)]] if level - 1 <= len(package) else []
    else:
        # An absolute import starts at the root, at a folder on the way to the importer (scripts put their own folder
        # on sys.path), or at a conventional source folder.
        bases = [package[:depth] for depth in range(len(package), -1, -1)] + [["src"]]
    return ["/".join((*base, *parts)) for base in bases]
