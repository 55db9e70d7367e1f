"""Asking jedi what an object is: the last resort, for a receiver whose meaning lies in another file."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

from gpu2npu.engine.context import EVERY_FILE
from gpu2npu.engine.names import Names
from gpu2npu.engine.receivers import UNKNOWN, Receivers
from gpu2npu.engine.scopes import Defined

# jedi puts another list in the place of sys.path while it imports; two threads that do leave the wrong one behind.
_ONE_AT_A_TIME = threading.RLock()


def infer_kinds(names: Names, text: str, line: int, column: int, called: bool, member: str) -> frozenset[str]:
    """The kinds of the object whose last name ends at (line, column), as `Receivers` tells them.

    Lines count from 1, columns from 0. `called` says that the object is what calling that name gives. Only the
    project's own files are looked at, and nothing is imported or run.
    """
    root = names.context.root
    if root is None:
        return frozenset({UNKNOWN})
    names.context.consult(names.path, EVERY_FILE)
    with _ONE_AT_A_TIME:
        return _inferred(names, root, text, line, column, called, member)


def _inferred(names: Names, root: Path, text: str, line: int, column: int, called: bool, member: str) -> frozenset[str]:
    import jedi
    from jedi.api.environment import InterpreterEnvironment

    class Sandbox(InterpreterEnvironment):  # type: ignore[misc]  # jedi has no types
        """jedi imports compiled modules it finds on this path to look into them: there is none."""

        def get_sys_path(self) -> list[str]:
            return []

    project = jedi.Project(root, sys_path=[str(root), str((root / names.path).parent)], smart_sys_path=False)
    script = jedi.Script(text, path=root / names.path, project=project, environment=Sandbox())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the compiled modules it does not find
            found = script.infer(line, column)
            objects = [result for name in found for result in (name.execute() if called else [name])]
    except Exception:  # jedi raises what its parser, its caches and its inference raise; an answer is optional
        return frozenset({UNKNOWN})
    kinds: set[str] = set()
    for found_object in objects:
        kinds |= _class_kinds(names, root, found_object, member)
    return frozenset(kinds) or frozenset({UNKNOWN})


def _class_kinds(names: Names, root: Path, found: Any, member: str) -> frozenset[str]:
    path = found.module_path
    if path is None or not Path(path).is_relative_to(root):
        return frozenset({UNKNOWN})
    home = names.by_path(Path(path).relative_to(root).as_posix())
    for binding in home.scopes.module.bindings.get(found.name, ()) if home is not None else ():
        if home is not None and isinstance(binding, Defined) and binding.scope.kind == "class":
            return Receivers(home).class_kind(home, binding.scope, member)
    return frozenset({UNKNOWN})
