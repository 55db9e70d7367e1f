"""Rules for definitions of classes, by a base that they name."""

from __future__ import annotations

import ast
from typing import ClassVar

from gpu2npu.engine.file_rules import FileRules
from gpu2npu.engine.rewriting.definitions import Definitions
from gpu2npu.python.text.templates import code as new_code
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.syntax import Definition, arguments
from gpu2npu.records import Edit, Operation
from gpu2npu.rulebook.match import Json, ReferenceMatch
from gpu2npu.rulebook.rule import Rule


class ClassMatch(ReferenceMatch, frozen=True):
    """The definition of a class that names the class of a qualified name among its bases."""

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


class _Bases(Definitions):
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
