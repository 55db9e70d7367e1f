"""The folders of a project that its own code puts on sys.path."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.program import ParsedFile
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import SourceReadError, read_source
from gpu2npu.python.tree.file import parsed_file
from gpu2npu.python.tree.place import Place, argument, function_above
from gpu2npu.python.tree.syntax import dotted_name, last_name, parameters, string_value
from gpu2npu.python.tree.syntax_tree import TreeError

_WORD = b"sys.path"
_ADDS = re.compile(rb"\.path\s*(\.\s*(insert|append|extend)\b|\[|\+?=)")
_UNCHANGED = frozenset(
    {"abspath", "realpath", "normpath", "expanduser", "Path", "str", "resolve", "absolute", "as_posix"}
)
_DEPTH = 8


def search_folders(sources: Mapping[str, bytes]) -> tuple[str, ...]:
    """The folders, relative to the project, that its files put on sys.path, as far as the text says which."""
    found = (_added_folders(path, source) for path, source in sources.items() if _WORD in source)
    return tuple(sorted(frozenset().union(*found)))


@lru_cache(maxsize=2_000)  # called for a project, then for its parts
def _added_folders(path: str, source: bytes) -> frozenset[str]:
    if _ADDS.search(source) is None:
        return frozenset()
    try:
        file = parsed_file(read_source(source, path))
    except (SourceReadError, TreeError):
        return frozenset()
    return frozenset(_Folders(ParsedFile.of(Names(file, Project()))).added())


class _Folders:
    """The folders that one file puts on sys.path."""

    def __init__(self, file: ParsedFile) -> None:
        self.path = file.path
        self.file = file

    def added(self) -> Iterator[str]:
        """Each folder that is known."""
        for kind in (ast.Call, ast.Assign, ast.AugAssign):
            for node in self.file.nodes(kind):
                for value in _added_values(node):
                    yield from (folder for given in self._given(value) for folder in self._folders(given))

    def _given(self, value: ast.expr) -> Iterator[ast.expr]:
        """Yield what calls in the file give for a parameter of a function, `add_path(lib)`; any other value itself."""
        function = function_above(self.file, value)
        names = [each.arg for each in parameters(function)] if function is not None else []
        if not isinstance(value, ast.Name) or function is None or value.id not in names:
            yield value
            return
        for call in self.file.nodes(ast.Call):
            if last_name(call.func) == function.name:
                given = argument(Place(self.file, call), Place(self.file, function), value.id)
                if given is not None and isinstance(given.node, ast.expr):
                    yield given.node

    def _folders(self, value: ast.expr) -> Iterator[str]:
        """A folder relative to the project, and relative to the file, whichever it is started in."""
        text = self._text(value, _DEPTH)
        if text is not None and not text.startswith("/"):
            for above in ("", posixpath.dirname(self.path)):
                folder = posixpath.normpath(posixpath.join(above, text))
                if folder != "." and not folder.startswith(".."):
                    yield folder

    def _text(self, value: ast.expr, depth: int) -> str | None:
        if depth == 0:
            return None
        if isinstance(value, ast.Name):
            if value.id == "__file__":
                return self.path
            one = self.file.scope_of(value).only_value(value.id)
            return self._text(one, depth - 1) if one is not None else None
        if isinstance(value, ast.Call):
            return self._of_call(value, depth - 1)
        if isinstance(value, ast.Attribute) and value.attr == "parent":
            return self._above(value.value, 1, depth - 1)
        if isinstance(value, ast.Subscript):  # Path(__file__).parents[1]
            index = value.slice.value if isinstance(value.slice, ast.Constant) else None
            owner = value.value
            if isinstance(owner, ast.Attribute) and owner.attr == "parents" and isinstance(index, int):
                return self._above(owner.value, index + 1, depth - 1)
            return None
        if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Div)):
            left, right = self._text(value.left, depth - 1), self._text(value.right, depth - 1)
            between = "/" if isinstance(value.op, ast.Div) else ""
            return None if left is None or right is None else f"{left or '.'}{between}{right}"
        return string_value(value)

    def _above(self, value: ast.expr, levels: int, depth: int) -> str | None:
        text = self._text(value, depth)
        return None if text is None else posixpath.normpath(posixpath.join(text, *[".."] * levels))

    def _of_call(self, call: ast.Call, depth: int) -> str | None:
        name = last_name(call.func)
        if name in _UNCHANGED:
            owner = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
            return self._text(owner, depth) if owner is not None else None
        if name == "dirname" and len(call.args) == 1:
            return self._above(call.args[0], 1, depth)
        if name == "getcwd" or (name == "cwd" and not call.args):
            return "."
        if name in {"join", "joinpath"} and isinstance(call.func, (ast.Attribute, ast.Name)):
            parts = list(call.args)
            if name == "joinpath" and isinstance(call.func, ast.Attribute):
                parts.insert(0, call.func.value)
            texts = [self._text(part, depth) for part in parts]
            known = [text for text in texts if text is not None]
            return posixpath.join(*known) if known and len(known) == len(texts) else None
        return None


def _added_values(node: ast.AST) -> Iterable[ast.expr]:
    """Return what a node puts on sys.path."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if dotted_name(node.func.value) != "sys.path":
            return ()
        if node.func.attr == "insert":
            return node.args[1:2]
        if node.func.attr == "extend":
            return _listed(node.args[0]) if node.args else ()
        return node.args[:1] if node.func.attr == "append" else ()
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        owners = [target.value if isinstance(target, ast.Subscript) else target for target in targets]
        return _listed(node.value) if any(dotted_name(owner) == "sys.path" for owner in owners) else ()
    return ()


def _listed(value: ast.expr) -> Iterable[ast.expr]:
    """The parts of `[a, b] + sys.path`."""
    if isinstance(value, ast.BinOp):
        return (*_listed(value.left), *_listed(value.right))
    return value.elts if isinstance(value, (ast.List, ast.Tuple)) else ()
