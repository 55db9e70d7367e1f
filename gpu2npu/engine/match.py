"""One pass over the uses of names in a file that asks, at each that could matter, whether a rule is for it."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Callable
from typing import Any

from gpu2npu.engine.context import ProjectContext
from gpu2npu.engine.kinds.calls import Calls
from gpu2npu.engine.kinds.code_imports import CodeImports
from gpu2npu.engine.kinds.code_rules import CodeRules
from gpu2npu.engine.kinds.definitions import Definitions
from gpu2npu.engine.kinds.literals import Literals
from gpu2npu.engine.kinds.members import Members
from gpu2npu.engine.kinds.option_names import report_option_names
from gpu2npu.engine.kinds.packages import Packages
from gpu2npu.engine.kinds.renames import Renames, is_annotation
from gpu2npu.engine.matches import Matches, Question
from gpu2npu.engine.skips import Skips
from gpu2npu.engine.strings.judgement import judge
from gpu2npu.engine.strings.places import NO, UNSURE, YES, Place, Siblings
from gpu2npu.engine.strings.texts import StringText, formatted_texts, plain_text, written
from gpu2npu.engine.table import RuleTable, StringRule
from gpu2npu.kinds.attribute import AttributeMatch
from gpu2npu.python.meaning.kinds import ANY_KIND, MODULE, OWN, ObjectKinds
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import TENSOR, UNKNOWN
from gpu2npu.python.text.source import words
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.scopes import Imported, Scope
from gpu2npu.python.tree.syntax import Function, Import, last_name, string_value
from gpu2npu.records import Edit, FindingKind, Found
from gpu2npu.rulebook.rule import Rule

# Objects that hold the user's own command line flags: `args.is_cuda` is not the attribute of a tensor.
_FLAG_HOLDERS = frozenset({"args", "opt", "opts", "options", "flags", "FLAGS", "cfg", "config", "conf", "hparams"})


def find_matches(names: Names, context: ProjectContext, table: RuleTable, skips: Skips) -> Matches:
    """Every edit and finding that the rules of the table have for a file."""
    matcher = _Matcher(names, context, table, may_rename=not skips.lines)
    spelled = frozenset(words(names.file.text.encode("utf-8", "surrogatepass")))
    code = CodeRules(names, context, table, matcher.matches, not skips.lines, spelled)
    matcher.settled |= code.run()
    if not table.words.get("member", frozenset()).isdisjoint(spelled):
        Members(names, table, matcher.matches).run()
    imports = CodeImports(names, context.taken_names, not skips.lines, code.spelling)
    Definitions(names, table, matcher.matches, imports).run()
    matcher.run()
    matcher.renames.finish_imports()
    matcher.renames.unused_imports()
    report_option_names(names.file, matcher.matches)
    return matcher.matches


class _Matcher:
    def __init__(self, names: Names, context: ProjectContext, table: RuleTable, may_rename: bool) -> None:
        self.names = names
        self.file = names.file
        self.context = context
        self.table = table
        self.kinds = ObjectKinds(names)
        self.own: dict[str, bool] = {}
        self.imported: dict[tuple[Scope, str, type[Import]], bool] = {}
        self.siblings = Siblings()
        self.matches = Matches()
        self.settled: set[ast.AST] = set()  # nodes in which no further rule is looked for
        self.called: set[ast.AST] = set()  # callees whose own names a rule for the call has settled
        self.renames = Renames(names, context, table, self.matches, may_rename)
        self.calls = Calls(names, table, self.matches)
        self.packages = Packages(names, table, self.matches)
        self.literals = Literals(self.file, table, self.matches)

    def run(self) -> None:
        handlers, interesting = _HANDLERS, self.renames.interesting
        for node, scope in self.file.uses:
            kind = node.__class__
            if kind is ast.Name and node.id not in interesting:  # type: ignore[attr-defined]  # as most names are not
                continue
            handler = handlers.get(kind)
            if handler is not None and not (self.settled and self._is_settled(node)):
                handler(self, node, scope)

    def _is_settled(self, node: ast.AST) -> bool:
        return node in self.settled or any(above in self.settled for above in self.file.above(node))

    # References: names and dotted expressions.

    def reference(self, node: ast.Name, scope: Scope) -> None:
        if node not in self.called:
            self.renames.reference(node, scope)

    def attribute(self, node: ast.Attribute, scope: Scope) -> None:
        if node in self.called:  # what it is a method of is not settled
            if isinstance(node.value, ast.Attribute):
                self.attribute(node.value, scope)
            elif isinstance(node.value, ast.Name):
                self.renames.reference(node.value, scope)
            return
        self.renames.reference(node, scope)
        part: ast.expr = node
        while isinstance(part, ast.Attribute):
            rule = self.table.attributes.get(part.attr)
            if rule is not None and self._is_read(part) and self._is_of(part, rule, scope):
                self.member(part, rule, scope)
            method = self.table.methods.get(part.attr)
            if method is not None and self._is_read(part):
                self.handed_on(part, method, scope)
            part = part.value

    def handed_on(self, node: ast.Attribute, rule: Rule, scope: Scope) -> None:
        """Apply the rule for a method that is not called here, `move = model.cuda`: on anything else the name may be a
        flag's."""
        if rule.then.rename is None or rule.then.keep or self.names.qualified(node, scope) is not None:
            return
        kinds = self.kinds.of(node.value, scope, node.attr)
        if kinds & {MODULE, TENSOR} and OWN not in kinds:
            self.renames.edit(name_bounds(self.file, node), rule.then.rename, rule)

    def _is_read(self, node: ast.Attribute) -> bool:
        """Return whether an attribute is neither stored nor the method of a call."""
        parent = self.file.parents[node]
        return isinstance(node.ctx, ast.Load) and not (isinstance(parent, ast.Call) and parent.func is node)

    def _is_of(self, node: ast.Attribute, rule: Rule, scope: Scope) -> bool:
        """Return whether the attribute is read on what the rule asks for: the result of a certain function."""
        assert isinstance(rule.match, AttributeMatch)
        return rule.match.of is None or rule.match.of in self.names.callees(node.value, scope)

    def member(self, node: ast.Attribute, rule: Rule, scope: Scope) -> None:
        """Apply an attribute rule, such as the one for `x.is_cuda`."""
        holder, member = node.value, node.attr
        name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", None)
        if name in _FLAG_HOLDERS or rule.then.keep:
            return
        place = name_bounds(self.file, node)
        if self._has_own(member, read=True):
            kinds = self.kinds.of(holder, scope, member)
            if kinds == {OWN}:
                return
            if rule.then.rename is not None and not kinds & {MODULE, TENSOR}:
                edit = Edit(place, rule.then.rename, rule.id, rule.why)
                self.matches.questions.append(Question(holder, member, edit))
                return
        self.matches.note(rule, place, member)
        if rule.then.rename is not None:
            self.renames.edit(place, rule.then.rename, rule)

    def called_member(self, node: ast.expr, scope: Scope) -> None:
        """Apply an attribute rule for the results of one function to a method of such a result: `prof.events()`."""
        rule = self.table.attributes.get(node.attr) if isinstance(node, ast.Attribute) else None
        if rule is None or not isinstance(node, ast.Attribute) or not isinstance(rule.match, AttributeMatch):
            return
        if rule.match.of is not None and self._is_of(node, rule, scope):
            self.member(node, rule, scope)

    def member_by_string(self, node: ast.Call, scope: Scope) -> bool:
        """Apply the rule for `getattr(x, "is_cuda", False)`; gives whether it was renamed."""
        if not (isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr") and len(node.args) > 1):
            return False
        holder, name = node.args[:2]
        rule = self.table.attributes.get(string_value(name) or "")
        if rule is None or rule.then.rename is None or rule.then.keep:
            return False
        text = StringText.of(self.file, name)
        if text is None or last_name(holder) in _FLAG_HOLDERS or self.kinds.of(holder, scope, text.raw) == {OWN}:
            return False
        self.matches.edits.append(Edit(text.place, text.quoted(rule.then.rename), rule.id, rule.why))
        return True

    def import_(self, node: Import, scope: Scope) -> None:
        if self.packages.statement(node):
            return
        if isinstance(node, ast.Import):
            self.renames.import_(node, scope)
        else:
            self.renames.import_from(node, scope)

    # Calls.

    def call(self, node: ast.Call, scope: Scope) -> None:
        self.packages.call(node)
        self.settled.update(self.calls.arguments(node, scope))
        self.calls.unpacked(node, scope)
        self.called_member(node.func, scope)
        if self.calls.call(node, scope):
            self.called.add(node.func)
            return
        rule = self.table.methods.get(node.func.attr) if isinstance(node.func, ast.Attribute) else None
        if rule is not None and isinstance(node.func, ast.Attribute):
            self.method(node.func, rule, scope)
        elif self.renames.by_string(node, scope) or self.member_by_string(node, scope):
            self.settled.add(node.args[1])

    def method(self, node: ast.Attribute, rule: Rule, scope: Scope) -> None:
        if self._is_import(node.value, scope, ast.Import) or rule.then.keep:
            return
        if self._is_import(node.value, scope, ast.ImportFrom) and self.names.definition(node, scope) is not None:
            return  # a function of a module of the project: `utils.cuda(batch)`
        qualified = self.names.qualified(node, scope)
        if qualified is not None and self.table.rule_for(qualified) is not None:  # nn.Module.cuda(net)
            return
        place = name_bounds(self.file, node)
        edit = Edit(place, rule.then.rename or node.attr, rule.id, rule.why)
        accepted: frozenset[str] = getattr(rule.match, "receiver", frozenset())
        own = self._has_own(node.attr, read=False)
        if own or accepted != ANY_KIND:  # else every receiver would do, and asking costs time
            kinds = self.kinds.of(node.value, scope, node.attr)
            if kinds == {OWN} or not kinds & accepted:
                return
            if own and not kinds & {MODULE, TENSOR} and rule.then.rename is not None:
                self.matches.questions.append(Question(node.value, node.attr, edit))
                return
        self.matches.note(rule, place, node.attr)
        if rule.then.rename is not None:
            self.matches.edits.append(edit)

    def _has_own(self, member: str, read: bool) -> bool:
        """Return whether a class of the project, or of this file, that is not a Module or Tensor defines the member."""
        if member not in self.own:
            self.own[member] = self.kinds.has_own_class(member, read) or any(
                self.context.has_own_class(path, member, read, self.names.path)
                for path in sorted(self.context.own_members.get(member, ()))
            )
        return self.own[member]

    def _is_import(self, node: ast.AST, scope: Scope, statement: type[Import]) -> bool:
        """Return whether the expression is a name that such a statement binds: `import` binds modules, whose members
        are functions, not methods."""
        found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
        if found is None or not isinstance(node, ast.Name):
            return False
        key = found[0], node.id, statement
        if key not in self.imported:
            self.imported[key] = any(
                isinstance(each, Imported) and isinstance(each.statement, statement) for each in found[1]
            )
        return self.imported[key]

    # Definitions.

    def keyword(self, node: ast.keyword, scope: Scope) -> None:
        self.literals.keyword(node)

    def function(self, node: Function, scope: Scope) -> None:
        rule = self.table.methods.get(node.name)
        if rule is not None and scope.kind == "class" and rule.then.rename is not None:
            self.override(node, rule, scope)

    def override(self, node: Function, rule: Rule, scope: Scope) -> None:
        """Rename the method of a Module that overrides `cuda`: its callers will say `npu`."""
        kinds = self.kinds.of_class(scope, node.name)
        place = name_bounds(self.file, node)
        if kinds & getattr(rule.match, "receiver", frozenset()) - {UNKNOWN}:
            self.renames.edit(place, rule.then.rename or "", rule)
        elif isinstance(scope.node, ast.ClassDef) and any(self._is_foreign(base, scope) for base in scope.node.bases):
            message = (
                f"This class defines {node.name}() and its base is not part of the project: if it is a Module, "
                f"rename the method to {rule.then.rename}."
            )
            name = f"{scope.node.name}.{node.name}"
            self.matches.found.append(Found(place, rule.id, FindingKind.REVIEW, name, message))

    def _is_foreign(self, base: ast.expr, scope: Scope) -> bool:
        outer = scope.parent or scope
        if isinstance(base, ast.Subscript):  # Generic[T]
            base = base.value
        if isinstance(base, ast.Name) and hasattr(builtins, base.id) and outer.lookup(base.id) is None:
            return False
        root = (self.names.qualified(base, outer) or "").partition(".")[0]
        return root not in sys.stdlib_module_names and self.names.definition(base, outer) is None

    # Strings.

    def string(self, node: ast.Constant, scope: Scope) -> None:
        parent = self.file.parents[node]
        if isinstance(parent, ast.Expr):  # a docstring
            return
        found = written(self.file, node)
        if len(found) != 1:
            for literal in found:
                self.literals.text(plain_text(self.file, node, literal))
            self.spelled_in_parts(node, str(node.value), scope)
            return
        text = plain_text(self.file, node, found[0])
        if self.literals.text(text) or self.table.literal.search(text.raw) is None:
            return
        if self._is_in_annotation(node):
            self.renames.quoted(text, scope)
            return
        for candidate in self.table.strings:
            whole = candidate.literal.fullmatch(text.raw)
            if whole is not None:
                self.literal(text, whole, candidate, scope)
                return

    def _is_in_annotation(self, node: ast.expr) -> bool:
        """Return whether a string is a type, somewhere inside an annotation: `Optional["torch.cuda.Stream"]`."""
        below: ast.AST = node
        for above in self.file.above(node):
            if is_annotation(above, below):
                return True
            if isinstance(above, ast.Subscript) and last_name(above.value) == "Literal":  # its strings are values
                return False
            if not isinstance(above, (ast.Subscript, ast.Tuple, ast.BinOp)):
                return False
            below = above
        return False

    def formatted(self, node: ast.JoinedStr, scope: Scope) -> None:
        found = written(self.file, node)
        for literal in found:
            if literal.is_formatted:
                for text in formatted_texts(self.file, node, literal):
                    self.literals.text(text)
            else:
                self.literals.text(plain_text(self.file, node, literal))
        if len(found) != 1 or not found[0].parts or found[0].parts[0].is_code:
            return
        parts = found[0].parts
        first = formatted_texts(self.file, node, found[0])[0]
        if self.table.literal.search(first.raw) is None or not all(part.is_code for part in parts[1:]):
            return
        for candidate in self.table.strings:
            whole = candidate.literal.fullmatch(first.raw)
            if whole is not None and (len(parts) == 1) != bool(whole.group("suffix")):
                self.literal(first, whole, candidate, scope)
                return

    def spelled_in_parts(self, node: ast.Constant, whole: str, scope: Scope) -> None:
        """Report `"cuda" ":0"`: too rare to be edited, but not to be passed over."""
        if self.table.literal.search(whole) is None:
            return
        for candidate in self.table.strings:
            if candidate.literal.fullmatch(whole) and candidate.rule.then.rename is not None:
                place = self.place(node, scope, candidate.rule.then.rename)
                if judge(place, candidate.role) != NO:
                    message = f"Written in parts: if it means '{candidate.rule.then.rename}' on the NPU, change it."
                    bounds = self.file.bounds(node)
                    self.matches.found.append(Found(bounds, candidate.rule.id, FindingKind.REVIEW, whole, message))
                return

    def place(self, node: ast.expr, scope: Scope, new: str) -> Place:
        """The place of a string that a rule would write otherwise."""
        return Place(node, scope, self.names, new, self.siblings, self.context.parameters)

    def literal(self, text: StringText, matched: re.Match[str], candidate: StringRule, scope: Scope) -> None:
        """Apply a string rule to a text that it matches, if the text means there what the rule is about."""
        rule = candidate.rule
        new = rule.then.rename or candidate.text
        prefix, suffix = matched.group("prefix") or "", matched.group("suffix") or ""
        verdict = judge(self.place(text.node, scope, new), candidate.role)
        if verdict != NO and prefix.endswith("."):  # "app.engine.torch.cuda.is_available"
            is_same = self.names.follow(matched.group()).startswith(f"{candidate.text}.")
            verdict = YES if is_same else UNSURE
        elif verdict == UNSURE and (prefix or suffix):
            verdict = YES
        if verdict == NO or rule.then.keep:
            return
        if self.renames.is_missing(rule, new + suffix):
            self.renames.report_missing(rule, text.place, matched.group(), new + suffix)
            return
        written_text = text.quoted(text.raw)
        if verdict == UNSURE:
            if any(found.place in self._argument_places(text) for found in self.matches.found[-3:]):
                return  # a rule for the argument has reported it
            message = f"May mean '{new}' on the NPU; left as it is because its use does not say so."
            self.matches.found.append(Found(text.place, rule.id, FindingKind.REVIEW, written_text, message))
            return
        self.matches.note(rule, text.place, written_text)
        if rule.then.rename is not None:
            rest = text.raw[len(prefix + candidate.text) :]
            shown = self.file.bounds(text.node) if text.is_formatted else None
            why = self.renames.why(rule, new + suffix)
            edit = Edit(text.place, text.quoted(prefix + new + rest), rule.id, why, shown)
            self.matches.edits.append(edit)

    def _argument_places(self, text: StringText) -> list[tuple[int, int]]:
        """The bounds of the argument that a string is, with its keyword; none where it is not one."""
        parent = self.file.parents[text.node]
        if isinstance(parent, ast.keyword):
            return [self.file.bounds(parent)]
        return [text.place] if isinstance(parent, ast.Call) else []


# Of the class, not of each object: methods in an attribute would keep a file's tree until the garbage collector runs.
_HANDLERS: dict[type[ast.AST], Callable[[_Matcher, Any, Scope], None]] = {
    ast.Name: _Matcher.reference,
    ast.Attribute: _Matcher.attribute,
    ast.Call: _Matcher.call,
    ast.keyword: _Matcher.keyword,
    ast.FunctionDef: _Matcher.function,
    ast.AsyncFunctionDef: _Matcher.function,
    ast.Import: _Matcher.import_,
    ast.ImportFrom: _Matcher.import_,
    ast.Constant: _Matcher.string,
    ast.JoinedStr: _Matcher.formatted,
}
