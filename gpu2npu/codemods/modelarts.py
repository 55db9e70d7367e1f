"""`--modelarts`: the paths that known calls read and write are mapped, so that files may be in ModelArts' storage."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.codemods.choice import Codemod, CodemodChoice, Option
from gpu2npu.codemods.places import Step, by_file, is_skipped, of_rule, replaced
from gpu2npu.codemods.program.files import FILE_CALLS, ParsedFile, TrainingProgram
from gpu2npu.codemods.spellings import spelling
from gpu2npu.python.project.imports import files_naming
from gpu2npu.python.text.templates import code
from gpu2npu.python.tree.place import is_integer
from gpu2npu.python.tree.syntax import argument_of, last_name, string_value
from gpu2npu.records import FileRewrite

FOLDER = "ascend_modelarts_function"
_MAPPED = f"{FOLDER}.mapped"
_MESSAGE = f"The path is mapped by {FOLDER}/path_mapping_config.py."
# Path arguments of known calls: place, keyword, whether the call writes there.
_PATHS: dict[str, list[tuple[int, str, bool]]] = FILE_CALLS["paths"]
_NOT_READING = frozenset("wax+")
CODEMOD = Codemod(
    "modelarts",
    option=Option(
        ("-m", "--modelarts"),
        "Map the paths of files for Huawei ModelArts, by ascend_modelarts_function/path_mapping_config.py.",
    ),
    folder=FOLDER,
    precedence=60,
)


def modelarts(program: TrainingProgram, choice: CodemodChoice) -> dict[str, FileRewrite]:
    """Wrap the path arguments of known calls for files."""
    steps: list[Step] = []
    for file in program.parsed(files_naming(program, frozenset(_PATHS))):
        for call in file.nodes(ast.Call):
            steps += [] if is_skipped(file, call) else _wrapped(file, call)
    return of_rule("modelarts", by_file(steps))


def _wrapped(file: ParsedFile, call: ast.Call) -> Iterator[Step]:
    api = _called(file, call)
    for index, keyword, writes in _PATHS.get(api or "", ()):
        path = argument_of(call, keyword, index)
        if path is None or is_integer(path) or _is_mapped(file, path):
            continue
        writes = writes or (api in {"open", "io.open"} and _writes(call))
        name = spelling(file, _MAPPED)
        yield from ((file, edit) for edit in name.edits)
        template = "{mapped}({path}, writes=True)" if writes else "{mapped}({path})"
        mapped = code(template, mapped=name.name, path=file.bounds(path))
        yield replaced(file, path, mapped, _MESSAGE)


def _called(file: ParsedFile, call: ast.Call) -> str | None:
    """The known function that is called."""
    scope = file.scope_of(call)
    if isinstance(call.func, ast.Name) and call.func.id == "open" and scope.lookup("open") is None:
        return "open"
    api = file.names.qualified(call.func, scope)
    return api if api in _PATHS else None


def _is_mapped(file: ParsedFile, path: ast.expr) -> bool:
    """Return whether a path is mapped already, or a file that a known call gives."""
    return isinstance(path, ast.Call) and (last_name(path.func) == "mapped" or _called(file, path) is not None)


def _writes(call: ast.Call) -> bool:
    """Return whether an `open` may write; it may where its mode is not a plain string."""
    mode = argument_of(call, "mode", 1)
    return mode is not None and not _NOT_READING.isdisjoint(string_value(mode) or "w")
