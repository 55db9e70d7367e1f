"""One pass over the uses of names in a file that asks, at each that could matter, whether a rule is for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Set

from gpu2npu.engine.context import ProjectContext
from gpu2npu.engine.file_rules import FileRules, Handler, Handlers, RuledString
from gpu2npu.engine.matches import Matches
from gpu2npu.engine.rewriting.name_uses import is_annotation
from gpu2npu.engine.rewriting.option_names import report_option_names
from gpu2npu.engine.rewriting.quoted import rename_quoted
from gpu2npu.engine.rewriting.renames import Renames
from gpu2npu.engine.skips import Skips
from gpu2npu.engine.strings.judgement import judge
from gpu2npu.engine.strings.places import NO, UNSURE, YES, Siblings, StringPlace
from gpu2npu.engine.strings.texts import StringText, formatted_texts, plain_text, written
from gpu2npu.engine.table import RuleTable, StringRule
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.source import words
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import last_name
from gpu2npu.records import Edit, FindingKind, Found


def find_matches(names: Names, context: ProjectContext, table: RuleTable, skips: Skips) -> Matches:
    """Every edit and finding that the rules of the table have for a file."""
    spelled = words(names.file.text.encode("utf-8", "surrogatepass"))
    work = FileRules(names, context, table, not skips.lines, spelled)
    for kind in table.classes:
        kind.in_python(work)
    matcher = _Matcher(work)
    matcher.run()
    matcher.renames.finish_imports()
    matcher.renames.unused_imports()
    report_option_names(names.file, matcher.matches)
    return matcher.matches


class _Matcher:
    def __init__(self, work: FileRules) -> None:
        self.names = names = work.names
        self.work = work
        self.file = names.file
        self.context = context = work.context
        self.table = table = work.table
        self.siblings = Siblings()
        self.matches = work.matches
        self.settled = work.settled
        self.renames = Renames(names, context, table, self.matches, work.may_rename)
        self.text_kinds = [kind for kind in table.classes if kind.in_strings]

    def run(self) -> None:
        """Ask, at each use of a name, the kinds that have something to do there."""
        called, interesting = self.work.called, self.renames.interesting
        handlers = self._handlers()
        for node, scope in self.file.uses:
            kind = node.__class__
            if kind is ast.Name and node.id not in interesting:  # type: ignore[attr-defined]  # as most names are not
                continue
            if kind not in handlers or (self.settled and self._is_settled(node)):
                continue
            part: ast.AST | None = _owner(node, called) if node in called else node
            for handler in handlers.get(type(part), ()) if part is not None else ():
                if handler(part, scope):
                    break

    def _handlers(self) -> dict[type[ast.AST], list[Handler]]:
        """Return what is done at nodes of each type, in the order of the kinds. It is in no attribute: methods there
        would keep a file's tree until the garbage collector runs."""
        found: dict[type[ast.AST], list[Handler]] = {
            ast.Name: [self.renames.reference],
            ast.Attribute: [self.renames.reference],
            ast.Call: [self.by_string],
        }
        for kind in self.table.classes:
            for node, handler in kind.handlers(self.work).items():
                found.setdefault(node, []).append(handler)
        own: Handlers = {
            ast.Import: self.renames.import_,
            ast.ImportFrom: self.renames.import_from,
            ast.Constant: self.string,
            ast.JoinedStr: self.formatted,
        }
        for node, handler in own.items():
            found.setdefault(node, []).append(handler)
        return found

    def by_string(self, node: ast.Call, scope: Scope) -> bool:
        """Apply the rule for a name that is asked for by a string: `getattr(torch, "cuda")`."""
        is_known = self.renames.by_string(node, scope)
        if is_known:
            self.settled.add(node.args[1])
        return is_known

    def _is_settled(self, node: ast.AST) -> bool:
        left: set[ast.AST] = set()
        for each in (node, *self.file.above(node)):
            if each in self.settled and each not in left:
                return True
            left.update(self.work.unsettled.get(each, ()))
        return False

    # Strings.

    def string(self, node: ast.Constant, scope: Scope) -> None:
        parent = self.file.parents[node]
        if isinstance(parent, ast.Expr):  # a docstring
            return
        found = written(self.file, node)
        if len(found) != 1:
            for literal in found:
                self.by_text(plain_text(self.file, node, literal))
            self.spelled_in_parts(node, str(node.value), scope)
            return
        text = plain_text(self.file, node, found[0])
        if self.by_text(text):
            return
        if self._is_in_annotation(node):
            rename_quoted(self.renames, text, scope)
            return
        if self.table.literal.search(text.raw) is None:
            return
        for candidate in self.table.strings:
            whole = candidate.literal.fullmatch(text.raw)
            if whole is not None:
                self.literal(text, whole, candidate, scope)
                return

    def by_text(self, string: StringText) -> bool:
        """Apply the rules for the text of a string, wherever it stands; return whether there was one."""
        ruled = RuledString(string, string.raw)
        for kind in self.text_kinds:
            kind.in_text(self.work, ruled)
            if ruled.is_settled:
                break
        if ruled.text != string.raw:
            rule = next(rule for rule in ruled.rules if rule.then.rename is not None)
            if string.can_be(ruled.text):
                self.matches.edits.append(Edit(string.place, string.quoted(ruled.text), rule.id, rule.why))
            else:
                message = f"{rule.why} The replacement does not fit into this string: change it by hand."
                self.matches.found.append(Found(string.place, rule.id, FindingKind.REVIEW, string.raw, message))
        return bool(ruled.rules)

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
                    self.by_text(text)
            else:
                self.by_text(plain_text(self.file, node, literal))
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

    def place(self, node: ast.expr, scope: Scope, new: str) -> StringPlace:
        """The place of a string that a rule would write otherwise."""
        return StringPlace(node, scope, self.names, new, self.siblings)

    def literal(self, text: StringText, matched: re.Match[str], candidate: StringRule, scope: Scope) -> None:
        """Apply a string rule to a text that it matches, if the text means there what the rule is about."""
        rule = candidate.rule
        new = rule.then.rename or candidate.text
        prefix, suffix = matched.group("prefix") or "", matched.group("suffix") or ""
        verdict = judge(self.place(text.node, scope, rule.then.rename or ""), candidate.role)
        if verdict != NO and prefix.endswith("."):  # "app.engine.torch.cuda.is_available"
            is_same = self.names.follow(matched.group()).startswith(f"{candidate.text}.")
            verdict = YES if is_same else UNSURE
        elif verdict == UNSURE and (prefix or suffix):
            verdict = YES
        if verdict == NO or rule.then.keep or (verdict == UNSURE and rule.then.rename is None):
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


def _owner(node: ast.AST, called: Set[ast.AST]) -> ast.expr | None:
    """The owner of a called name, which the rule for the call has not settled."""
    while isinstance(node, ast.Attribute) and node in called:
        node = node.value
    return node if isinstance(node, (ast.Name, ast.Attribute)) and node not in called else None
