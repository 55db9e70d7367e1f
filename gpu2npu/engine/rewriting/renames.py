"""Rules about qualified names: what they do to references and to import statements."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpu2npu.engine.context import ProjectContext
from gpu2npu.engine.imports import Renamed, import_of, leaf, parent, split_from_import
from gpu2npu.engine.matches import ImportSite, Matches
from gpu2npu.engine.rewriting import name_uses
from gpu2npu.engine.rewriting.local_names import LocalNames
from gpu2npu.engine.strings.prose import BY_STRING
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.tokens import alias_name, from_module, name_bounds
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import (
    Import,
    chain,
    dotted_name,
    import_module,
    imported_names,
    last_name,
    local_name,
    string_value,
)
from gpu2npu.records import Bounds, Edit, FindingKind, Found, Severity
from gpu2npu.rulebook.rule import Rule
from gpu2npu.support.release_tables import has_cuda_name, has_npu_name, npu_name_from, table_for
from gpu2npu.support.releases import since_when


class Renames:
    """Applies name rules in one file."""

    def __init__(
        self, names: Names, context: ProjectContext, table: RuleTable, matches: Matches, may_rename: bool
    ) -> None:
        self.names = names
        self.file = names.file
        self.table = table
        self.matches = matches
        self.release = table_for(context.version)
        self.tested: set[str] = set()  # classes of torch.nn that some place only asks for
        self.imported: list[tuple[Rule, ast.alias, str]] = []  # whose uses are reported
        self.from_imports: list[tuple[ast.ImportFrom, list[Renamed], Scope]] = []
        self.interesting = self._interesting_names()
        self.locals = LocalNames(names, self.target_of, may_rename)
        self.anchors = matches.anchors
        self.anchors.add("torch")

    def _interesting_names(self) -> frozenset[str]:
        """Identifiers that a matching reference must contain: rule leaves, and local names that stand for them."""
        interesting = set(self.table.leaves)
        for _ in range(2):  # an alias of an alias
            for scope in self.file.scopes.values():
                for name, bindings in scope.bindings.items():
                    if name in self.names.leading and any(name_uses.stands_for(each, interesting) for each in bindings):
                        interesting.add(name)
        return frozenset(interesting)

    def target_of(self, qualified: str) -> str | None:
        """Return what a rule renames a qualified name to; None if none does or the release lacks the new name."""
        matched = self.table.rule_for(qualified)
        if matched is None or matched[0].then.keep or matched[0].then.rename is None:
            return None
        target = matched[0].then.rename + qualified[len(matched[1]) :]
        return None if self.is_missing(matched[0], target) else target

    def is_missing(self, rule: Rule, target: str) -> bool:
        """Return whether a rule needs its target to exist in this release, and it does not."""
        return rule.then.needs_target and not has_npu_name(self.release, target)

    def why(self, rule: Rule, *targets: str) -> str:
        """The reason of a rule, with the post release of torch_npu from which on its targets are there, where an older
        one of the same PyTorch lacks them."""
        known = [target for target in targets if target.startswith(("torch.npu.", "torch_npu.npu."))]
        since = [(target, npu_name_from(target, self.release.version)) for target in known]
        notes = [f"{target} is there from torch_npu {first} on." for target, first in since if first]
        return " ".join((rule.why, *notes))

    # References

    def reference(self, node: ast.expr, scope: Scope) -> None:
        """Apply the rule for a name or a dotted expression."""
        interesting, is_interesting = self.interesting, False
        root: ast.AST = node
        while isinstance(root, ast.Attribute):
            is_interesting = is_interesting or root.attr in interesting
            root = root.value
        if not isinstance(root, ast.Name) or not (is_interesting or root.id in interesting):
            return
        qualified = self.names.qualified(node, scope)
        if qualified is None:
            return
        if qualified.startswith("torch."):
            self.anchors.add(root.id)
        matched = self.table.rule_for(qualified)
        if matched is not None:
            moved = self.apply_name(*matched, qualified, chain(node), scope)
            if moved is not None:
                self.locals.use(root.id, scope, moved)

    def apply_name(
        self, rule: Rule, prefix: str, qualified: str, parts: Sequence[ast.expr], scope: Scope
    ) -> bool | None:
        """Apply a rule to the expression whose nodes, from its first name on, are `parts`; gives whether that name has
        a new meaning now, and None when it is gone."""
        then = rule.then
        if then.keep:
            return False
        root, whole = parts[0], self.file.bounds(parts[-1])
        assert isinstance(root, ast.Name)
        if then.rename is None and prefix.startswith("torch.nn.") and self._is_tested(parts[-1]):
            self.tested.add(qualified)
            return False
        if len(parts) > 1 or not name_uses.is_alias(root.id, scope):
            self.matches.note(rule, whole, qualified)
        if then.rename is None:
            return False
        index = len(parts) - 1 - qualified[len(prefix) :].count(".")
        target = then.rename + qualified[len(prefix) :]
        if self.is_missing(rule, target):
            self.report_missing(rule, whole, qualified, target)
            return False
        if index == 0:
            self._rename_root(rule, root, prefix, qualified, target, whole, scope)
        elif index > 0 and self.names.qualified(parts[index - 1], scope) == parent(prefix):
            return self._rename_member(rule, prefix, target, parts, index, scope)
        return True

    def _rename_root(
        self, rule: Rule, root: ast.Name, prefix: str, qualified: str, target: str, whole: Bounds, scope: Scope
    ) -> None:
        local = self.locals.new_name(root.id, scope)
        if local is not None:
            self.edit(self.file.bounds(root), local, rule, whole, target)
        elif scope.lookup(root.id) is None and parent(prefix) in self.file.stars and not self.target_of(parent(prefix)):
            module = rule.then.imports or parent(target) or target
            message = f"{root.id} comes from a star import, where the NPU's is not: import {module}, write {target}."
            self.matches.found.append(Found(whole, rule.id, FindingKind.REVIEW, qualified, message))

    def _rename_member(
        self, rule: Rule, prefix: str, target: str, parts: Sequence[ast.expr], index: int, scope: Scope
    ) -> bool | None:
        node, whole = parts[index], self.file.bounds(parts[-1])
        rename = rule.then.rename or ""
        assert isinstance(node, ast.Attribute)
        owner_rule = self.table.rule_for(parent(prefix))
        if parent(rename) == parent(prefix):
            self.edit(name_bounds(self.file, node), leaf(rename), rule, whole, target)
        elif owner_rule is not None and parent(rename) == self.target_of(parent(prefix)):
            if leaf(rename) != leaf(prefix):
                self.edit(name_bounds(self.file, node), leaf(rename), rule, whole, target)
            return self.apply_name(*owner_rule, parent(prefix), parts[:index], scope)
        else:
            return False if self.respell(node, rename, rule, parts[:index], scope) else None
        return False

    def respell(self, node: ast.Attribute, name: str, rule: Rule, owners: Sequence[ast.expr], scope: Scope) -> str:
        """Write a name that lives elsewhere, through what the file has imported already where that leads to it; gives
        the name of that."""
        text, known = name, ""
        for owner in owners:
            qualified = self.names.qualified(owner, scope) or ""
            if name.startswith(f"{qualified}."):
                text, known = f"{dotted_name(owner)}{name[len(qualified) :]}", qualified
        needs: tuple[str, ...] = ()
        if rule.then.imports is None and parent(name) != known:
            needs = (parent(name),)
        elif not known and not self.names.binds(package := name.partition(".")[0], scope):
            needs = (import_of(package, rule.then.imports),)
        self.matches.edits.append(Edit(self.file.bounds(node), text, rule.id, self.why(rule, name), needs=needs))
        self.anchors.add(dotted_name(owners[0]) or "")
        return known

    def by_string(self, node: ast.Call, scope: Scope) -> bool:
        """Apply the rule for `getattr(torch, "cuda")`, and hasattr, setattr and delattr likewise; gives whether one
        knows the name."""
        if not (isinstance(node.func, ast.Name) and node.func.id in BY_STRING and len(node.args) > 1):
            return False
        attribute = string_value(node.args[1])
        text = StringText.of(self.file, node.args[1]) if attribute is not None else None
        owner = self.names.qualified(node.args[0], scope) if text is not None else None
        if owner is None or text is None:
            return False
        qualified = f"{owner}.{attribute}"
        matched = self.table.rule_for(qualified)
        if matched is None or matched[0].then.keep:
            return False
        rule, prefix = matched
        self.matches.note(rule, text.place, qualified)
        target = (rule.then.rename or prefix) + qualified[len(prefix) :]
        if rule.then.rename is None or target == qualified:
            return True
        if self.is_missing(rule, target):
            if not name_uses.has_answer(node):
                self.report_missing(rule, text.place, qualified, target)
        elif parent(target) in (owner, self.target_of(owner)):  # a rule of its own may rename the owner
            if leaf(target) != attribute:
                self.matches.edits.append(Edit(text.place, text.quoted(leaf(target)), rule.id, self.why(rule, target)))
        else:
            message = f"{rule.why} Write {target}, whose owner is another: change it by hand."
            self.matches.found.append(Found(text.place, rule.id, FindingKind.REVIEW, qualified, message))
        return True

    def report_missing(self, rule: Rule, place: Bounds, qualified: str, target: str) -> None:
        """Report a name whose target the release lacks."""
        release = self.release.wheel.split("-")[1]
        if has_cuda_name(qualified):
            known = since_when(target, self.release.version)
            later = known or f"torch_npu {release} has no {target}: "
            kind, message = FindingKind.UNSUPPORTED, f"{later}left as it is."
            severity = Severity.CHANGE if known else Severity.BLOCKER
        else:
            kind, severity = FindingKind.UNKNOWN, Severity.NOTE
            message = f"Neither PyTorch's documented API nor torch_npu {release} has this name; left as it is."
        self.matches.found.append(Found(place, rule.id, kind, qualified, message, severity))

    def edit(self, place: Bounds, text: str, rule: Rule, shown: Bounds | None = None, *targets: str) -> None:
        """Replace the text at a place, which then means the `targets`."""
        self.matches.edits.append(Edit(place, text, rule.id, self.why(rule, *targets), shown))

    def _is_tested(self, node: ast.AST) -> bool:
        """Return whether a class is asked for and not used.

        That is in a type, in a comparison, or in `isinstance(x, (nn.DataParallel, ...))`. PyTorch has the class, and
        nothing on the NPU is one.
        """
        below = node
        for above in self.file.above(node):
            if isinstance(above, ast.Call):
                return last_name(above.func) in ("isinstance", "issubclass") and below in above.args[1:]
            if isinstance(above, ast.Compare) or name_uses.is_annotation(above, below):
                return True
            if not isinstance(above, name_uses.OF_TYPES):
                return False
            below = above
        return False

    # Import statements

    def import_(self, node: ast.Import, scope: Scope) -> None:
        """Apply the rules for the modules of a plain import."""
        edited = False
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
            if self.is_missing(rule, new):
                self.report_missing(rule, self.file.bounds(alias), old, new)
            elif alias.asname is None and "." not in prefix:  # all uses begin with the package's name
                package = f"{rule.then.rename} as {prefix}"
                text = package if old == prefix else f"{new}, {package}"
                self.edit(alias_name(self.file, alias), text, rule, whole, new)
                edited = True
            elif alias.asname is not None or new.partition(".")[0] == old.partition(".")[0]:
                self.edit(alias_name(self.file, alias), new, rule, whole, new)
                edited = True
        self.site(node, scope, edited)

    def import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        """Apply the rules for what a from-import imports; what it binds is rewritten once all uses are known."""
        module = import_module(node)
        if node.names[0].name == "*":
            matched = self.table.rule_for(module)
            edited = matched is not None and self.target_of(module) is not None and not matched[0].then.keep
            if matched is not None and edited:
                self.edit(
                    from_module(self.file, node), self.target_of(module) or "", matched[0], self.file.bounds(node)
                )
            self.site(node, scope, edited)
            return
        followed = [] if node.level else [self._imported(alias, old) for alias, old in imported_names(node)]
        if any(item.new is not None for item in followed):
            self.from_imports.append((node, followed, scope))
        else:
            self.site(node, scope, False)

    def _imported(self, alias: ast.alias, old: str) -> Renamed:
        matched = self.table.rule_for(old)
        if matched is None or matched[0].then.keep:
            return Renamed(alias, old, None)
        rule, prefix = matched
        if rule.then.trait is not None:
            self.matches.traits.add(rule.then.trait)
        if rule.then.rename is None:
            if rule.then.report is not None:
                self.imported.append((rule, alias, old))
            return Renamed(alias, old, None)
        new = rule.then.rename + old[len(prefix) :]
        if self.is_missing(rule, new):
            self.report_missing(rule, self.file.bounds(alias), old, new)
            return Renamed(alias, old, None)
        return Renamed(alias, old, new)

    def unused_imports(self) -> None:
        """Report what is imported and not used here: another file may take it from this one, or it may not exist."""
        reported = [f"{api}." for api in (*(found.api for found in self.matches.found), *self.tested)]
        for rule, alias, qualified in self.imported:
            if not any(api.startswith(f"{qualified}.") for api in reported):
                self.matches.note(rule, self.file.bounds(alias), qualified)

    def finish_imports(self) -> None:
        """Rewrite the from-imports, now that all uses of what they bind are known."""
        for node, imported, scope in self.from_imports:
            followed = self.locals.followed(node, imported, scope)
            edited = any(item.new is not None for item in followed)
            if edited:
                self.rewrite_from(node, import_module(node), followed, scope)
            self.site(node, scope, edited)

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
                self.matches.found.append(Found(whole, rule.id, FindingKind.REVIEW, module, message))
                return
            text = split_from_import(module, followed, keep)
            self.edit(whole, text.replace("\n", self._separator(node)), rule, None, *targets)
            return
        home = homes.pop()
        both = {item.alias for item in followed if item.new is None}
        if home != module:
            self.edit(from_module(self.file, node), home, rule, whole, *targets)
        for item in followed:
            if item.new is not None and leaf(item.new) != leaf(item.old):
                prefix = f"{leaf(item.old)}, " if item.alias in both else ""
                suffix = f" as {leaf(item.old)}" if keep[item.alias] else ""
                self.edit(alias_name(self.file, item.alias), prefix + leaf(item.new) + suffix, rule, whole, item.new)

    def _separator(self, node: ast.stmt) -> str:
        """Return the text that separates a statement from one that is put behind it."""
        start = self.file.bounds(node)[0]
        indentation = self.file.indentation(start)
        if self.file.line_before(start) != indentation:  # if x: from a import b
            return "; "
        return self.file.newline + indentation

    def site(self, node: Import, scope: Scope, edited: bool) -> None:
        """Remember a statement that may bring torch into the file."""
        if isinstance(node, ast.Import):
            names = frozenset(alias.name.partition(".")[0] for alias in node.names)
            names |= {alias.asname or "" for alias in node.names}
            plain = any(alias.name == "torch" for alias in node.names)
        else:
            names = frozenset(local_name(alias, node) for alias in node.names if alias.name != "*")
            names |= {import_module(node).partition(".")[0]}
            plain = False
        conditions = (each.test for each in self.file.above(node) if isinstance(each, ast.If))
        for_types = any(map(name_uses.is_type_checking, conditions))
        self.matches.sites.append(ImportSite(node, scope, names, plain, edited, for_types))
