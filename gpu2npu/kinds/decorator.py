"""Rules for decorated functions and classes."""

from __future__ import annotations

import ast
from typing import ClassVar

from gpu2npu.engine.file_rules import FileRules
from gpu2npu.engine.rewriting.definitions import Definitions
from gpu2npu.python.text.blocks import next_line
from gpu2npu.python.text.concrete import has_comment
from gpu2npu.python.tree.syntax import Definition, argument_value, arguments, has_effects
from gpu2npu.records import Edit, Operation
from gpu2npu.rulebook.match import Json, ReferenceMatch
from gpu2npu.rulebook.rule import Rule


class DecoratorMatch(ReferenceMatch, frozen=True):
    """A function or class with a decorator of a qualified name, called or not."""

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


class _Decorators(Definitions):
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
