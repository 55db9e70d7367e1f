"""Changes to modules of other packages that are made once a program imports them, so that no other program waits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_changes: dict[str, Callable[[Any], None]] = {}


def when_imported(name: str, change: Callable[[Any], None]) -> None:
    """Call `change` with the module `name` once it has run, which may be now."""
    if name in sys.modules:
        change(sys.modules[name])
        return
    if not _changes:
        sys.meta_path.insert(0, _Finder())
    _changes[name] = change


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module that is changed once it has run."""
        change = _changes.get(name)
        spec = PathFinder.find_spec(name, path, target) if change is not None else None
        if change is not None and spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
