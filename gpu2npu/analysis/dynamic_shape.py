"""A copy of a project that records, in any training, which operators see changing shapes.

The scripts one starts get one more import on the line of an import they have, so that every line keeps its number. It
brings in the package msft_dynamic_analysis, which is put beside them and watches the operators (see
dynamic_shape_runtime/hook.py). Nothing is run here.
"""

from __future__ import annotations

import ast
import posixpath
import warnings
from collections.abc import Mapping
from pathlib import Path

from gpu2npu.records import PathNote

REPORT_NAME = "msft_dynamic_shape_analysis_report.csv"
PACKAGE = "msft_dynamic_analysis"
_HOOK = "from msft_dynamic_analysis.hook import DETECTOR"
# A script that does not lie beside the package finds it by its own place.
_PATH = '__import__("sys").path.append(str(__import__("pathlib").Path(__file__).resolve().parents[{}]))'
_RUNTIME = Path(__file__).parent / "dynamic_shape_runtime"
_BOM = b"\xef\xbb\xbf"


def instrument(files: Mapping[str, bytes]) -> tuple[dict[str, bytes], list[PathNote]]:
    """The files to add to a copy of the project, or to put in the place of its own, and what the user must know.

    `files` are its Python files and notebooks by path. Never raises for what is in them.
    """
    changed: dict[str, bytes] = {}
    notes: list[PathNote] = []
    trees = {path: _parse(files[path]) for path in sorted(files) if path.endswith(".py") and b"import" in files[path]}
    imported = _imported_names(trees)
    for path, tree in trees.items():
        if tree is not None and _is_started(path, tree, files[path], imported):
            place = _place(tree)
            if place is None:
                notes.append(PathNote(path, f"has no import at its top to add to; add: {_HOOK}", failed=True))
            else:
                changed[path] = _with_import(files[path], place, path.count("/"))
    notebooks = [path for path in sorted(files) if path.endswith(".ipynb") and b"torch" in files[path]]
    reason = f"is a notebook; to watch it, add to its first cell: {_HOOK}"
    notes.extend(PathNote(path, reason, failed=False) for path in notebooks)
    if not changed:
        notes.append(PathNote(".", f"no script was found that one starts; add to yours: {_HOOK}", failed=True))
    changed[f"{PACKAGE}/__init__.py"] = b'"""Watches for changing shapes; see hook.py."""\n'
    changed[f"{PACKAGE}/hook.py"] = (_RUNTIME / "hook.py").read_bytes()
    return changed, notes


def _parse(source: bytes) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imported_names(trees: Mapping[str, ast.Module | None]) -> set[str]:
    """The last parts of all modules that the project imports, and of all names it imports from modules."""
    found: set[str] = set()
    for tree in trees.values():
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.update(alias.name.rpartition(".")[2] for alias in node.names)
            if isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.rpartition(".")[2])
    return found


def _is_started(path: str, tree: ast.Module, source: bytes, imported: set[str]) -> bool:
    """Whether it is a script: it asks for `__main__`, or uses torch, is no part of a package and nobody imports it."""
    if posixpath.basename(path) in ("setup.py", "conftest.py"):
        return False
    if b"__main__" in source and any(isinstance(node, ast.If) and "__main__" in _text(node.test) for node in tree.body):
        return True
    stem = posixpath.basename(path).removesuffix(".py")
    if stem == "__main__":
        return True
    acts = any(isinstance(node, ast.For | ast.While | ast.Expr | ast.With) for node in tree.body[1:])
    return b"torch" in source and acts and stem not in imported and stem != "__init__"


def _text(test: ast.expr) -> str:
    return " ".join(str(node.value) for node in ast.walk(test) if isinstance(node, ast.Constant))


def _place(tree: ast.Module) -> tuple[int, int] | None:
    """The end (line, from 1; column, in bytes) of the last import before the first function or class, or else of the
    first one at all; None without any."""
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    defined = [node.lineno for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.If)]
    early = [node for node in imports if not defined or node.lineno < min(defined)]
    node = early[-1] if early else imports[0] if imports else None
    if node is None or node.end_lineno is None or node.end_col_offset is None:
        return None
    return node.end_lineno, node.end_col_offset


def _with_import(source: bytes, place: tuple[int, int], depth: int) -> bytes:
    line, column = place
    lines = source.splitlines(keepends=True)
    if line == 1 and source.startswith(_BOM):
        column += len(_BOM)
    added = [_PATH.format(depth), _HOOK] if depth else [_HOOK]
    text = lines[line - 1]
    lines[line - 1] = text[:column] + "".join(f"; {each}" for each in added).encode() + text[column:]
    return b"".join(lines)
