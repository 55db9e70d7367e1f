"""Rules for methods by their names alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gpu2npu.rulebook.match import IDENTIFIER, Json, Match

ANYTHING = frozenset({"tensor", "module", "unknown"})


@dataclass(frozen=True)
class MethodMatch(Match):
    """A method that is called, `x.cuda(...)`, on a receiver of one of the kinds tensor, module, unknown."""

    method: str
    receiver: frozenset[str] = ANYTHING

    key = "method"
    shape: ClassVar[Json] = {
        "method": {"description": "A method that is called.", "$ref": "#/$defs/identifier"},
        "receiver": {
            "description": "What it may be called on; all three unless given.",
            "type": "array",
            "items": {"enum": ["tensor", "module", "unknown"]},
            "minItems": 1,
            "uniqueItems": True,
        },
    }
    actions = ("rename", "imports")
    new_name = (IDENTIFIER, "an identifier")
    starter: ClassVar[Json] = {
        "$comment": "A method by its name alone; objects of a class of the project that defines it are left out.",
        "why": "Our wrappers move to the NPU with another method.",
        "match": {"method": "to_gpu"},
        "then": {"rename": "to_npu"},
        "examples": [{"before": "batch = batch.to_gpu()\n", "after": "batch = batch.to_npu()\n"}],
    }

    @property
    def text(self) -> str:
        return f"calls of `.{self.method}()` on: {', '.join(sorted(self.receiver))}"

    @property
    def subject(self) -> str:
        return f".{self.method}()"

    def meets(self, other: Match) -> bool:
        return isinstance(other, MethodMatch) and self.method == other.method

    def encode(self) -> dict[str, Any]:
        return {"method": self.method, "receiver": sorted(self.receiver)}
