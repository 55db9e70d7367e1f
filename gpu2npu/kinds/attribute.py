"""Rules for attributes by their names alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpu2npu.rulebook.match import IDENTIFIER, Evidence, Json, Match, leaf


@dataclass(frozen=True)
class AttributeMatch(Match):
    """An attribute that is read, `x.is_cuda`, on anything but an object whose class defines it itself.

    `of`: only on what a call of this function gave; else on any object.
    """

    attribute: str
    of: str | None = None

    key = "attribute"
    shape: ClassVar[Json] = {
        "attribute": {
            "description": "An attribute that is read, with `of` a method that is called too.",
            "$ref": "#/$defs/identifier",
        },
        "of": {
            "description": "The function whose result it is read on; any object unless given.",
            "$ref": "#/$defs/qualified_name",
        },
    }
    actions = ("rename", "imports")
    new_name = (IDENTIFIER, "an identifier")
    starter: ClassVar[Json] = {
        "$comment": "An attribute that is read, by its name alone.",
        "why": "Our wrappers tell the device by another attribute.",
        "match": {"attribute": "on_gpu"},
        "then": {"rename": "on_npu"},
        "examples": [{"before": "if batch.on_gpu: ...\n", "after": "if batch.on_npu: ...\n"}],
    }

    @property
    def evidence(self) -> Evidence:
        return Evidence(f"{leaf(self.of or '')} {self.attribute}".strip())

    @property
    def text(self) -> str:
        return f"reads of `.{self.attribute}`" + (f" on what `{self.of}` gives" if self.of else "")

    @property
    def subject(self) -> str:
        return f"{f'{self.of}()' if self.of else ''}.{self.attribute}"
