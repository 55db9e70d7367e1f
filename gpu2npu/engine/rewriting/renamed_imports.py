"""Import statements under rules for names: what is imported by the new name, or from another module."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpu2npu.engine.imports import Renamed, leaf, parent, split_from_import
from gpu2npu.engine.rewriting.local_names import LocalNames
from gpu2npu.engine.rewriting.targets import Targets
from gpu2npu.python.text.tokens import alias_name, from_module
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import import_module, imported_names
from gpu2npu.records import FindingKind, Found
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
                self.matches.report(Found(whole, rule.id, FindingKind.REVIEW, module, message))
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
