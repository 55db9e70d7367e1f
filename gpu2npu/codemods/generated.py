"""Folders of code that the output gets besides, because rewritten files import them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.resources import files

from gpu2npu.codemods.entry import find_entries
from gpu2npu.codemods.program import Program


def beside_programs(program: Program, importing: Iterable[str], folder: str) -> dict[str, bytes]:
    """The files of a template folder, once beside each program that loads one of the files that import it: Python looks
    for modules beside the script it starts. At the root of the project too: tests and `python -m` start there."""
    entries = find_entries(program, importing)
    places = {"", *(entry.file.path.rpartition("/")[0] for entry in entries)}
    return {
        f"{place}/{folder}/{name}".lstrip("/"): content for place in sorted(places) for name, content in _files(folder)
    }


def _files(folder: str) -> Iterator[tuple[str, bytes]]:
    for file in sorted((files("gpu2npu.codemods") / "templates" / folder).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            yield file.name, file.read_bytes()
