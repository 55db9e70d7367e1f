"""The names that from-imports bind in a file: which of them are called otherwise once their import is changed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from gpu2npu.engine.imports import Renamed, is_public, leaf, may_rename_local, parent
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.scopes import Imported, Scope
from gpu2npu.python.tree.syntax import imported_names


class LocalNames:
    """Decides before the rules are matched which imported names get a new local name, since uses may come first, and
    counts the uses that have the new meaning and those that must keep the old one.

    `target` gives where a qualified name moves, None when it stays.
    """

    def __init__(self, names: Names, target: Callable[[str], str | None], may_rename: bool) -> None:
        self.names = names
        self.renamed: dict[tuple[Scope | None, str], str] = {}
        self.moved: set[tuple[Scope | None, str]] = set()
        self.retained: set[tuple[Scope | None, str]] = set()
        if may_rename:  # not where comments keep some lines as they are, which may use the old name
            self._plan(target)

    def _plan(self, target: Callable[[str], str | None]) -> None:
        for statement, scope in self.names.file.imports:
            if not isinstance(statement, ast.ImportFrom):
                continue
            for alias in statement.names:
                name = alias.asname or alias.name
                bindings = scope.owner(name).bindings.get(name, ())
                binding = bindings[0] if bindings else None
                if not isinstance(binding, Imported) or binding.statement is not statement:
                    continue
                new = target(binding.qualified)
                if new is None or leaf(new) == name or self._stays_whole(statement, target):
                    continue
                owner = scope.owner(name)
                is_free = may_rename_local(binding, leaf(new), owner, self.names.file)
                if is_free and not is_public(self.names, name, scope):
                    self.renamed[owner, name] = leaf(new)

    def _stays_whole(self, statement: ast.ImportFrom, target: Callable[[str], str | None]) -> bool:
        """Return whether the statement would have to be split, and is not because of a comment in it."""
        if "#" not in self.names.file.code(statement):
            return False
        return len({parent(target(name) or name) for _, name in imported_names(statement)}) > 1

    def new_name(self, name: str, scope: Scope) -> str | None:
        """The name's new spelling where it is used in `scope`; None when as before."""
        return self.renamed.get(self._key(name, scope))

    def use(self, name: str, scope: Scope, moved: bool) -> None:
        """Count a use of the name in `scope` that has the new meaning, or keeps the old one."""
        (self.moved if moved else self.retained).add(self._key(name, scope))

    def followed(self, node: ast.ImportFrom, imported: Sequence[Renamed], scope: Scope) -> list[Renamed]:
        """Return what becomes of the names that a statement imports, once all uses are known."""
        followed = [item for one in imported for item in self._followed(one, scope)]
        homes = {parent(item.new or item.old) for item in followed}
        return list(imported) if len(homes) > 1 and "#" in self.names.file.code(node) else followed

    def _followed(self, item: Renamed, scope: Scope) -> list[Renamed]:
        """The imported name itself where all uses keep it, with the new one beside it where some do."""
        name = item.alias.asname or item.alias.name
        key = self._key(name, scope)
        stays = Renamed(item.alias, item.old, None)
        if item.new is None or key not in self.retained:
            return [item]
        if key not in self.moved and not is_public(self.names, name, scope):
            return [stays]
        return [stays, item] if key in self.renamed else [item]

    def keeps(self, item: Renamed, scope: Scope) -> bool:
        """Return whether an imported name needs an `as` to stay what the file, or another one, calls it."""
        if item.new is None or item.alias.asname is not None or leaf(item.new) == leaf(item.old):
            return False
        return self._key(leaf(item.old), scope) not in self.renamed

    def _key(self, name: str, scope: Scope) -> tuple[Scope | None, str]:
        found = scope.lookup(name)
        return (found[0] if found is not None else None), name
