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

from gpu2npu.engine.torch_library import torch_project
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import SourceFile, read_source
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import IMPORTS
from gpu2npu.records import PathNote

REPORT_NAME = "msft_dynamic_shape_analysis_report.csv"
PACKAGE = "msft_dynamic_analysis"
_HOOK = "from msft_dynamic_analysis.hook import DETECTOR"
# A script that is not beside the package finds it by its own place.
_PATH = '__import__("sys").path.append(str(__import__("pathlib").Path(__file__).resolve().parents[{}]))'
_RUNTIME = Path(__file__).parent / "dynamic_shape_runtime"


def instrument(files: Mapping[str, bytes]) -> tuple[dict[str, bytes], list[PathNote]]:
    """The files to add to a copy of the project, or to put in the place of its own, and what the user must know.

    `files` are its Python files and notebooks by path. Never raises for what is in them.
    """
    changed: dict[str, bytes] = {}
    notes: list[PathNote] = []
    project = torch_project(files)
    facts = {path: project.facts(path, path) for path in sorted(project.files)}
    imported = (project.imported_paths(each, path) - {path} for path, each in facts.items() if each is not None)
    everywhere = frozenset().union(*imported)
    for path, each in facts.items():
        if each is None:
            notes.append(PathNote(path, "cannot be parsed, so it is copied as it is", failed=True))
        names = project.names(path) if _is_started(path, project, everywhere) else None
        if names is None:
            continue
        end = _last_import(names.file)
        if end is None:
            notes.append(PathNote(path, f"has no import at its top to add to; add: {_HOOK}", failed=True))
        else:
            changed[path] = _with_import(read_source(files[path], path), end)
    notebooks = [path for path in sorted(files) if path.endswith(".ipynb") and project.mentions_library(files[path])]
    reason = f"is a notebook; to watch it, add to its first cell: {_HOOK}"
    notes.extend(PathNote(path, reason, failed=False) for path in notebooks)
    if not changed:
        notes.append(PathNote(".", f"no script that a user starts was found; add to yours: {_HOOK}", failed=True))
    changed[f"{PACKAGE}/__init__.py"] = b'"""Watches for changing shapes; see hook.py."""\n'
    changed[f"{PACKAGE}/hook.py"] = (_RUNTIME / "hook.py").read_bytes()
    return changed, notes


def _is_started(path: str, project: Project, imported: frozenset[str]) -> bool:
    """Return whether a file is a script by itself, or does more than define, uses torch and is not imported."""
    facts, name = project.facts(path, path), posixpath.basename(path)
    if facts is None or name in ("setup.py", "conftest.py"):
        return False
    if name == "__main__.py" or facts.is_guarded:
        return True
    acts = facts.acts and name != "__init__.py" and path not in imported  # nobody starts a package's __init__.py
    names = project.names(path) if acts else None
    return names is not None and (project.spells_library(path) or project.leads_to_library(names))


def _last_import(file: PythonFile) -> int | None:
    """The offset behind the last import before the first definition, or the first import at all; None without any."""
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
