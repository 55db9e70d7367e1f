"""A copy of a project that records, in any training, which operators see changing shapes.

The scripts one starts get one more import on the line of an import they have, so that every line keeps its number. It
brings in the package msft_dynamic_analysis, which is put beside them and watches the operators (see
dynamic_shape_runtime/hook.py). Nothing is run here.
"""

from __future__ import annotations

import ast
import posixpath
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    outlines = {path: _outline(path, files[path]) for path in sorted(files) if path.endswith(".py")}
    imported = frozenset().union(*(each.imported for each in outlines.values()))
    for path, outline in outlines.items():
        if outline.is_broken:
            notes.append(PathNote(path, "cannot be parsed, so it is copied as it is", failed=True))
        if not outline.is_started(_stem(path), imported):
            continue
        if outline.place is None:
            notes.append(PathNote(path, f"has no import at its top to add to; add: {_HOOK}", failed=True))
        else:
            changed[path] = _with_import(files[path], outline.place, path.count("/"))
    notebooks = [path for path in sorted(files) if path.endswith(".ipynb") and b"torch" in files[path]]
    reason = f"is a notebook; to watch it, add to its first cell: {_HOOK}"
    notes.extend(PathNote(path, reason, failed=False) for path in notebooks)
    if not changed:
        notes.append(PathNote(".", f"no script was found that one starts; add to yours: {_HOOK}", failed=True))
    changed[f"{PACKAGE}/__init__.py"] = b'"""Watches for changing shapes; see hook.py."""\n'
    changed[f"{PACKAGE}/hook.py"] = (_RUNTIME / "hook.py").read_bytes()
    return changed, notes


@dataclass(frozen=True)
class _Outline:
    """What is kept of a file: with their syntax trees, the files of a large project would not fit in memory.

    `imported` are the last parts of the modules that it imports, and the names it imports from modules. `is_main`: it
    says itself that it is a script; `acts`: it does more than to define. `place` is where its hook goes (see _place).
    """

    imported: frozenset[str] = frozenset()
    is_main: bool = False
    acts: bool = False
    place: tuple[int, int] | None = None
    is_broken: bool = False

    def is_started(self, stem: str, imported: frozenset[str]) -> bool:
        """Whether it is a script: it says so, or it acts and nothing imports it. `imported` is what all files do."""
        return self.is_main or (self.acts and stem not in imported)


def _outline(path: str, source: bytes) -> _Outline:
    """One that is no script for a file that imports nothing or is not valid."""
    if b"import" not in source:
        return _Outline()
    tree = _parse(source)
    if tree is None:
        return _Outline(is_broken=True)
    imported = _imported_names(tree)
    if posixpath.basename(path) in ("setup.py", "conftest.py"):
        return _Outline(imported)
    stem = _stem(path)
    asks = b"__main__" in source and any(
        isinstance(node, ast.If) and "__main__" in _text(node.test) for node in tree.body
    )
    acts = any(isinstance(node, ast.For | ast.While | ast.Expr | ast.With) for node in tree.body[1:])
    concerned = b"torch" in source and stem != "__init__"  # nobody starts a package's __init__.py
    return _Outline(imported, asks or stem == "__main__", acts and concerned, _place(tree))


def _stem(path: str) -> str:
    return posixpath.basename(path).removesuffix(".py")


def _parse(source: bytes) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imported_names(tree: ast.Module) -> frozenset[str]:
    found: set[str] = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.name.rpartition(".")[2] for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.rpartition(".")[2])
    return frozenset(found)


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements and, without their expressions, what holds some: ten times fewer nodes than ast.walk visits."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(node, part, ()))


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
