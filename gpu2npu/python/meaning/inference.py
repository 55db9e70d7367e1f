"""Asking jedi what an object is: the last resort, for an object whose meaning lies in another file."""

from __future__ import annotations

import ast
import threading
import warnings
from pathlib import Path
from typing import Any

from gpu2npu.garbage import uncollected
from gpu2npu.python.meaning.kinds import Kinds, ObjectKinds
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import UNKNOWN
from gpu2npu.python.project.project import EVERY_FILE
from gpu2npu.python.tree.scopes import Defined

# jedi puts another list in the place of sys.path while it imports; two threads that do leave the wrong one behind.
_ONE_AT_A_TIME = threading.RLock()
_UNKNOWN: Kinds = frozenset({UNKNOWN})


def infer_kinds(names: Names, node: ast.expr, member: str) -> Kinds:
    """The kinds of an object that `member` is looked up on, as `ObjectKinds` gives them. Only the project's own files
    are looked at, and nothing is imported or run."""
    root = names.project.root
    called = isinstance(node, ast.Call)
    named = node.func if isinstance(node, ast.Call) else node
    if root is None or not isinstance(named, (ast.Name, ast.Attribute, ast.Subscript)):
        return _UNKNOWN
    names.project.consult(names.path, EVERY_FILE)
    span = names.file.span(named)
    with _ONE_AT_A_TIME, uncollected():
        return _inferred(names, root, span.end_line, span.end_column, called, member)


def _inferred(names: Names, root: Path, line: int, column: int, called: bool, member: str) -> Kinds:
    import jedi
    from jedi.api.environment import InterpreterEnvironment

    class Sandbox(InterpreterEnvironment):  # type: ignore[misc]  # jedi has no types
        """jedi imports compiled modules it finds on this path to look into them: there is none."""

        def get_sys_path(self) -> list[str]:
            return []

    project = jedi.Project(root, sys_path=[str(root), str((root / names.path).parent)], smart_sys_path=False)
    script = jedi.Script(names.file.text, path=root / names.path, project=project, environment=Sandbox())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the compiled modules it does not find
            found = script.infer(line, column)
            objects = [result for name in found for result in (name.execute() if called else [name])]
    except Exception:  # jedi raises what its parser, its caches and its inference raise; an answer is optional
        return _UNKNOWN
    kinds: set[str] = set()
    for found_object in objects:
        kinds |= _class_kinds(names, root, found_object, member)
    return frozenset(kinds) or _UNKNOWN


def _class_kinds(names: Names, root: Path, found: Any, member: str) -> Kinds:
    path = found.module_path
    if path is None or not Path(path).is_relative_to(root):
        return _UNKNOWN
    home = names.project.names(Path(path).relative_to(root).as_posix())
    for binding in home.file.module.bindings.get(found.name, ()) if home is not None else ():
        if home is not None and isinstance(binding, Defined) and binding.scope.kind == "class":
            return ObjectKinds(home).of_class(binding.scope, member)
    return _UNKNOWN
