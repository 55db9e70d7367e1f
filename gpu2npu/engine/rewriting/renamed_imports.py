"""Import statements under rules for names: what is imported by the new name, or from another module."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from gpu2npu.engine.imports import Renamed, is_public, leaf, may_rename_local, parent, split_from_import
from gpu2npu.engine.rewriting.targets import Targets
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.tokens import alias_name, from_module
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Imported, Scope
from gpu2npu.python.tree.syntax import import_module, imported_names
from gpu2npu.rulebook.rule import Rule


class RenamedImports:
    """Applies rules for names to the import statements of one file. What is imported and only reported is in
    `reported`, each with its rule and its qualified name."""

    def __init__(self, file: PythonFile, targets: Targets, local: LocalNames) -> None:
        self.file = file
        self.targets = targets
        self.table, self.matches = targets.table, targets.matches
        self.locals = local
        self.reported: list[tuple[Rule, ast.alias, str]] = []

    def import_(self, node: ast.Import) -> None:
        """Apply the rules for the modules of a plain import."""
        whole = self.file.bounds(node)
        for alias in node.names:
            old = alias.name
            matched = self.table.rule_for(old)
            if matched is None or matched[0].then.keep:
                continue
            rule, prefix = matched
            if rule.then.rename is None:
                self.matches.note(rule, whole, old)
                continue
            new = rule.then.rename + old[len(prefix) :]
            if self.targets.is_missing(rule, new):
                self.targets.report_missing(rule, self.file.bounds(alias), old, new)
            elif alias.asname is None and "." not in prefix:  # all uses begin with the package's name
                package = f"{rule.then.rename} as {prefix}"
                text = package if old == prefix else f"{new}, {package}"
                self.targets.edit(alias_name(self.file, alias), text, rule, whole, new)
                self.matches.edited_imports.add(node)
            elif alias.asname is not None or new.partition(".")[0] == old.partition(".")[0]:
                self.targets.edit(alias_name(self.file, alias), new, rule, whole, new)
                self.matches.edited_imports.add(node)

    def import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        """Apply the rules for what a from-import imports, now that all uses of what it binds are known."""
        module = import_module(node)
        if node.names[0].name == "*":
            matched, new = self.table.rule_for(module), self.targets.of(module)
            if matched is not None and new is not None:
                self.targets.edit(from_module(self.file, node), new, matched[0], self.file.bounds(node))
                self.matches.edited_imports.add(node)
            return
        followed = [] if node.level else [self._imported(alias, old) for alias, old in imported_names(node)]
        followed = self.locals.followed(node, followed, scope) if any(item.new for item in followed) else []
        if any(item.new is not None for item in followed):
            self.matches.edited_imports.add(node)
            self.rewrite_from(node, module, followed, scope)

    def _imported(self, alias: ast.alias, old: str) -> Renamed:
        matched = self.table.rule_for(old)
        if matched is None or matched[0].then.keep:
            return Renamed(alias, old, None)
        rule, prefix = matched
        if rule.then.trait is not None:
            self.matches.traits.add(rule.then.trait)
        if rule.then.rename is None:
            if rule.then.report is not None:
                self.reported.append((rule, alias, old))
            return Renamed(alias, old, None)
        new = rule.then.rename + old[len(prefix) :]
        if self.targets.is_missing(rule, new):
            self.targets.report_missing(rule, self.file.bounds(alias), old, new)
            return Renamed(alias, old, None)
        return Renamed(alias, old, new)

    def rewrite_from(self, node: ast.ImportFrom, module: str, followed: Sequence[Renamed], scope: Scope) -> None:
        """Write a from-import with the new names, or as one statement for each module that they live in now."""
        rules = [matched[0] for item in followed if item.new and (matched := self.table.rule_for(item.old))]
        rule = next((rule for rule in rules if rule.then.imports is not None), rules[0])
        targets = [item.new for item in followed if item.new]
        keep = {item.alias: self.locals.keeps(item, scope) for item in followed}
        homes = {parent(item.new) if item.new else module for item in followed}
        whole = self.file.bounds(node)
        if len(homes) > 1 or "" in homes:  # import lib_npu
            if "#" in self.file.code(node):
                message = "Some of these names move to another module; split the statement by hand."
                self.matches.review(rule, whole, module, message)
                return
            text = split_from_import(module, followed, keep)
            self.targets.edit(whole, text.replace("\n", self._separator(node)), rule, None, *targets)
            return
        home = homes.pop()
        both = {item.alias for item in followed if item.new is None}
        if home != module:
            self.targets.edit(from_module(self.file, node), home, rule, whole, *targets)
        for item in followed:
            if item.new is not None and leaf(item.new) != leaf(item.old):
                prefix = f"{leaf(item.old)}, " if item.alias in both else ""
                suffix = f" as {leaf(item.old)}" if keep[item.alias] else ""
                self.targets.edit(
                    alias_name(self.file, item.alias), prefix + leaf(item.new) + suffix, rule, whole, item.new
                )

    def _separator(self, node: ast.stmt) -> str:
        """Return the text that separates a statement from one that is put behind it."""
        start = self.file.bounds(node)[0]
        indentation = self.file.indentation(start)
        if self.file.line_before(start) != indentation:  # if x: from a import b
            return "; "
        return self.file.newline + indentation


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
