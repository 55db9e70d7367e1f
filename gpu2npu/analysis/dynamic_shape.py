"""A copy of a project that records, in any training, which operators see changing shapes.

The scripts one starts get one more import on the line of an import they have, so that every line keeps its number. It
brings in the package msft_dynamic_analysis, which is put beside them and watches the operators (see
dynamic_shape_runtime/hook.py). Nothing is run here.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from gpu2npu.engine.torch_library import torch_project
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import SourceFile, read_source
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import IMPORTS, is_main_guard
from gpu2npu.records import PathNote

REPORT_NAME = "msft_dynamic_shape_analysis_report.csv"
PACKAGE = "msft_dynamic_analysis"
_HOOK = "from msft_dynamic_analysis.hook import DETECTOR"
# A script that does not lie beside the package finds it by its own place.
_PATH = '__import__("sys").path.append(str(__import__("pathlib").Path(__file__).resolve().parents[{}]))'
_RUNTIME = Path(__file__).parent / "dynamic_shape_runtime"


def instrument(files: Mapping[str, bytes]) -> tuple[dict[str, bytes], list[PathNote]]:
    """The files to add to a copy of the project, or to put in the place of its own, and what the user must know.

    `files` are its Python files and notebooks by path. Never raises for what is in them.
    """
    changed: dict[str, bytes] = {}
    notes: list[PathNote] = []
    project = torch_project(files)
    outlines = {path: _outline(path, project) for path in sorted(project.files)}
    imported = frozenset().union(*(each.imported for each in outlines.values()))
    for path, outline in outlines.items():
        if outline.is_broken:
            notes.append(PathNote(path, "cannot be parsed, so it is copied as it is", failed=True))
        if not outline.is_main and (not outline.acts or path in imported):
            continue
        if outline.end is None:
            notes.append(PathNote(path, f"has no import at its top to add to; add: {_HOOK}", failed=True))
        else:
            changed[path] = _with_import(read_source(files[path], path), outline.end)
    notebooks = [path for path in sorted(files) if path.endswith(".ipynb") and project.spells_library(files[path])]
    reason = f"is a notebook; to watch it, add to its first cell: {_HOOK}"
    notes.extend(PathNote(path, reason, failed=False) for path in notebooks)
    if not changed:
        notes.append(PathNote(".", f"no script that a user starts was found; add to yours: {_HOOK}", failed=True))
    changed[f"{PACKAGE}/__init__.py"] = b'"""Watches for changing shapes; see hook.py."""\n'
    changed[f"{PACKAGE}/hook.py"] = (_RUNTIME / "hook.py").read_bytes()
    return changed, notes


class _Outline(Struct, frozen=True):
    """A file as far as it may be a script. `imported` are the files of the project that its imports may run. `is_main`:
    it says itself that it is a script; `acts`: it does more than to define, and has to do with PyTorch. `end` is the
    offset behind the import that the hook is added to (see _last_import)."""

    imported: frozenset[str] = frozenset()
    is_main: bool = False
    acts: bool = False
    end: int | None = None
    is_broken: bool = False


def _outline(path: str, project: Project) -> _Outline:
    """One that is not a script for a file that imports nothing or is not valid."""
    source = project.read(path)
    if b"import" not in source:  # and so nothing of PyTorch, to watch
        return _Outline()
    names = project.names(path)
    if names is None:
        return _Outline(is_broken=True)
    imported = project.imported_paths(names.facts, path) - {path}
    name = posixpath.basename(path)
    if name in ("setup.py", "conftest.py"):
        return _Outline(imported)
    body = names.file.tree.body
    is_main = name == "__main__.py" or any(map(is_main_guard, body))
    acts = any(isinstance(node, ast.For | ast.While | ast.Expr | ast.With) for node in body[1:])
    acts = acts and name != "__init__.py"  # nobody starts a package's __init__.py
    acts = acts and (project.spells_library(source) or project.leads_to_library(names))
    return _Outline(imported, is_main, acts, _last_import(names.file))


def _last_import(file: PythonFile) -> int | None:
    """The offset behind the last import before the first function or class, or else behind the first one at all; None
    without any."""
    body = file.tree.body
    imports = [node for node in body if isinstance(node, IMPORTS)]
    defined = [node.lineno for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.If)]
    early = [node for node in imports if not defined or node.lineno < min(defined)]
    node = early[-1] if early else imports[0] if imports else None
    return file.bounds(node)[1] if node is not None else None


def _with_import(source: SourceFile, end: int) -> bytes:
    depth = source.path.count("/")
    added = [_PATH.format(depth), _HOOK] if depth else [_HOOK]
    return source.encode(source.text[:end] + "".join(f"; {each}" for each in added) + source.text[end:])
