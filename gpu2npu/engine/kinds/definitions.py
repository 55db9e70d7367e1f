"""Rules for definitions: bases of classes and decorators that are added or taken out."""

from __future__ import annotations

import ast
import re

from gpu2npu.engine.kinds.code_imports import CodeImports
from gpu2npu.engine.matches import Matches
from gpu2npu.engine.table import RuleTable
from gpu2npu.kinds.class_ import ClassMatch
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.tokens import name_bounds, statement_end
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import DEFINITIONS, Definition, arguments
from gpu2npu.records import Bounds, Edit, FindingKind, Found, Operation
from gpu2npu.rulebook.code_matching import Matched
from gpu2npu.rulebook.code_pattern import parse_code
from gpu2npu.rulebook.rule import Rule

_CLOSE = re.compile(r"[ \t]*,?[ \t]*\)")
_OPEN = re.compile(r"[ \t]*\([ \t]*\Z")


class Definitions:
    """Applies rules for classes and decorators in one file."""

    def __init__(self, names: Names, table: RuleTable, matches: Matches, imports: CodeImports) -> None:
        self.names = names
        self.file = names.file
        self.table = table
        self.matches = matches
        self.imports = imports

    def run(self) -> None:
        """Apply the rules to every definition."""
        classes, decorators = self.table.of("class"), self.table.of("decorator")
        if not (classes or decorators):
            return
        removed: list[tuple[Rule, Matched]] = []
        for scope in self.file.scopes.values():
            node, outer = scope.node, scope.parent or scope
            if not isinstance(node, DEFINITIONS):
                continue
            for part in self._parts(node):
                callee = part.func if isinstance(part, ast.Call) else part
                rules = decorators if part in node.decorator_list else classes
                rule = self._rule(rules, callee, outer)
                if rule is not None and self._apply(rule, node, part, outer) and rule.then.remove:
                    removed.append((rule, Matched(callee, outer, names=[callee])))
        self.imports.plan([], [matched for _, matched in removed])
        for rule, matched in removed:
            self.imports.drop(matched.names, rule)
        self.matches.edits += self.imports.edits()

    def _parts(self, node: Definition) -> list[ast.expr]:
        return [*(node.bases if isinstance(node, ast.ClassDef) else ()), *node.decorator_list]

    def _rule(self, rules: dict[str, list[Rule]], node: ast.expr, scope: Scope) -> Rule | None:
        """The rule for a base or a decorator, by what it means."""
        qualified = self.names.qualified(node, scope) if rules else None
        found = rules.get((qualified or "").rpartition(".")[2], ())
        return next((rule for rule in found if rule.match.qualified == qualified), None)

    def _apply(self, rule: Rule, node: Definition, part: ast.expr, scope: Scope) -> bool:
        """Apply a rule to a base or decorator; return whether it makes an edit."""
        if rule.then.keep:
            return False
        place = self.file.bounds(part)
        self.matches.note(rule, place, self.file.code(part))
        add = rule.then.add
        edit: Edit | None = None
        if rule.then.remove:
            is_base = isinstance(rule.match, ClassMatch) and isinstance(node, ast.ClassDef)
            edit = self._without_base(rule, node, part) if is_base else self._without_decorator(rule, part)
        elif add is not None:
            if self._has(node, add.code, scope):
                return False
            edit = (
                self._with_base(rule, node, part, scope)
                if add.what == "base"
                else self._decorated(rule, node, part, scope)
            )
        else:
            return False
        if edit is None:
            message = f"{rule.why} The definition is written in a way that is not edited: change it by hand."
            self.matches.found.append(Found(place, rule.id, FindingKind.REVIEW, self.file.code(part), message))
        else:
            self.matches.edits.append(edit)
        return edit is not None

    def _has(self, node: Definition, code: str, scope: Scope) -> bool:
        """Return whether a definition has the base or decorator already."""
        tree = parse_code(code).tree
        wanted = ast.unparse(tree.func if isinstance(tree, ast.Call) else tree)
        callees = (each.func if isinstance(each, ast.Call) else each for each in self._parts(node))
        return any(self.names.qualified(each, scope) == wanted for each in callees)

    def _spelled(self, rule: Rule, part: ast.expr, scope: Scope) -> tuple[str, tuple[str, ...]] | None:
        """The code that a rule adds beside a base or decorator, as the file spells it, and the imports it needs."""
        add = rule.then.add
        assert add is not None
        callee = part.func if isinstance(part, ast.Call) else part
        imports = CodeImports(self.names, frozenset(), may_edit=False, spelling=set())
        return imports.written(rule, scope, add.code, [callee])

    def _with_base(self, rule: Rule, node: Definition, part: ast.expr, scope: Scope) -> Edit | None:
        assert isinstance(node, ast.ClassDef)
        written = self._spelled(rule, part, scope)
        if written is None:
            return None
        start = self.file.bounds(node.bases[0])[0]
        header = name_bounds(self.file, node)[0], self.file.bounds(arguments(node)[-1])[1]
        edit = Edit((start, start), f"{written[0]}, ", rule.id, rule.why, shown=header, needs=written[1])
        return edit if self.file.text[:start].rstrip().endswith("(") else None

    def _decorated(self, rule: Rule, node: Definition, part: ast.expr, scope: Scope) -> Edit | None:
        written = self._spelled(rule, part, scope)
        first = node.decorator_list[0] if node.decorator_list else node
        start = self.file.bounds(first)[0]
        start = self.file.text.rindex("@", 0, start) if first is not node else start
        indentation = self.file.indentation(start)
        if written is None or self.file.line_before(start) != indentation:
            return None
        text = f"@{written[0]}{self.file.newline}{indentation}"
        return Edit((start, start), text, rule.id, rule.why, needs=written[1], operation=Operation.INSERT)

    def _without_decorator(self, rule: Rule, part: ast.expr) -> Edit | None:
        start, end = self.file.bounds(part)
        start = self.file.text.rindex("@", 0, start)
        indentation = self.file.indentation(start)
        if self.file.line_before(start) != indentation:
            return None
        line = start - len(indentation), statement_end(self.file.text, end)
        return Edit((start, end), "", rule.id, rule.why, replaced=line, operation=Operation.DELETE)

    def _without_base(self, rule: Rule, node: Definition, part: ast.expr) -> Edit | None:
        assert isinstance(node, ast.ClassDef)
        given = arguments(node)
        bounds = [self.file.bounds(each) for each in given]
        index = given.index(part)
        gap = self._gap(node, bounds, index)
        if gap is None or "#" in self.file.text[gap[0] : gap[1]]:
            return None
        header = name_bounds(self.file, node)[0], max(bounds[-1][1], gap[1])
        return Edit(bounds[index], "", rule.id, rule.why, shown=header, replaced=gap, operation=Operation.DELETE)

    def _gap(self, node: ast.ClassDef, bounds: list[Bounds], index: int) -> Bounds | None:
        """The base with the comma that goes with it, or with the brackets where it is alone."""
        start, end = bounds[index]
        if index + 1 < len(bounds):
            return start, bounds[index + 1][0]
        if index:
            return bounds[index - 1][1], end
        name_end = name_bounds(self.file, node)[1]
        close = _CLOSE.match(self.file.text, end)
        is_open = _OPEN.match(self.file.text[name_end:start]) is not None
        return (name_end, close.end()) if close is not None and is_open else None
