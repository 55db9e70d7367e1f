"""Folders of code that the output gets besides, because rewritten files import them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.resources import files

from gpu2npu.codemods.entry import find_entries
from gpu2npu.codemods.program import TrainingProgram


def beside_programs(program: TrainingProgram, importing: Iterable[str], folder: str) -> dict[str, bytes]:
    """The files of a template folder, once beside each program that loads one of the files that import it: Python looks
    for modules beside the script it starts. At the root of the project too: tests and `python -m` start there."""
    places = _places(program, importing)
    return {
        f"{place}/{folder}/{name}".lstrip("/"): content for place in sorted(places) for name, content in _files(folder)
    }


def package_beside(program: TrainingProgram, importing: Iterable[str], folder: str) -> dict[str, bytes]:
    """The files of a template folder that some files import: in the outermost package of each that is in one, and
    beside the programs that load the others."""
    packages = {path: outermost_package(program, path) for path in importing}
    alone = [path for path, package in packages.items() if package is None]
    places = {package for package in packages.values() if package is not None}
    return {
        f"{place}/{folder}/{name}".lstrip("/"): content
        for place in sorted(places | (_places(program, alone) if alone else set()))
        for name, content in _files(folder)
    }


def outermost_package(program: TrainingProgram, path: str) -> str | None:
    """The folder of the outermost package that a file is in, None for one that is not in a package."""
    folder = path.rpartition("/")[0]
    found = None
    while folder in program.packages:
        found = folder
        folder = folder.rpartition("/")[0]
    return found


def _places(program: TrainingProgram, importing: Iterable[str]) -> set[str]:
    return {"", *(entry.file.path.rpartition("/")[0] for entry in find_entries(program, importing))}


def _files(folder: str) -> Iterator[tuple[str, bytes]]:
    for file in sorted((files("gpu2npu.codemods") / "templates" / folder).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            yield file.name, file.read_bytes()
