"""Rules for definitions of functions and classes, by a base that a class names or by a decorator."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import ClassVar

from gpu2npu.engine.code_matching import Matched
from gpu2npu.engine.file_rules import FileRules
from gpu2npu.engine.rewriting.code_imports import CodeImports
from gpu2npu.python.text.blocks import next_line
from gpu2npu.python.text.concrete import has_comment
from gpu2npu.python.text.templates import code as new_code
from gpu2npu.python.text.templates import lines_above
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import DEFINITIONS, Definition, argument_value, arguments, has_effects
from gpu2npu.records import Edit, Operation
from gpu2npu.rulebook.code_pattern import parse_code
from gpu2npu.rulebook.match import Json, ReferenceMatch
from gpu2npu.rulebook.rule import Rule

_Parts = Callable[[Definition], Sequence[ast.expr]]


class ClassMatch(ReferenceMatch, frozen=True):
    """The definition of a class that names this one as a base."""

    base: str

    key = "class"
    shape: ClassVar[Json] = {
        "class": {
            "description": "Definitions of classes that name this one, by its qualified name, as a base.",
            "$ref": "#/$defs/qualified_name",
        }
    }
    actions = ("add", "remove")
    additions = ("base", "decorator")
    order = -1
    starter: ClassVar[Json] = {
        "$comment": "A class that names this one as a base: give it another base or a decorator, or take the base out.",
        "why": "Models of our library train on the NPU with a mixin.",
        "match": {"class": "fastlib.Model"},
        "then": {"add": {"base": "fastlib.npu.Mixin"}},
        "examples": [
            {
                "before": "import fastlib\n\n\nclass Net(fastlib.Model):\n    pass\n",
                "after": "import fastlib\n\n\nclass Net(fastlib.npu.Mixin, fastlib.Model):\n    pass\n",
            },
            {"keep": "import fastlib\n\n\nclass Net(fastlib.npu.Mixin, fastlib.Model):\n    pass\n"},
        ],
    }

    @property
    def text(self) -> str:
        return f"definitions of classes with the base `{self.base}`"

    @property
    def subject(self) -> str:
        return f"class ...({self.base})"

    @classmethod
    def in_python(cls, work: FileRules) -> None:
        _Bases(work, cls.key, lambda node: node.bases if isinstance(node, ast.ClassDef) else ()).run()


class DecoratorMatch(ReferenceMatch, frozen=True):
    """A function or class with this decorator, called or not."""

    decorator: str

    key = "decorator"
    shape: ClassVar[Json] = {
        "decorator": {
            "description": "Functions and classes with this decorator, by its qualified name, called or not.",
            "$ref": "#/$defs/qualified_name",
        }
    }
    actions = ("add", "remove")
    additions = ("decorator",)
    order = -1
    starter: ClassVar[Json] = {
        "$comment": "A decorated function or class: take the decorator out, or add another above it.",
        "why": "The NPU build of our library captures no graphs.",
        "match": {"decorator": "fastlib.cuda_graph"},
        "then": {"remove": True},
        "examples": [
            {
                "before": "import fastlib\n\n\n@fastlib.cuda_graph(warmup=3)\n@fastlib.timed\ndef step(): ...\n",
                "after": "import fastlib\n\n\n@fastlib.timed\ndef step(): ...\n",
            },
            {"keep": "from ours import cuda_graph\n\n\n@cuda_graph\ndef step(): ...\n"},
        ],
    }

    @property
    def text(self) -> str:
        return f"functions and classes with the decorator `{self.decorator}`"

    @property
    def subject(self) -> str:
        return f"@{self.decorator}"

    @classmethod
    def in_python(cls, work: FileRules) -> None:
        _Decorators(work, cls.key, lambda node: node.decorator_list).run()


class _Definitions:
    """Applies the rules of a kind that is for some parts of definitions in one file."""

    def __init__(self, work: FileRules, kind: str, parts: _Parts) -> None:
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
            self.matches.review(rule, place, self.file.code(part), message)
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


class _Bases(_Definitions):
    """Applies rules for the bases of classes in one file."""

    def edited(self, rule: Rule, node: Definition, part: ast.expr, code: str, needs: tuple[str, ...]) -> Edit | str:
        assert isinstance(node, ast.ClassDef)
        given = arguments(node)
        bounds = [self.file.bounds(each) for each in given]
        name = name_bounds(self.file, node)[0]
        if not rule.then.remove:
            start = self.file.bounds(node.bases[0])[0]
            text, shown = new_code("{base}, ", base=code), (name, bounds[-1][1])
            edit = Edit((start, start), text, rule.id, rule.why, shown, needs=needs)
            return edit if self.file.text[:start].rstrip().endswith("(") else "its first base is not behind the bracket"
        place, shown = bounds[given.index(part)], (name, bounds[-1][1])
        return Edit(place, "", rule.id, rule.why, shown, operation=Operation.DELETE)


class _Decorators(_Definitions):
    """Applies rules for decorators in one file."""

    def edited(self, rule: Rule, node: Definition, part: ast.expr, code: str, needs: tuple[str, ...]) -> Edit | str:
        given = [argument_value(each) for each in arguments(part)] if isinstance(part, ast.Call) else []
        if any(map(has_effects, given)):
            return "what its arguments call would no longer run"
        inner, end = self.file.bounds(part)
        start = self.file.text.rindex("@", 0, inner)
        rest = self.file.text[start:inner] + self.file.text[end : next_line(self.file, end)]
        if "#" in rest or has_comment(self.file, part):
            return "a comment would be lost"
        return Edit((start, end), "", rule.id, rule.why, operation=Operation.DELETE)
