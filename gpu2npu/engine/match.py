"""One walk over a module that asks, at each node that could matter, whether a rule is for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import libcst as cst

from gpu2npu.engine.edits import Edit
from gpu2npu.engine.imports import (
    ImportSite,
    Renamed,
    has_comment,
    leaf,
    may_rename_local,
    parent,
    split_from_import,
)
from gpu2npu.engine.names import Names
from gpu2npu.engine.receivers import ANY_RECEIVER, MODULE, OWN, TENSOR, UNKNOWN, Receivers
from gpu2npu.engine.scopes import Assigned, Imported, Scope, import_module
from gpu2npu.engine.strings import NO, UNSURE, YES, Place, judge
from gpu2npu.engine.table import RuleTable, StringRule
from gpu2npu.engine.tree import children, dotted_name
from gpu2npu.records import FindingKind
from gpu2npu.rulebook.rule import Rule
from gpu2npu.support.tables import has_cuda_name, has_npu_name, table_for

# Objects that hold the user's own command line flags: `args.is_cuda` is not the attribute of a tensor.
_FLAG_HOLDERS = frozenset({"args", "opt", "opts", "options", "flags", "FLAGS", "cfg", "config", "conf", "hparams"})


@dataclass(frozen=True)
class Found:
    """A finding at a node, before its position is known."""

    node: cst.CSTNode
    rule: str
    kind: FindingKind
    api: str
    message: str


@dataclass(frozen=True)
class Doubt:
    """A method edit that depends on what `receiver` is, which only inference across files can tell."""

    receiver: cst.CSTNode
    member: str
    edit: Edit


@dataclass
class Matches:
    """What a walk found in one module."""

    edits: list[Edit] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    sites: list[ImportSite] = field(default_factory=list)
    traits: set[str] = field(default_factory=set)


def find_matches(module: cst.Module, names: Names, table: RuleTable) -> Matches:
    """Every edit and finding that the rules of the table have for the module."""
    walk = _Walk(names, table)
    walk.visit(module, names.scopes.module)
    matches = walk.matches
    matches.sites = [site for site in matches.sites if not site.names.isdisjoint(walk.anchors)]
    return matches


class _Walk:
    def __init__(self, names: Names, table: RuleTable) -> None:
        self.names = names
        self.table = table
        self.receivers = Receivers(names)
        self.matches = Matches()
        self.above: list[cst.CSTNode] = []
        self.release = table_for(names.context.version)
        self.renamed_locals: dict[tuple[int, str], str] = {}
        self.anchors = {"torch"}  # local names beside whose import a further import belongs
        self.interesting = self._interesting_names()
        self._plan_local_renames()
        self.handlers: dict[type[cst.CSTNode], Callable[..., None]] = {
            cst.Name: self.reference,
            cst.Attribute: self.attribute,
            cst.Call: self.call,
            cst.Arg: self.argument,
            cst.Param: self.parameter,
            cst.FunctionDef: self.function,
            cst.ClassDef: self.class_,
            cst.Import: self.import_,
            cst.ImportFrom: self.import_from,
            cst.SimpleString: self.string,
            cst.FormattedString: self.formatted,
            cst.ConcatenatedString: self.skip,
            cst.AsName: self.skip,
        }

    def visit(self, node: cst.CSTNode, scope: Scope) -> None:
        handler = self.handlers.get(type(node))
        if handler is not None:
            handler(node, scope)
        else:
            self.descend(node, self.names.scopes.by_node.get(id(node), scope))

    def descend(self, node: cst.CSTNode, scope: Scope) -> None:
        self.above.append(node)
        for child in children(node):
            self.visit(child, scope)
        self.above.pop()

    def skip(self, node: cst.CSTNode, scope: Scope) -> None:
        """Nothing under the node is a reference."""

    # What the file's own bindings make worth a look.

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

    def _plan_local_renames(self) -> None:
        """Decide before the walk which imported names get a new local name, since uses may come first."""
        context, path = self.names.context, self.names.path
        for scope in self._scopes():
            for name, bindings in scope.bindings.items():
                binding = bindings[0]
                if not isinstance(binding, Imported) or not isinstance(binding.statement, cst.ImportFrom):
                    continue
                target = self._target(binding.qualified)
                if target is None or leaf(target) == name:
                    continue
                stem = path.removesuffix("/__init__.py").removesuffix(".py").rpartition("/")[2]
                taken = not context.taken_names.isdisjoint({name, f"{stem}*"})
                public = scope.kind == "module" and (taken or path.endswith("__init__.py"))
                if may_rename_local(binding, leaf(target), scope, self.names.scopes, public):
                    self.renamed_locals[id(scope), name] = leaf(target)

    def _target(self, qualified: str) -> str | None:
        """Where a rename rule moves a qualified name; None when none does or the release lacks the new name."""
        matched = self.table.rule_for(qualified)
        if matched is None or matched[0].then.keep or matched[0].then.rename is None:
            return None
        target = matched[0].then.rename + qualified[len(matched[1]) :]
        return None if self._is_missing(matched[0], target) else target

    def _is_missing(self, rule: Rule, target: str) -> bool:
        return rule.then.needs_target and not has_npu_name(self.release, target)

    # References: names and dotted expressions.

    def attribute(self, node: cst.Attribute, scope: Scope) -> None:
        self.reference(node, scope)
        part: cst.BaseExpression = node
        self.above.append(node)
        while isinstance(part, cst.Attribute):
            rule = self.table.attributes.get(part.attr.value)
            if rule is not None and not self._is_stored(part):
                self.member(part, rule, scope)
            part = part.value
        if not isinstance(part, cst.Name):
            self.visit(part, scope)
        self.above.pop()

    def _is_stored(self, node: cst.Attribute) -> bool:
        holder = self.above[-2] if len(self.above) > 1 else None
        return isinstance(holder, cst.AssignTarget) and holder.target is node

    def member(self, node: cst.Attribute, rule: Rule, scope: Scope) -> None:
        """An attribute rule, such as the one for `x.is_cuda`."""
        holder = node.value
        name = holder.attr.value if isinstance(holder, cst.Attribute) else getattr(holder, "value", None)
        if name in _FLAG_HOLDERS:
            return
        if self._has_own(node.attr.value) and OWN in self.receivers.kinds(holder, scope, node.attr.value):
            return
        self.apply_leaf(node.attr, rule, f"{node.attr.value}")

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
            self.apply_name(*matched, qualified, chain, scope)

    def apply_name(self, rule: Rule, prefix: str, qualified: str, chain: list[cst.BaseExpression], scope: Scope) -> None:
        then = rule.then
        if then.keep:
            return
        self.note(rule, chain[-1], qualified)
        if then.rename is None:
            return
        root = chain[0]
        assert isinstance(root, cst.Name)
        index = len(chain) - 1 - qualified[len(prefix) :].count(".")
        target = then.rename + qualified[len(prefix) :]
        missing = self._is_missing(rule, target)
        if missing:
            self.report_missing(rule, chain[-1], qualified, target)
        if index < 0:
            return
        if index == 0:
            found = scope.lookup(root.value)
            local = self.renamed_locals.get((id(found[0]), root.value)) if found is not None else None
            if local is not None:
                self.edit(root, local, rule, chain[-1])
        elif not missing and self.names.qualified(chain[index - 1], scope) == parent(prefix):
            node = chain[index]
            assert isinstance(node, cst.Attribute)
            if parent(then.rename) == parent(prefix):
                self.edit(node.attr, leaf(then.rename), rule, chain[-1])
            else:
                self.respell(node, then.rename, rule, chain[:index], scope)

    def respell(
        self, node: cst.Attribute, name: str, rule: Rule, owners: list[cst.BaseExpression], scope: Scope
    ) -> None:
        """Write a name that lives elsewhere, through what the file has imported already where that leads to it."""
        text, known = name, ""
        for owner in owners:
            qualified = self.names.qualified(owner, scope) or ""
            if name.startswith(f"{qualified}."):
                text, known = f"{dotted_name(owner)}{name[len(qualified) :]}", qualified
        needs = parent(name) if rule.then.imports is None and parent(name) != known else None
        self.matches.edits.append(Edit(node, text, rule.id, rule.why, needs=needs))
        self.anchors.add(dotted_name(owners[0]) or "")

    def report_missing(self, rule: Rule, node: cst.CSTNode, qualified: str, target: str) -> None:
        release = self.release.release
        if has_cuda_name(qualified):
            kind, message = FindingKind.UNSUPPORTED, f"torch_npu {release} has no {target}; left as it is."
        else:
            kind = FindingKind.UNKNOWN
            message = f"Neither PyTorch's documented API nor torch_npu {release} has this name; left as it is."
        self.matches.found.append(Found(node, rule.id, kind, qualified, message))

    def note(self, rule: Rule, node: cst.CSTNode, api: str) -> None:
        """What a rule says of a place besides editing it."""
        if rule.then.trait is not None:
            self.matches.traits.add(rule.then.trait)
        if rule.then.report is not None:
            report = rule.then.report
            self.matches.found.append(Found(node, rule.id, report.kind, api, report.message))

    def edit(self, node: cst.CSTNode, text: str, rule: Rule, shown: cst.CSTNode | None = None) -> None:
        self.matches.edits.append(Edit(node, text, rule.id, rule.why, shown))

    def apply_leaf(self, node: cst.Name, rule: Rule, api: str) -> None:
        if rule.then.keep:
            return
        self.note(rule, node, api)
        if rule.then.rename is not None:
            self.edit(node, rule.then.rename, rule)

    # Calls of methods.

    def call(self, node: cst.Call, scope: Scope) -> None:
        if isinstance(node.func, cst.Attribute):
            rule = self.table.methods.get(node.func.attr.value)
            if rule is not None:
                self.method(node.func, rule, scope)
        self.descend(node, scope)

    def method(self, node: cst.Attribute, rule: Rule, scope: Scope) -> None:
        if self._is_import(node.value, scope) or rule.then.keep or rule.then.rename is None:
            return
        name = node.attr.value
        edit = Edit(node.attr, rule.then.rename, rule.id, rule.why)
        accepted: frozenset[str] = getattr(rule.match, "receiver", frozenset())
        own = self._has_own(name)
        if own or accepted != ANY_RECEIVER:  # else every receiver would do, and asking costs time
            kinds = self.receivers.kinds(node.value, scope, name)
            if kinds == {OWN} or not kinds & accepted:
                return
            if own and not kinds & {MODULE, TENSOR}:
                self.matches.doubts.append(Doubt(node.value, name, edit))
                return
        self.note(rule, node.attr, name)
        self.matches.edits.append(edit)

    def _has_own(self, member: str) -> bool:
        """Whether some class of the project, or of this file, defines the member itself."""
        return member in self.names.context.own_members or any(
            scope.kind == "class" and (member in scope.bindings or member in scope.attributes)
            for scope in self._scopes()
        )

    def _is_import(self, node: cst.CSTNode, scope: Scope) -> bool:
        """Whether the expression is a module that was imported, whose members are functions, not methods."""
        found = scope.lookup(node.value) if isinstance(node, cst.Name) else None
        return found is not None and any(
            isinstance(binding, Imported) and isinstance(binding.statement, cst.Import) for binding in found[1]
        )

    # Definitions.

    def argument(self, node: cst.Arg, scope: Scope) -> None:
        self.above.append(node)
        self.visit(node.value, scope)
        self.above.pop()

    def parameter(self, node: cst.Param, scope: Scope) -> None:
        self.above.append(node)
        outer = scope.parent or scope
        for part in (node.annotation, node.default):
            if part is not None:
                self.visit(part, outer)
        self.above.pop()

    def function(self, node: cst.FunctionDef, scope: Scope) -> None:
        rule = self.table.methods.get(node.name.value)
        if rule is not None and scope.kind == "class" and rule.then.rename is not None:
            self.override(node, rule, scope)
        inner = self.names.scopes.by_node[id(node)]
        self.above.append(node)
        for decorator in node.decorators:
            self.visit(decorator, scope)
        self.visit(node.params, inner)
        if node.returns is not None:
            self.visit(node.returns, scope)
        self.visit(node.body, inner)
        self.above.pop()

    def override(self, node: cst.FunctionDef, rule: Rule, scope: Scope) -> None:
        """A Module that overrides `cuda`: its callers will say `npu`, so the override must answer to that."""
        kinds = self.receivers.class_kind(self.names, scope, node.name.value)
        if kinds & getattr(rule.match, "receiver", frozenset()) - {UNKNOWN}:
            self.edit(node.name, rule.then.rename or "", rule)
        elif isinstance(scope.node, cst.ClassDef) and any(
            self._is_foreign(base.value, scope) for base in scope.node.bases
        ):
            message = (
                f"This class defines {node.name.value}() and its base is not part of the project: if it is a Module, "
                f"rename the method to {rule.then.rename}."
            )
            name = f"{scope.node.name.value}.{node.name.value}"
            self.matches.found.append(Found(node.name, rule.id, FindingKind.REVIEW, name, message))

    def _is_foreign(self, base: cst.CSTNode, scope: Scope) -> bool:
        outer = scope.parent or scope
        return dotted_name(base) != "object" and self.names.definition(base, outer) is None

    def class_(self, node: cst.ClassDef, scope: Scope) -> None:
        inner = self.names.scopes.by_node[id(node)]
        self.above.append(node)
        for part in (*node.decorators, *node.bases, *node.keywords):
            self.visit(part, scope)
        self.visit(node.body, inner)
        self.above.pop()

    # Imports.

    def import_(self, node: cst.Import, scope: Scope) -> None:
        edited = False
        for alias in node.names:
            old = dotted_name(alias.name) or ""
            matched = self.table.rule_for(old)
            if matched is None or matched[0].then.keep:
                continue
            rule, prefix = matched
            if rule.then.rename is None:
                self.note(rule, node, old)
                continue
            new = rule.then.rename + old[len(prefix) :]
            if self._is_missing(rule, new):
                self.report_missing(rule, alias, old, new)
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
            self.rewrite_from(node, module, followed, scope)
        self.site(node, scope, any(item.new is not None for item in followed))

    def _imported(self, alias: cst.ImportAlias, module: str, node: cst.ImportFrom) -> Renamed:
        old = f"{module}.{dotted_name(alias.name)}"
        matched = self.table.rule_for(old)
        if matched is None or matched[0].then.keep:
            return Renamed(alias, old, None)
        rule, prefix = matched
        if rule.then.trait is not None:
            self.matches.traits.add(rule.then.trait)
        if rule.then.rename is None:
            return Renamed(alias, old, None)
        new = rule.then.rename + old[len(prefix) :]
        if self._is_missing(rule, new):
            self.report_missing(rule, alias, old, new)
            return Renamed(alias, old, None)
        return Renamed(alias, old, new)

    def rewrite_from(self, node: cst.ImportFrom, module: str, followed: list[Renamed], scope: Scope) -> None:
        rules = [matched[0] for item in followed if item.new and (matched := self.table.rule_for(item.old))]
        rule = next((rule for rule in rules if rule.then.imports is not None), rules[0])
        keep = {id(item.alias): self._keeps_local(item, scope) for item in followed}
        homes = {parent(item.new) if item.new else module for item in followed}
        assert node.module is not None
        if len(homes) > 1:
            if has_comment(node):
                message = "Some of these names move to another module; split the statement by hand."
                self.matches.found.append(Found(node, rule.id, FindingKind.REVIEW, module, message))
                return
            self.edit(node, split_from_import(node, module, followed, keep), rule)
            return
        home = homes.pop()
        if home != module:
            self.edit(node.module, home, rule, node)
        for item in followed:
            if item.new is not None and leaf(item.new) != leaf(item.old):
                suffix = f" as {leaf(item.old)}" if keep[id(item.alias)] else ""
                self.edit(item.alias.name, leaf(item.new) + suffix, rule, node)

    def _keeps_local(self, item: Renamed, scope: Scope) -> bool:
        """Whether an imported name needs an `as` to stay what the file, or another one, calls it."""
        if item.new is None or item.alias.asname is not None or leaf(item.new) == leaf(item.old):
            return False
        found = scope.lookup(leaf(item.old))
        return found is None or (id(found[0]), leaf(item.old)) not in self.renamed_locals

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
        self.matches.sites.append(ImportSite(node, self.above[-1], scope, names, plain, edited, typing_only))

    # Strings.

    def string(self, node: cst.SimpleString, scope: Scope) -> None:
        if self.table.literal.search(node.value) is None or "b" in node.prefix.lower():
            return
        for candidate in self.table.strings:
            whole = candidate.literal.fullmatch(node.raw_value)
            if whole is not None:
                self.literal(node, node.prefix + node.quote, whole.group("suffix"), candidate, scope)
                return

    def formatted(self, node: cst.FormattedString, scope: Scope) -> None:
        first = node.parts[0] if node.parts else None
        if isinstance(first, cst.FormattedStringText) and self.table.literal.search(first.value):
            rest_is_code = not any(isinstance(part, cst.FormattedStringText) for part in node.parts[1:])
            for candidate in self.table.strings:
                whole = candidate.literal.fullmatch(first.value) if rest_is_code else None
                if whole is not None and (len(node.parts) == 1) != bool(whole.group("suffix")):
                    self.literal(first, "", whole.group("suffix"), candidate, scope, node)
                    break
        self.descend(node, scope)

    def literal(
        self,
        node: cst.SimpleString | cst.FormattedStringText,
        opening: str,
        suffix: str | None,
        candidate: StringRule,
        scope: Scope,
        whole: cst.FormattedString | None = None,
    ) -> None:
        rule = candidate.rule
        new = rule.then.rename or candidate.text
        verdict = judge(Place(whole or node, self.above, scope, self.names, new), candidate.role)
        if verdict == UNSURE and suffix:
            verdict = YES
        if verdict == NO or rule.then.keep:
            return
        if verdict == UNSURE:
            message = f"May mean '{new}' on the NPU; left as it is because its use does not say so."
            self.matches.found.append(Found(node, rule.id, FindingKind.REVIEW, node.value, message))
            return
        self.note(rule, node, node.value)
        if rule.then.rename is not None:
            text = opening + new + node.value[len(opening) + len(candidate.text) :]
            self.matches.edits.append(Edit(node, text, rule.id, rule.why, whole))


def _is_type_checking(test: cst.CSTNode) -> bool:
    return (dotted_name(test) or "").rpartition(".")[2] == "TYPE_CHECKING"
