"""Rules for qualified names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpu2npu.rulebook.match import QUALIFIED_NAME, Evidence, Json, Match, last_two, leaf


@dataclass(frozen=True)
class NameMatch(Match):
    """A qualified name and everything under it: `torch.cuda` also matches `torch.cuda.amp.autocast`."""

    name: str

    key = "name"
    shape: ClassVar[Json] = {
        "name": {
            "description": "A qualified name and everything under it, however it was imported.",
            "$ref": "#/$defs/qualified_name",
        }
    }
    actions = ("rename", "needs_target", "imports")
    new_name = (QUALIFIED_NAME, "a qualified name")
    starter: ClassVar[Json] = {
        "$comment": "A function, class or module by its full name, in whatever way files import it.",
        "why": "Our kernels have an Ascend build under another name.",
        "match": {"name": "fastlib.gpu.fused_norm"},
        "then": {"rename": "fastlib.npu.fused_norm"},
        "examples": [
            {
                "before": "from fastlib.gpu import fused_norm\ny = fused_norm(x)\n",
                "after": "from fastlib.npu import fused_norm\ny = fused_norm(x)\n",
            },
            {"keep": "def fused_norm(x): ...\ny = fused_norm(x)\n"},
        ],
    }

    @property
    def evidence(self) -> Evidence:
        return Evidence(last_two(self.name))

    @property
    def qualified(self) -> str:
        return self.name

    @property
    def text(self) -> str:
        return f"the name `{self.name}` and what is under it, however it was imported"

    @property
    def subject(self) -> str:
        return self.name

    @property
    def importable(self) -> frozenset[str]:
        return frozenset({self.word})

    def covers(self, other: Match) -> bool:
        return isinstance(other, NameMatch) and other.name.startswith(f"{self.name}.")

    @property
    def word(self) -> str:
        return leaf(self.name)
