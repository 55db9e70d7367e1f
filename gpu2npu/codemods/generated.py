"""Folders of code that the output gets besides, because rewritten files import them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files

from gpu2npu.codemods.program.entries import find_entries
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.records import Edit, FileRewrite


def new_folder(
    program: TrainingProgram, rewrites: Mapping[str, FileRewrite], folder: str, is_relative: bool
) -> dict[str, bytes]:
    """The files of a template folder for the files whose new code imports it.

    They are once beside each program that loads one of these: Python looks for modules beside the script it starts. At
    the root of the project too: tests and `python -m` start there. A folder that `is_relative`ly imported is in the
    outermost package of each file that is in one.
    """
    using = [path for path, rewrite in rewrites.items() if any(_imports(edit, folder) for edit in rewrite.edits)]
    packages = {path: outermost_package(program, path) if is_relative else None for path in using}
    outside = [path for path, package in packages.items() if package is None]
    places = {package for package in packages.values() if package is not None}
    if outside:
        places |= {"", *(entry.file.path.rpartition("/")[0] for entry in find_entries(program, outside))}
    return {
        f"{place}/{folder}/{name}".lstrip("/"): content for place in sorted(places) for name, content in _files(folder)
    }


def _imports(edit: Edit, folder: str) -> bool:
    return any(name.partition(".")[0] == folder for name in edit.imports)


def outermost_package(program: TrainingProgram, path: str) -> str | None:
    """The folder of the outermost package that a file is in, None for one that is not in a package."""
    folder = path.rpartition("/")[0]
    found = None
    while folder in program.packages:
        found = folder
        folder = folder.rpartition("/")[0]
    return found


def _files(folder: str) -> Iterator[tuple[str, bytes]]:
    for file in sorted((files("gpu2npu.codemods") / "templates" / folder).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            yield file.name, file.read_bytes()
