"""Rules about qualified names: what they do to references and to import statements."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gpu2npu.engine.edits import Edit
from gpu2npu.engine.imports import (
    ImportSite,
    Renamed,
    has_comment,
    import_of,
    leaf,
    parent,
    split_from_import,
)
from gpu2npu.engine.local_names import LocalNames
from gpu2npu.engine.matches import Found, Matches
from gpu2npu.engine.names import Names
from gpu2npu.engine.scopes import Assigned, Imported, Scope, import_module
from gpu2npu.engine.table import RuleTable
from gpu2npu.engine.tree import dotted_name, last_name, string_value
from gpu2npu.records import FindingKind
from gpu2npu.rulebook.rule import Rule
from gpu2npu.support.tables import has_cuda_name, has_npu_name, table_for


class Renames:
    """Applies name rules in one module. `above` is the walk's own list of the nodes above the current one."""

    def __init__(
        self, names: Names, table: RuleTable, matches: Matches, above: list[cst.CSTNode], may_rename: bool
    ) -> None:
        self.names = names
        self.table = table
        self.matches = matches
        self.above = above
        self.release = table_for(names.context.version)
        self.anchors = {"torch"}  # local names beside whose import a further import belongs
        self.tested: set[str] = set()  # classes of torch.nn that some place only asks for
        self.imported: list[tuple[Rule, cst.ImportAlias, str, list[cst.CSTNode]]] = []  # whose uses are reported
        self.from_imports: list[tuple[cst.ImportFrom, list[Renamed], Scope, list[cst.CSTNode]]] = []
        self.interesting = self._interesting_names()
        self.locals = LocalNames(names, self._target, may_rename)

    def _interesting_names(self) -> frozenset[str]:
        """Identifiers that a matching reference must contain: rule leaves, and local names that stand for them."""
        interesting = set(self.table.leaves)
        for _ in range(2):  # an alias of an alias
            for scope in self._scopes():
                for name, bindings in scope.bindings.items():
                    if any(self._stands_for(binding, interesting) for binding in bindings):
                        interesting.add(name)
        return frozenset(interesting)

    def _stands_for(self, binding: object, interesting: set[str]) -> bool:
        if isinstance(binding, Imported):
            return not interesting.isdisjoint(binding.qualified.split("."))
        if isinstance(binding, Assigned) and binding.value is not None:
            dotted = dotted_name(binding.value)
            return dotted is not None and not interesting.isdisjoint(dotted.split("."))
        return False

    def _scopes(self) -> Iterator[Scope]:
        return iter(self.names.scopes.by_node.values())

    def _target(self, qualified: str) -> str | None:
        """Where a rename rule moves a qualified name; None when none does or the release lacks the new name."""
        matched = self.table.rule_for(qualified)
        if matched is None or matched[0].then.keep or matched[0].then.rename is None:
            return None
        target = matched[0].then.rename + qualified[len(matched[1]) :]
        return None if self.is_missing(matched[0], target) else target

    def is_missing(self, rule: Rule, target: str) -> bool:
        return rule.then.needs_target and not has_npu_name(self.release, target)

    def reference(self, node: cst.Name | cst.Attribute, scope: Scope) -> None:
        chain: list[cst.BaseExpression] = []
        part: cst.BaseExpression = node
        relevant = False
        while isinstance(part, cst.Attribute):
            chain.append(part)
            relevant = relevant or part.attr.value in self.interesting
            part = part.value
        if not isinstance(part, cst.Name):
            return
        if not relevant and part.value not in self.interesting:
            return
        chain.append(part)
        chain.reverse()
        qualified = self.names.qualified(node, scope)
        if qualified is not None and qualified.startswith("torch."):
            self.anchors.add(part.value)
        matched = self.table.rule_for(qualified) if qualified is not None else None
        if qualified is not None and matched is not None:
            moved = self.apply_name(*matched, qualified, chain, scope)
            if moved is not None:
                self.locals.use(part.value, scope, moved)

    def apply_name(
        self, rule: Rule, prefix: str, qualified: str, chain: list[cst.BaseExpression], scope: Scope
    ) -> bool | None:
        """Apply a rule to the expression whose nodes, from its first name on, are `chain`; tells whether that name has
        a new meaning now, and None when it is gone."""
        then = rule.then
        if then.keep:
            return False
        root = chain[0]
        assert isinstance(root, cst.Name)
        if then.rename is None and prefix.startswith("torch.nn.") and _is_tested(self.above):
            self.tested.add(qualified)
            return False
        if len(chain) > 1 or not self._is_alias(root.value, scope):
            self.matches.note(rule, chain[-1], qualified, self.above)
        if then.rename is None:
            return False
        index = len(chain) - 1 - qualified[len(prefix) :].count(".")
        target = then.rename + qualified[len(prefix) :]
        missing = self.is_missing(rule, target)
        if missing:
            self.report_missing(rule, chain[-1], qualified, target)
            return False
        if index == 0:
            local = self.locals.new_name(root.value, scope)
            if local is not None:
                self.edit(root, local, rule, chain[-1])
            elif (
                scope.lookup(root.value) is None
                and parent(prefix) in self.names.scopes.star_imports
                and not self._target(parent(prefix))
            ):
                module = rule.then.imports or parent(target) or target
                message = (
                    f"{root.value} comes from a star import, where the NPU's is not: import {module}, write {target}."
                )
                self.matches.add(Found(chain[-1], rule.id, FindingKind.REVIEW, qualified, message), self.above)
        elif index > 0 and self.names.qualified(chain[index - 1], scope) == parent(prefix):
            node = chain[index]
            assert isinstance(node, cst.Attribute)
            owner_rule = self.table.rule_for(parent(prefix))
            if parent(then.rename) == parent(prefix):
                self.edit(node.attr, leaf(then.rename), rule, chain[-1])
            elif owner_rule is not None and parent(then.rename) == self._target(parent(prefix)):
                if leaf(then.rename) != leaf(prefix):
                    self.edit(node.attr, leaf(then.rename), rule, chain[-1])
                return self.apply_name(*owner_rule, parent(prefix), chain[:index], scope)
            else:
                return False if self.respell(node, then.rename, rule, chain[:index], scope) else None
            return False
        return True

    def _is_alias(self, name: str, scope: Scope) -> bool:
        """Whether a name is bound by an assignment: what it stands for was judged there."""
        found = scope.lookup(name)
        return found is not None and all(isinstance(binding, Assigned) for binding in found[1])

    def respell(
        self, node: cst.Attribute, name: str, rule: Rule, owners: list[cst.BaseExpression], scope: Scope
    ) -> str:
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
        self.matches.add(Edit(node, text, rule.id, rule.why, needs=needs), self.above)
        self.anchors.add(dotted_name(owners[0]) or "")
        return known

    def by_string(self, node: cst.Call, scope: Scope) -> bool:
        """`getattr(torch, "cuda")`, and hasattr, setattr and delattr likewise; tells whether a rule knows the name."""
        if not (isinstance(node.func, cst.Name) and node.func.value in _BY_STRING and len(node.args) > 1):
            return False
        name = node.args[1].value
        attribute = string_value(name)
        owner = self.names.qualified(node.args[0].value, scope)
        if attribute is None or owner is None or not isinstance(name, cst.SimpleString):
            return False
        qualified = f"{owner}.{attribute}"
        matched = self.table.rule_for(qualified)
        if matched is None or matched[0].then.keep:
            return False
        rule, prefix = matched
        above = [*self.above, *node.args]
        self.matches.note(rule, name, qualified, above)
        target = (rule.then.rename or prefix) + qualified[len(prefix) :]
        if rule.then.rename is None or target == qualified:
            return True
        if self.is_missing(rule, target):
            if not _is_asked(node):
                self.report_missing(rule, name, qualified, target)
        elif parent(target) in (owner, self._target(owner)):  # a rule of its own may rename the owner
            if leaf(target) != attribute:
                text = f"{name.prefix}{name.quote}{leaf(target)}{name.quote}"
                self.matches.add(Edit(name, text, rule.id, rule.why), above)
        else:
            message = f"{rule.why} Write {target}, whose owner is another: change it by hand."
            self.matches.add(Found(name, rule.id, FindingKind.REVIEW, qualified, message), above)
        return True

    def quoted(self, node: cst.SimpleString, scope: Scope) -> None:
        """The names in an annotation that is a string: `"torch.cuda.Stream"`."""
        text = node.raw_value
        for dotted in sorted(set(_DOTTED.findall(text)), key=len, reverse=True):
            qualified = self.names.qualified(_expression(dotted), scope)
            matched = self.table.rule_for(qualified) if qualified is not None else None
            if qualified is None or matched is None or matched[0].then.keep:
                continue
            rule, prefix = matched
            self.matches.note(rule, node, qualified, self.above)
            if rule.then.rename is None:
                self.locals.use(dotted.partition(".")[0], scope, moved=False)
                continue
            rest = qualified[len(prefix) :]
            owner = parent(dotted.removesuffix(rest))
            root = dotted.partition(".")[0]
            local = self.locals.new_name(root, scope)
            if self.is_missing(rule, rule.then.rename + rest):
                self.locals.use(root, scope, moved=False)
                self.report_missing(rule, node, qualified, rule.then.rename + rest)
            elif not owner or self.names.qualified(_expression(owner), scope) == parent(rule.then.rename):
                self.locals.use(root, scope, moved=True)
                new = f"{owner}.{leaf(rule.then.rename)}{rest}" if owner else f"{local or root}{rest}"
                if new == dotted:
                    continue
                text = re.sub(rf"(?<![\w.]){re.escape(dotted)}(?![\w.])", new, text)
                self.anchors.add(owner.partition(".")[0])
                self.matches.add(
                    Edit(node, f"{node.prefix}{node.quote}{text}{node.quote}", rule.id, rule.why), self.above
                )

    def report_missing(self, rule: Rule, node: cst.CSTNode, qualified: str, target: str) -> None:
        release = self.release.release
        if has_cuda_name(qualified):
            kind, message = FindingKind.UNSUPPORTED, f"torch_npu {release} has no {target}; left as it is."
        else:
            kind = FindingKind.UNKNOWN
            message = f"Neither PyTorch's documented API nor torch_npu {release} has this name; left as it is."
        self.matches.add(Found(node, rule.id, kind, qualified, message), self.above)

    def edit(self, node: cst.CSTNode, text: str, rule: Rule, shown: cst.CSTNode | None = None) -> None:
        self.matches.add(Edit(node, text, rule.id, rule.why, shown), self.above)

    def import_(self, node: cst.Import, scope: Scope) -> None:
        edited = False
        for alias in node.names:
            old = dotted_name(alias.name) or ""
            matched = self.table.rule_for(old)
            if matched is None or matched[0].then.keep:
                continue
            rule, prefix = matched
            if rule.then.rename is None:
                self.matches.note(rule, node, old, self.above)
                continue
            new = rule.then.rename + old[len(prefix) :]
            if self.is_missing(rule, new):
                self.report_missing(rule, alias, old, new)
            elif alias.asname is None and "." not in prefix:  # all uses begin with the package's name
                package = f"{rule.then.rename} as {prefix}"
                self.edit(alias.name, package if old == prefix else f"{new}, {package}", rule, node)
                edited = True
            elif alias.asname is not None or new.partition(".")[0] == old.partition(".")[0]:
                self.edit(alias.name, new, rule, node)
                edited = True
        self.site(node, scope, edited)

    def import_from(self, node: cst.ImportFrom, scope: Scope) -> None:
        module = import_module(node)
        if isinstance(node.names, cst.ImportStar):
            matched = self.table.rule_for(module)
            edited = matched is not None and self._target(module) is not None and not matched[0].then.keep
            if matched is not None and edited:
                assert node.module is not None
                self.edit(node.module, self._target(module) or "", matched[0], node)
            self.site(node, scope, edited)
            return
        followed = [] if node.relative else [self._imported(alias, module, node) for alias in node.names]
        if any(item.new is not None for item in followed):
            self.from_imports.append((node, followed, scope, list(self.above)))
        else:
            self.site(node, scope, False)

    def _imported(self, alias: cst.ImportAlias, module: str, node: cst.ImportFrom) -> Renamed:
        old = f"{module}.{dotted_name(alias.name)}"
        matched = self.table.rule_for(old)
        if matched is None or matched[0].then.keep:
            return Renamed(alias, old, None)
        rule, prefix = matched
        if rule.then.trait is not None:
            self.matches.traits.add(rule.then.trait)
        if rule.then.rename is None:
            if rule.then.report is not None:
                self.imported.append((rule, alias, old, list(self.above)))
            return Renamed(alias, old, None)
        new = rule.then.rename + old[len(prefix) :]
        if self.is_missing(rule, new):
            self.report_missing(rule, alias, old, new)
            return Renamed(alias, old, None)
        return Renamed(alias, old, new)

    def unused_imports(self) -> None:
        """Report what is imported and not used here: another file may take it from this one, or it may not exist."""
        reported = [f"{api}." for api in (*(found.api for found in self.matches.found), *self.tested)]
        for rule, alias, qualified, above in self.imported:
            if not any(api.startswith(f"{qualified}.") for api in reported):
                self.matches.note(rule, alias, qualified, above)

    def finish_imports(self) -> None:
        """Rewrite the from-imports, now that all uses of what they bind are known."""
        for node, imported, scope, above in self.from_imports:
            self.above[:] = above
            followed = self.locals.followed(node, imported, scope)
            edited = any(item.new is not None for item in followed)
            if edited:
                self.rewrite_from(node, import_module(node), followed, scope)
            self.site(node, scope, edited)
        self.above.clear()

    def rewrite_from(self, node: cst.ImportFrom, module: str, followed: list[Renamed], scope: Scope) -> None:
        rules = [matched[0] for item in followed if item.new and (matched := self.table.rule_for(item.old))]
        rule = next((rule for rule in rules if rule.then.imports is not None), rules[0])
        keep = {id(item.alias): self.locals.keeps(item, scope) for item in followed}
        homes = {parent(item.new) if item.new else module for item in followed}
        assert node.module is not None
        if len(homes) > 1 or "" in homes:  # import lib_npu
            if has_comment(node):
                message = "Some of these names move to another module; split the statement by hand."
                self.matches.add(Found(node, rule.id, FindingKind.REVIEW, module, message), self.above)
                return
            self.edit(node, split_from_import(node, module, followed, keep), rule)
            return
        home = homes.pop()
        both = {id(item.alias) for item in followed if item.new is None}
        if home != module:
            self.edit(node.module, home, rule, node)
        for item in followed:
            if item.new is not None and leaf(item.new) != leaf(item.old):
                prefix = f"{leaf(item.old)}, " if id(item.alias) in both else ""
                suffix = f" as {leaf(item.old)}" if keep[id(item.alias)] else ""
                self.edit(item.alias.name, prefix + leaf(item.new) + suffix, rule, node)

    def site(self, node: cst.Import | cst.ImportFrom, scope: Scope, edited: bool) -> None:
        """Remember a statement that may bring torch into the file."""
        if isinstance(node, cst.Import):
            roots = {(dotted_name(alias.name) or "").partition(".")[0] for alias in node.names}
            names = frozenset(roots | {alias.evaluated_alias or "" for alias in node.names})
            plain = any(dotted_name(alias.name) == "torch" for alias in node.names)
        else:
            root = import_module(node).partition(".")[0]
            aliases = () if isinstance(node.names, cst.ImportStar) else node.names
            names = frozenset(alias.evaluated_alias or alias.evaluated_name for alias in aliases) | {root}
            plain = False
        typing_only = any(isinstance(above, cst.If) and _is_type_checking(above.test) for above in self.above)
        self.matches.add(ImportSite(node, self.above[-1], scope, names, plain, edited, typing_only), self.above)


