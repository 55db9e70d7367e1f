"""Rules for definitions of classes, by a base that they name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpu2npu.rulebook.match import Json, ReferenceMatch


@dataclass(frozen=True)
class ClassMatch(ReferenceMatch):
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
