"""The names that from-imports bind in a file: which of them are called otherwise once their import is changed."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from gpu2npu.engine.imports import Renamed, has_comment, leaf, may_rename_local, parent
from gpu2npu.engine.names import Names
from gpu2npu.engine.scopes import Imported, Scope, import_module
from gpu2npu.engine.tree import dotted_name


class LocalNames:
    """Decides before the walk which imported names get a new local name, since uses may come first, and counts the
    uses that have the new meaning and those that must keep the old one.

    `target` gives where a qualified name moves, None when it stays.
    """

    def __init__(self, names: Names, target: Callable[[str], str | None], may_rename: bool) -> None:
        self.names = names
        self.target = target
        self.renamed: dict[tuple[int, str], str] = {}
        self.moved: set[tuple[int, str]] = set()
        self.kept: set[tuple[int, str]] = set()
        if may_rename:  # not where comments keep some lines as they are, which may use the old name
            self._plan()

    def _plan(self) -> None:
        for scope in self.names.scopes.by_node.values():
            for name, bindings in scope.bindings.items():
                binding = bindings[0]
                if not isinstance(binding, Imported) or not isinstance(binding.statement, cst.ImportFrom):
                    continue
                target = self.target(binding.qualified)
                if target is None or leaf(target) == name or self._stays_whole(binding.statement):
                    continue
                if may_rename_local(binding, leaf(target), scope, self.names.scopes, self._is_public(name, scope)):
                    self.renamed[id(scope), name] = leaf(target)

    def _stays_whole(self, statement: cst.ImportFrom) -> bool:
        """Whether the statement would have to be split, and is not because of a comment in it."""
        if isinstance(statement.names, cst.ImportStar) or not has_comment(statement):
            return False
        module = import_module(statement)
        old = [f"{module}.{dotted_name(alias.name)}" for alias in statement.names]
        return len({parent(self.target(name) or name) for name in old}) > 1

    def _is_public(self, name: str, scope: Scope) -> bool:
        """Whether another file may take the name from this one."""
        context, path = self.names.context, self.names.path
        stem = path.removesuffix("/__init__.py").removesuffix(".py").rpartition("/")[2]
        taken = not context.taken_names.isdisjoint({name, f"{stem}*"})
        return scope.kind == "module" and (taken or path.endswith("__init__.py"))

    def new_name(self, name: str, scope: Scope) -> str | None:
        """What the name is called from now on where it is used in `scope`; None when as before."""
        return self.renamed.get(self._key(name, scope))

    def use(self, name: str, scope: Scope, moved: bool) -> None:
        """Count a use of the name in `scope` that has the new meaning, or keeps the old one."""
        (self.moved if moved else self.kept).add(self._key(name, scope))

    def followed(self, node: cst.ImportFrom, imported: list[Renamed], scope: Scope) -> list[Renamed]:
        """What becomes of the names that a statement imports, once all uses are known."""
        followed = [item for one in imported for item in self._followed(one, scope)]
        homes = {parent(item.new or item.old) for item in followed}
        return imported if len(homes) > 1 and has_comment(node) else followed

    def _followed(self, item: Renamed, scope: Scope) -> list[Renamed]:
        """The imported name itself where all uses keep it, with the new one beside it where some do."""
        name = item.alias.evaluated_alias or item.alias.evaluated_name
        key = self._key(name, scope)
        stays = Renamed(item.alias, item.old, None)
        if item.new is None or key not in self.kept:
            return [item]
        if key not in self.moved and not self._is_public(name, scope):
            return [stays]
        return [stays, item] if key in self.renamed else [item]

    def keeps(self, item: Renamed, scope: Scope) -> bool:
        """Whether an imported name needs an `as` to stay what the file, or another one, calls it."""
        if item.new is None or item.alias.asname is not None or leaf(item.new) == leaf(item.old):
            return False
        return self._key(leaf(item.old), scope) not in self.renamed

    def _key(self, name: str, scope: Scope) -> tuple[int, str]:
        found = scope.lookup(name)
        return id(found[0]) if found is not None else 0, name
