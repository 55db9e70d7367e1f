"""The files that run when a program's entry files are started."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpu2npu.codemods.import_graph import ImportGraph
from gpu2npu.codemods.program import ParsedFile, Program


def files_of(program: Program, entries: Sequence[str], words: bytes) -> dict[str, ParsedFile]:
    """The entry files and those that they import with a match of `words` in them, parsed, by path; files that cannot be
    parsed are left out.

    A program that imports modules by names it makes up at run time may load any of its files.
    """
    graph = ImportGraph.of(program)
    paths = {path for entry in entries if entry in program.sources for path in graph.loaded_by(entry)}
    if any(b"import_module(" in program.sources[path] for path in paths):
        paths = set(program.sources)
    word = re.compile(words)
    files = {
        path: program.file(path) for path in sorted(paths) if path in entries or word.search(program.sources[path])
    }
    return {path: file for path, file in files.items() if file is not None}
