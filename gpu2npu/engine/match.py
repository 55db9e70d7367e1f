"""One walk over a module that asks, at each node that could matter, whether a rule is for it."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable

import libcst as cst

from gpu2npu.engine.calls import Calls
from gpu2npu.engine.edits import Edit
from gpu2npu.engine.literals import Literals
from gpu2npu.engine.matches import Doubt, Found, Matches
from gpu2npu.engine.names import Names
from gpu2npu.engine.packages import Packages
from gpu2npu.engine.receivers import ANY_RECEIVER, MODULE, OWN, TENSOR, UNKNOWN, Receivers
from gpu2npu.engine.renames import Renames
from gpu2npu.engine.scopes import Imported, Scope
from gpu2npu.engine.skips import Skips
from gpu2npu.engine.strings import NO, UNSURE, YES, Place, Texts, judge
from gpu2npu.engine.table import RuleTable, StringRule
from gpu2npu.engine.tree import children, last_name, string_value
from gpu2npu.records import FindingKind
from gpu2npu.rulebook.rule import AttributeMatch, Rule

# Objects that hold the user's own command line flags: `args.is_cuda` is not the attribute of a tensor.
_FLAG_HOLDERS = frozenset({"args", "opt", "opts", "options", "flags", "FLAGS", "cfg", "config", "conf", "hparams"})


def find_matches(module: cst.Module, text: str, names: Names, table: RuleTable, skips: Skips) -> Matches:
    """Every edit and finding that the rules of the table have for the module, whose text is `text`."""
    walk = _Walk(text, names, table, may_rename=not skips.lines)
    walk.visit(module, names.scopes.module)
    walk.renames.finish_imports()
    walk.renames.unused_imports()
    walk.matches.anchors = walk.renames.anchors
    return walk.matches


class _Walk:
    def __init__(self, text: str, names: Names, table: RuleTable, may_rename: bool) -> None:
        self.names = names
        self.table = table
        self.receivers = Receivers(names)
        self.imported: dict[tuple[int, str], bool] = {}
        self.own: dict[str, bool] = {}
        self.texts = Texts()
        self.matches = Matches()
        self.above: list[cst.CSTNode] = []
        self.renames = Renames(names, table, self.matches, self.above, may_rename)
        self.calls = Calls(names, table, self.matches, self.above)
        self.packages = Packages(names, table, self.matches, self.above)
        self.literals = Literals(text, table, self.matches, self.above)
        self.handlers: dict[type[cst.CSTNode], Callable[..., None]] = {
            cst.Name: self.renames.reference,
            cst.Attribute: self.attribute,
            cst.Call: self.call,
            cst.Arg: self.argument,
            cst.Param: self.parameter,
            cst.FunctionDef: self.function,
            cst.ClassDef: self.class_,
            cst.Import: self.import_,
            cst.ImportFrom: self.import_,
            cst.SimpleString: self.string,
            cst.FormattedString: self.formatted,
            cst.ConcatenatedString: self.concatenated,
            cst.AsName: self.skip,
            cst.AssignTarget: self.assigned,
            cst.AnnAssign: self.assigned,
            cst.NamedExpr: self.assigned,
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

    def assigned(self, node: cst.AssignTarget | cst.AnnAssign | cst.NamedExpr, scope: Scope) -> None:
        """A name that is bound refers to nothing yet."""
        self.above.append(node)
        for child in children(node):
            if child is not node.target or not isinstance(child, cst.Name):
                self.visit(child, scope)
        self.above.pop()

    # References: names and dotted expressions.

    def attribute(self, node: cst.Attribute, scope: Scope) -> None:
        self.renames.reference(node, scope)
        part: cst.BaseExpression = node
        self.above.append(node)
        while isinstance(part, cst.Attribute):
            rule = self.table.attributes.get(part.attr.value)
            if rule is not None and not self._is_stored_or_called(part) and self._is_of(part, rule, scope):
                self.member(part, rule, scope)
            method = self.table.methods.get(part.attr.value)
            if method is not None and not self._is_stored_or_called(part):
                self.handed_on(part, method, scope)
            part = part.value
        if not isinstance(part, cst.Name):
            self.visit(part, scope)
        self.above.pop()

    def handed_on(self, node: cst.Attribute, rule: Rule, scope: Scope) -> None:
        """A method that is not called here, `move = model.cuda`: on anything else the name may be a flag's."""
        name = node.attr.value
        kinds = self.receivers.kinds(node.value, scope, name)
        if rule.then.rename is None or rule.then.keep or self.names.qualified(node, scope) is not None:
            return
        if kinds & {MODULE, TENSOR} and OWN not in kinds:
            self.renames.edit(node.attr, rule.then.rename, rule)

    def _is_stored_or_called(self, node: cst.Attribute) -> bool:
        holder = self.above[-2] if len(self.above) > 1 else None
        if isinstance(holder, cst.Call):  # the method of some other object
            return holder.func is node
        return isinstance(holder, cst.AssignTarget) and holder.target is node

    def _is_of(self, node: cst.Attribute, rule: Rule, scope: Scope) -> bool:
        """Whether the attribute is read on what the rule asks for: the result of a certain function."""
        assert isinstance(rule.match, AttributeMatch)
        return rule.match.of is None or rule.match.of in self.names.callees(node.value, scope)

    def member(self, node: cst.Attribute, rule: Rule, scope: Scope) -> None:
        """An attribute rule, such as the one for `x.is_cuda`."""
        holder = node.value
        name = holder.attr.value if isinstance(holder, cst.Attribute) else getattr(holder, "value", None)
        if name in _FLAG_HOLDERS:
            return
        if rule.then.keep:
            return
        member = node.attr.value
        if self._has_own(member, read=True):
            kinds = self.receivers.kinds(holder, scope, member)
            if kinds == {OWN}:
                return
            if rule.then.rename is not None and not kinds & {MODULE, TENSOR}:
                edit = Edit(node.attr, rule.then.rename, rule.id, rule.why)
                self.matches.add(Doubt(holder, member, edit), self.above)
                return
        self.matches.note(rule, node.attr, member, self.above)
        if rule.then.rename is not None:
            self.renames.edit(node.attr, rule.then.rename, rule)

    def member_by_string(self, node: cst.Call, scope: Scope) -> bool:
        """`getattr(x, "is_cuda", False)`; tells whether it was renamed."""
        if not (isinstance(node.func, cst.Name) and node.func.value in ("getattr", "hasattr") and len(node.args) > 1):
            return False
        holder, name = node.args[0].value, node.args[1].value
        rule = self.table.attributes.get(string_value(name) or "")
        if rule is None or rule.then.rename is None or rule.then.keep or not isinstance(name, cst.SimpleString):
            return False
        if last_name(holder) in _FLAG_HOLDERS or self.receivers.kinds(holder, scope, name.raw_value) == {OWN}:
            return False
        text = f"{name.prefix}{name.quote}{rule.then.rename}{name.quote}"
        self.matches.add(Edit(name, text, rule.id, rule.why), [*self.above, *node.args])
        return True

    def import_(self, node: cst.Import | cst.ImportFrom, scope: Scope) -> None:
        if self.packages.statement(node):
            return
        if isinstance(node, cst.Import):
            self.renames.import_(node, scope)
        else:
            self.renames.import_from(node, scope)

    # Calls.

    def call(self, node: cst.Call, scope: Scope) -> None:
        self.above.append(node)
        self.packages.call(node)
        settled = self.calls.arguments(node, scope)
        if self.calls.call(node, scope):  # the callee's own name is settled, not what it is a method of
            if isinstance(node.func, cst.Attribute):
                self.visit(node.func.value, scope)
        else:
            rule = self.table.methods.get(node.func.attr.value) if isinstance(node.func, cst.Attribute) else None
            if rule is not None and isinstance(node.func, cst.Attribute):
                self.method(node.func, rule, scope)
            elif self.renames.by_string(node, scope) or self.member_by_string(node, scope):
                settled |= {id(node.args[1])}
            self.visit(node.func, scope)
        for arg in node.args:
            if id(arg) not in settled:
                self.visit(arg, scope)
        self.above.pop()

    def method(self, node: cst.Attribute, rule: Rule, scope: Scope) -> None:
        if self._is_import(node.value, scope) or rule.then.keep:
            return
        name = node.attr.value
        edit = Edit(node.attr, rule.then.rename or name, rule.id, rule.why)
        accepted: frozenset[str] = getattr(rule.match, "receiver", frozenset())
        own = self._has_own(name, read=False)
        if own or accepted != ANY_RECEIVER:  # else every receiver would do, and asking costs time
            kinds = self.receivers.kinds(node.value, scope, name)
            if kinds == {OWN} or not kinds & accepted:
                return
            if own and not kinds & {MODULE, TENSOR} and rule.then.rename is not None:
                self.matches.add(Doubt(node.value, name, edit), self.above)
                return
        self.matches.note(rule, node.attr, name, self.above)
        if rule.then.rename is not None:
            self.matches.add(edit, self.above)

    def _has_own(self, member: str, read: bool) -> bool:
        """Whether some class of the project, or of this file, that is no Module or Tensor defines the member itself."""
        if member not in self.own:
            others = (self.names.by_path(path) for path in sorted(self.names.context.own_members.get(member, ())))
            self.own[member] = self.receivers.own_classes(member, read) or any(
                Receivers(other).own_classes(member, read) for other in others if other is not None
            )
        return self.own[member]

    def _is_import(self, node: cst.CSTNode, scope: Scope) -> bool:
        """Whether the expression is a module that was imported, whose members are functions, not methods."""
        found = scope.lookup(node.value) if isinstance(node, cst.Name) else None
        if found is None or not isinstance(node, cst.Name):
            return False
        owner, bindings = found
        key = (id(owner), node.value)
        if key not in self.imported:
            self.imported[key] = any(
                isinstance(binding, Imported) and isinstance(binding.statement, cst.Import) for binding in bindings
            )
        return self.imported[key]

    # Definitions.

    def argument(self, node: cst.Arg, scope: Scope) -> None:
        self.literals.keyword(node)
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
        inner = self.names.scopes.by_node[id(node)]
        self.above.append(node)
        rule = self.table.methods.get(node.name.value)
        if rule is not None and scope.kind == "class" and rule.then.rename is not None:
            self.override(node, rule, scope)
        for decorator in node.decorators:
            self.visit(decorator, scope)
        if node.type_parameters is not None:
            self.visit(node.type_parameters, inner)
        self.visit(node.params, inner)
        if node.returns is not None:
            self.visit(node.returns, scope)
        self.visit(node.body, inner)
        self.above.pop()

    def override(self, node: cst.FunctionDef, rule: Rule, scope: Scope) -> None:
        """A Module that overrides `cuda`: its callers will say `npu`, so the override must answer to that."""
        kinds = self.receivers.class_kind(self.names, scope, node.name.value)
        if kinds & getattr(rule.match, "receiver", frozenset()) - {UNKNOWN}:
            self.renames.edit(node.name, rule.then.rename or "", rule)
        elif isinstance(scope.node, cst.ClassDef) and any(
            self._is_foreign(base.value, scope) for base in scope.node.bases
        ):
            message = (
                f"This class defines {node.name.value}() and its base is not part of the project: if it is a Module, "
                f"rename the method to {rule.then.rename}."
            )
            name = f"{scope.node.name.value}.{node.name.value}"
            self.matches.add(Found(node.name, rule.id, FindingKind.REVIEW, name, message), self.above)

    def _is_foreign(self, base: cst.CSTNode, scope: Scope) -> bool:
        outer = scope.parent or scope
        if isinstance(base, cst.Subscript):  # Generic[T]
            base = base.value
        if isinstance(base, cst.Name) and hasattr(builtins, base.value) and outer.lookup(base.value) is None:
            return False
        root = (self.names.qualified(base, outer) or "").partition(".")[0]
        return root not in sys.stdlib_module_names and self.names.definition(base, outer) is None

    def class_(self, node: cst.ClassDef, scope: Scope) -> None:
        inner = self.names.scopes.by_node[id(node)]
        self.above.append(node)
        for part in (*node.decorators, *node.bases, *node.keywords):
            self.visit(part, scope)
        if node.type_parameters is not None:
            self.visit(node.type_parameters, inner)
        self.visit(node.body, inner)
        self.above.pop()

    # Strings.

    def _is_in_annotation(self) -> bool:
        """Whether a string is a type, somewhere inside an annotation: `Optional["torch.cuda.Stream"]`."""
        for node in reversed(self.above):
            if isinstance(node, cst.Annotation):
                return True
            if isinstance(node, cst.Subscript) and last_name(node.value) == "Literal":  # its strings are values
                return False
            if not isinstance(node, (cst.Subscript, cst.SubscriptElement, cst.Index, cst.BinaryOperation)):
                return False
        return False

    def string(self, node: cst.SimpleString, scope: Scope) -> None:
        if "b" in node.prefix.lower() or self.literals.text(node) or self.table.literal.search(node.value) is None:
            return
        if isinstance(self.above[-1], cst.Annotation) or self._is_in_annotation():
            self.renames.quoted(node, scope)
            return
        for candidate in self.table.strings:
            whole = candidate.literal.fullmatch(node.raw_value)
            if whole is not None:
                opening = node.value[: len(node.prefix) + len(node.quote)]
                self.literal(node, opening, whole, candidate, scope)
                return

    def formatted(self, node: cst.FormattedString, scope: Scope) -> None:
        self.texts_of(node)
        first = node.parts[0] if node.parts else None
        if isinstance(first, cst.FormattedStringText) and self.table.literal.search(first.value):
            rest_is_code = not any(isinstance(part, cst.FormattedStringText) for part in node.parts[1:])
            for candidate in self.table.strings:
                whole = candidate.literal.fullmatch(first.value) if rest_is_code else None
                if whole is not None and (len(node.parts) == 1) != bool(whole.group("suffix")):
                    self.literal(first, "", whole, candidate, scope, node)
                    break
        self.descend(node, scope)

    def concatenated(self, node: cst.ConcatenatedString, scope: Scope) -> None:
        """Its parts are no whole strings, but there may be code in them, commands and variables."""
        whole = string_value(node)
        if whole is not None and not isinstance(self.above[-1], cst.ConcatenatedString):
            self.spelled_in_parts(node, whole, scope)
        self.above.append(node)
        for part in (node.left, node.right):
            if isinstance(part, cst.ConcatenatedString):
                self.concatenated(part, scope)
            elif isinstance(part, cst.FormattedString):
                self.texts_of(part)
                self.descend(part, scope)
            elif "b" not in part.prefix.lower():
                self.literals.text(part)
        self.above.pop()

    def texts_of(self, node: cst.FormattedString) -> None:
        self.above.append(node)
        for part in node.parts:
            if isinstance(part, cst.FormattedStringText):
                self.literals.text(part)
        self.above.pop()

    def spelled_in_parts(self, node: cst.ConcatenatedString, whole: str, scope: Scope) -> None:
        """`"cuda" ":0"`: too rare to be edited, but not to be passed over."""
        if self.table.literal.search(whole) is None:
            return
        for candidate in self.table.strings:
            if candidate.literal.fullmatch(whole) and candidate.rule.then.rename is not None:
                place = Place(node, self.above, scope, self.names, candidate.rule.then.rename, self.texts)
                if judge(place, candidate.role) != NO:
                    message = f"Written in parts: if it means '{candidate.rule.then.rename}' on the NPU, change it."
                    found = Found(node, candidate.rule.id, FindingKind.REVIEW, whole, message)
                    self.matches.add(found, self.above)
                return

    def literal(
        self,
        node: cst.SimpleString | cst.FormattedStringText,
        opening: str,
        matched: re.Match[str],
        candidate: StringRule,
        scope: Scope,
        whole: cst.FormattedString | None = None,
    ) -> None:
        rule = candidate.rule
        new = rule.then.rename or candidate.text
        prefix, suffix = matched.group("prefix") or "", matched.group("suffix") or ""
        verdict = judge(Place(whole or node, self.above, scope, self.names, new, self.texts), candidate.role)
        if verdict == UNSURE and (prefix or suffix):
            verdict = YES
        if verdict == NO or rule.then.keep:
            return
        if self.renames.is_missing(rule, new + suffix):
            self.renames.report_missing(rule, node, matched.group(), new + suffix)
            return
        if verdict == UNSURE:
            if any(found.node is self.above[-1] for found in self.matches.found[-3:]):  # by a rule for the argument
                return
            message = f"May mean '{new}' on the NPU; left as it is because its use does not say so."
            self.matches.add(Found(node, rule.id, FindingKind.REVIEW, node.value, message), self.above)
            return
        self.matches.note(rule, node, node.value, self.above)
        if rule.then.rename is not None:
            text = opening + prefix + new + node.value[len(opening + prefix + candidate.text) :]
            self.matches.add(Edit(node, text, rule.id, rule.why, whole), self.above)
