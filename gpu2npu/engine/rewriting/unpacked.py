"""The arguments that a call takes from a dictionary, `Trainer(**options)`, where the keys stand in the text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Assigned, Scope
from gpu2npu.python.tree.syntax import string_value


class Pair(NamedTuple):
    """A key of a dictionary: its text, the code that gives it, and its value."""

    name: str
    key: ast.expr
    value: ast.expr


class UnpackedArguments:
    """Finds in one file the keys of the dictionaries that calls unpack."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file

    def of(self, node: ast.Call, scope: Scope) -> list[Pair]:
        """The keys that a call unpacks, with what gives their values."""
        return [pair for keyword in node.keywords if keyword.arg is None for pair in self._pairs(keyword.value, scope)]

    def _pairs(self, mapping: ast.expr, scope: Scope) -> Iterator[Pair]:
        """The keys of a display or a call of `dict`, of each value that a name is bound to, and those that are stored
        under the name."""
        yield from self._given(mapping)
        found = scope.lookup(mapping.id) if isinstance(mapping, ast.Name) else None
        if found is None or not isinstance(mapping, ast.Name):
            return
        for binding in found[1]:
            if isinstance(binding, Assigned) and binding.whole is not None:
                yield from self._given(binding.whole)
        for owner, where in self._stores.get(mapping.id, ()):
            known = where.lookup(mapping.id)
            if known is not None and known[0] is found[0]:
                yield from self._stored(owner)

    def _given(self, whole: ast.expr) -> Iterator[Pair]:
        if isinstance(whole, ast.Dict):
            for key, value in zip(whole.keys, whole.values, strict=True):
                name = string_value(key)
                if key is None:
                    yield from self._given(value)
                elif name is not None:
                    yield Pair(name, key, value)
        elif isinstance(whole, ast.Call) and isinstance(whole.func, ast.Name) and whole.func.id == "dict":
            yield from (Pair(each.arg, each.value, each.value) for each in whole.keywords if each.arg is not None)

    @cached_property
    def _stores(self) -> dict[str, list[tuple[ast.Name, Scope]]]:
        """The names below which something may be stored, as `options` in `options["gpus"] = 2`."""
        found: dict[str, list[tuple[ast.Name, Scope]]] = {}
        for node, scope in self.file.uses:
            part = node
            while isinstance(part, ast.Attribute):
                part = part.value
            if isinstance(part, ast.Name) and isinstance(self.file.parents.get(part), (ast.Subscript, ast.Attribute)):
                found.setdefault(part.id, []).append((part, scope))
        return found

    def _stored(self, owner: ast.Name) -> Iterator[Pair]:
        """The keys that `options["gpus"] = 2`, `options.update(gpus=2)` and `options.setdefault("gpus", 2)` store."""
        above = self.file.parents[owner]
        beyond = self.file.parents[above]
        if isinstance(above, ast.Subscript):
            name = string_value(above.slice)
            if name is not None and isinstance(beyond, ast.Assign) and above in beyond.targets:
                yield Pair(name, above.slice, beyond.value)
        elif isinstance(above, ast.Attribute) and (call := self.file.call_of(above)) is not None:
            if above.attr == "update":
                yield from (Pair(each.arg, each.value, each.value) for each in call.keywords if each.arg is not None)
                yield from (pair for each in call.args for pair in self._given(each))
            elif above.attr == "setdefault" and len(call.args) == 2:
                name = string_value(call.args[0])
                yield from (Pair(name, *call.args),) if name is not None else ()
