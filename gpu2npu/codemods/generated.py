"""Folders of code that the output gets besides, because rewritten files import them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files

from gpu2npu.codemods.program.entries import find_entries
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.python.project.imports import ImportGraph
from gpu2npu.python.tree.scopes import Imported
from gpu2npu.records import Edit, FileRewrite


def new_folder(
    program: TrainingProgram, rewrites: Mapping[str, FileRewrite], folder: str, is_relative: bool
) -> dict[str, bytes]:
    """The files of a template folder for the files whose new code imports it.

    They are once beside each program that loads one of these: Python looks for modules beside the script it starts. At
    the root of the project too: tests and `python -m` start there. A folder that `is_relative`ly imported is once in
    the package that the file is in, or imports.
    """
    using = [path for path, rewrite in rewrites.items() if any(_imports(edit, folder) for edit in rewrite.edits)]
    packages = {path: home_package(program, path) if is_relative else None for path in using}
    outside = [path for path, package in packages.items() if package is None]
    places = {package for package in packages.values() if package is not None}
    if outside:
        places |= {"", *(entry.file.path.rpartition("/")[0] for entry in find_entries(program, outside))}
    return {
        f"{place}/{folder}/{name}".lstrip("/"): content for place in sorted(places) for name, content in _files(folder)
    }


def _imports(edit: Edit, folder: str) -> bool:
    return any(name.partition(".")[0] == folder for name in edit.imports)


def home_package(program: TrainingProgram, path: str) -> str | None:
    """The outermost package of a file, or the first of the project that it imports, unless the file adds paths."""
    own, file = outermost_package(program, path), program.file(path)
    if own is not None or file is None or "sys.path" in file.text:
        return own
    imported = ImportGraph.of(program).imports.get(path, frozenset())
    homes = {found for each in sorted(imported) if (found := outermost_package(program, each)) is not None}
    by_name = {home.rpartition("/")[2]: home for home in sorted(homes)}
    heads = [binding.qualified.partition(".")[0] for binding in _imported(file)]
    return next((by_name[head] for head in heads if head in by_name), None)


def _imported(file: ParsedFile) -> Iterator[Imported]:
    """Yield what the imports at the top level of a file bind."""
    for bindings in file.module.bindings.values():
        yield from (
            each for each in bindings if isinstance(each, Imported) and file.parents[each.statement] is file.tree
        )


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
