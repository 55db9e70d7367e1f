"""The part that rules for bases and those for decorators have in common."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from gpu2npu.engine.code_matching import Matched
from gpu2npu.engine.file_rules import FileRules
from gpu2npu.engine.rewriting.code_imports import CodeImports
from gpu2npu.python.text.templates import code as new_code
from gpu2npu.python.text.templates import lines_above
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import DEFINITIONS, Definition
from gpu2npu.records import Edit, FindingKind, Found, Operation
from gpu2npu.rulebook.code_pattern import parse_code
from gpu2npu.rulebook.rule import Rule

Parts = Callable[[Definition], Sequence[ast.expr]]


class Definitions:
    """Applies the rules of a kind that is for some parts of definitions in one file."""

    def __init__(self, work: FileRules, kind: str, parts: Parts) -> None:
        self.names = work.names
        self.file = work.names.file
        self.matches = work.matches
        self.rules = work.table.of(kind) if work.has_name_of(kind) else {}
        self.imports = CodeImports(work.names, work.may_rename, work.spelling)
        self.parts = parts
        self._added: set[tuple[ast.AST, str]] = set()  # definitions with the code that they get

    def run(self) -> None:
        """Apply the rules to every definition."""
        removed: list[tuple[Rule, Matched]] = []
        for scope in self.file.scopes.values() if self.rules else ():
            node, outer = scope.node, scope.parent or scope
            for part in self.parts(node) if isinstance(node, DEFINITIONS) else ():
                assert isinstance(node, DEFINITIONS)
                callee = part.func if isinstance(part, ast.Call) else part
                rule = self._rule(callee, outer)
                if rule is not None and self._apply(rule, node, part, outer) and rule.then.remove:
                    removed.append((rule, Matched(callee, outer, names=[callee])))
        self.imports.plan([], [matched for _, matched in removed])
        for rule, matched in removed:
            self.imports.drop(matched.names, rule)
        self.matches.edit(*self.imports.edits())

    def _rule(self, node: ast.expr, scope: Scope) -> Rule | None:
        """The rule for a base or a decorator, by what it means."""
        qualified = self.names.qualified(node, scope)
        found = self.rules.get((qualified or "").rpartition(".")[2], ())
        return next((rule for rule in found if rule.match.qualified == qualified), None)

    def _apply(self, rule: Rule, node: Definition, part: ast.expr, scope: Scope) -> bool:
        """Apply a rule to a base or decorator; return whether it makes an edit."""
        add = rule.then.add
        if rule.then.keep:
            return False
        place = self.file.bounds(part)
        self.matches.note(rule, place, self.file.code(part))
        if not rule.then.remove and (add is None or self._has(node, add.code, scope)):
            return False
        written = self._spelled(rule, add.code, part, scope) if add is not None else ("", ())
        edit: Edit | str = "a name of the new code means something else at this place"
        if written is not None and add is not None and add.what == "decorator":
            edit = self._decorated(rule, node, *written)
        elif written is not None:
            edit = self.edited(rule, node, part, *written)
        if isinstance(edit, str):
            message = f"{rule.why} The definition is not edited here: {edit}. Change it by hand."
            self.matches.report(Found(place, rule.id, FindingKind.REVIEW, self.file.code(part), message))
        else:
            self.matches.edit(edit)
            self._added |= {(node, add.code)} if add is not None else set()
        return isinstance(edit, Edit)

    def edited(self, rule: Rule, node: Definition, part: ast.expr, code: str, needs: tuple[str, ...]) -> Edit | str:
        """The edit that takes a part out, or puts code beside it; where there is none, the reason."""
        raise NotImplementedError

    def _has(self, node: Definition, code: str, scope: Scope) -> bool:
        """Return whether a definition has the base or decorator already, or gets it."""
        if (node, code) in self._added:
            return True
        tree = parse_code(code).tree
        wanted = ast.unparse(tree.func if isinstance(tree, ast.Call) else tree)
        parts = [*(node.bases if isinstance(node, ast.ClassDef) else ()), *node.decorator_list]
        callees = (each.func if isinstance(each, ast.Call) else each for each in parts)
        return any(self.names.qualified(each, scope) == wanted for each in callees)

    def _spelled(self, rule: Rule, code: str, part: ast.expr, scope: Scope) -> tuple[str, tuple[str, ...]] | None:
        """The code that a rule adds beside a base or decorator, as the file spells it, and the imports it needs."""
        callee = part.func if isinstance(part, ast.Call) else part
        imports = CodeImports(self.names, may_edit=False, spelling=set())
        return imports.written(rule, scope, code, [callee])

    def _decorated(self, rule: Rule, node: Definition, code: str, needs: tuple[str, ...]) -> Edit | str:
        first = node.decorator_list[0] if node.decorator_list else node
        start = self.file.bounds(first)[0]
        start = self.file.text.rindex("@", 0, start) if first is not node else start
        indentation = self.file.indentation(start)
        if self.file.line_before(start) != indentation:
            return "it does not begin a line"
        text = lines_above(self.file, start, [new_code("@{decorator}", decorator=code)])
        return Edit((start, start), text, rule.id, rule.why, needs=needs, operation=Operation.INSERT)