# Functions whose second argument is a name as a string.
_BY_STRING = frozenset({"getattr", "hasattr", "setattr", "delattr"})
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


def _expression(dotted: str) -> cst.BaseExpression:
    return cst.parse_expression(dotted) if dotted else cst.Name("_")


def _is_asked(node: cst.Call) -> bool:
    """Whether the program has an answer for a name that does not exist: `hasattr`, `getattr` with a default."""
    return isinstance(node.func, cst.Name) and (node.func.value == "hasattr" or len(node.args) > 2)


def _is_tested(above: list[cst.CSTNode]) -> bool:
    """Whether a class below these nodes is asked for and not used: in a type, in a comparison, or in
    `isinstance(x, (nn.DataParallel, ...))`. PyTorch has the class, and nothing on the NPU is one."""
    below: cst.CSTNode | None = None
    for node in reversed(above):
        if isinstance(node, cst.Call):
            return last_name(node.func) in ("isinstance", "issubclass") and below in node.args[1:]
        if isinstance(node, (cst.Annotation, cst.Comparison)):
            return True
        if not isinstance(node, _OF_TYPES):
            return False
        below = node
    return False


# What may stand between a type and the place that asks for it.
_OF_TYPES = (cst.Attribute, cst.Arg, cst.Tuple, cst.List, cst.Element, cst.BinaryOperation, cst.Subscript,
    cst.SubscriptElement, cst.Index, cst.ComparisonTarget)  # fmt: skip


def _is_type_checking(test: cst.CSTNode) -> bool:
    return (dotted_name(test) or "").rpartition(".")[2] == "TYPE_CHECKING"
