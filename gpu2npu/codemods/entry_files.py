"""The files that run when a program's entry files are started, and the values that flow through them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpu2npu.codemods.program import TrainingProgram
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.project.imports import ImportGraph

# Methods that modules and tensors of libraries have too: by their name alone they say nothing about the class.
_OF_LIBRARIES = frozenset(
    {
        "add", "append", "backward", "close", "copy", "cpu", "cuda", "eval", "forward", "get", "item", "items", "keys",
        "load", "log", "mean", "reset", "run", "save", "state_dict", "step", "sum", "to", "train", "update", "values",
        "write", "zero_grad",
    }
)  # fmt: skip


def dataflow_of(program: TrainingProgram, entries: Sequence[str], words: bytes) -> Dataflow:
    """The values that flow through the entry files and those that they import with a match of `words` in them; files
    that cannot be parsed are left out.

    A program that imports modules by names it makes up at run time may load any of its files.
    """
    runs = [_loaded(program, entry) for entry in entries if entry in program.sources]
    word = re.compile(words)
    paths = sorted(path for path in set().union(*runs) if path in entries or word.search(program.sources[path]))
    files = {path: file for path in paths if (file := program.file(path)) is not None}
    return Dataflow(program, files, runs, _OF_LIBRARIES)


def _loaded(program: TrainingProgram, entry: str) -> frozenset[str]:
    paths = ImportGraph.of(program).loaded_by(entry)
    return frozenset(program.sources) if any(b"import_module(" in program.sources[path] for path in paths) else paths
