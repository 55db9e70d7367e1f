"""Rules for methods and attributes of a class, by the qualified name of the class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpu2npu.kinds.attribute import AttributeMatch
from gpu2npu.kinds.method import MethodMatch
from gpu2npu.rulebook.match import IDENTIFIER, Evidence, Json, Match, leaf


@dataclass(frozen=True)
class MemberMatch(Match):
    """A method or attribute of a class and of its subclasses: where it is called, read or assigned, and where a
    subclass of the project defines it."""

    member: str

    key = "member"
    shape: ClassVar[Json] = {
        "member": {
            "description": "A method or attribute with the qualified name of its class: lib.Trainer.to_gpu.",
            "type": "string",
            "pattern": r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$",
        }
    }
    actions = ("rename", "imports")
    new_name = (IDENTIFIER, "an identifier")
    starter: ClassVar[Json] = {
        "$comment": "A method or attribute of a class and its subclasses: uses, and definitions that override it.",
        "why": "The trainer of our library moves to the NPU by another method, which projects override.",
        "match": {"member": "fastlib.Trainer.to_gpu"},
        "then": {"rename": "to_npu"},
        "examples": [
            {
                "before": "import fastlib\n\n\nclass Ours(fastlib.Trainer):\n    def to_gpu(self):\n"
                "        return super().to_gpu()\n\n\nOurs().to_gpu()\n",
                "after": "import fastlib\n\n\nclass Ours(fastlib.Trainer):\n    def to_npu(self):\n"
                "        return super().to_npu()\n\n\nOurs().to_npu()\n",
            },
            {"keep": "import fastlib\n\nfastlib.Loader().to_gpu()\n"},
        ],
    }

    @property
    def name(self) -> str:
        """The member's own name."""
        return leaf(self.member)

    @property
    def owner(self) -> str:
        """The qualified name of the class."""
        return self.member.rpartition(".")[0]

    @property
    def index(self) -> str:
        return self.name

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.name)

    @property
    def text(self) -> str:
        return f"the member `{self.name}` of `{self.owner}` and its subclasses, and definitions that override it"

    @property
    def subject(self) -> str:
        return self.member

    def meets(self, other: Match) -> bool:
        return isinstance(other, MemberMatch) and self.name == other.name

    def before(self, other: Match) -> str | None:
        if isinstance(other, (MethodMatch, AttributeMatch)) and other.index == self.name:
            return "rules for the members of a class come before rules for members by name"
        return None
