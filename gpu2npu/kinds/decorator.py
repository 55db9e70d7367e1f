"""Rules for decorated functions and classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpu2npu.rulebook.match import Json, ReferenceMatch


@dataclass(frozen=True)
class DecoratorMatch(ReferenceMatch):
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
