"""Rules for definitions of classes, by a base that they name."""

from __future__ import annotations

import ast
import re
from typing import ClassVar

from gpu2npu.engine.file_rules import FileRules
from gpu2npu.engine.rewriting.definitions import Definitions
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.syntax import Definition, arguments
from gpu2npu.records import Bounds, Edit, Operation
from gpu2npu.rulebook.match import Json, ReferenceMatch
from gpu2npu.rulebook.rule import Rule

_CLOSE = re.compile(r"[ \t]*,?[ \t]*\)")
_OPEN = re.compile(r"[ \t]*\([ \t]*\Z")


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
            edit = Edit((start, start), f"{code}, ", rule.id, rule.why, shown=(name, bounds[-1][1]), needs=needs)
            return edit if self.file.text[:start].rstrip().endswith("(") else "its first base is not behind the bracket"
        index = given.index(part)
        gap = self._gap(node, bounds, index)
        if gap is None or "#" in self.file.text[gap[0] : gap[1]]:
            return "more than the base stands between the brackets"
        shown = name, max(bounds[-1][1], gap[1])
        return Edit(bounds[index], "", rule.id, rule.why, shown, replaced=gap, operation=Operation.DELETE)

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
