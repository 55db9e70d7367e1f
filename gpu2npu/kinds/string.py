"""Rules for whole strings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpu2npu.engine.file_rules import FileRules, RuledString
from gpu2npu.engine.strings.prose import is_spoken
from gpu2npu.kinds.pattern import PatternMatch
from gpu2npu.rulebook.match import Json, Match


@dataclass(frozen=True)
class StringMatch(Match):
    """A string that stands where its role says it has the meaning, such as a device; without a role, anywhere."""

    string: str
    role: str | None = None

    key = "string"
    shape: ClassVar[Json] = {
        "string": {"description": "The string's text, on one line.", "type": "string", "pattern": "^[^\\r\\n]+$"},
        "role": {
            "description": "What it must mean where it stands: the name of a role. Without one, anything.",
            "type": "string",
        },
    }
    actions = ("rename", "needs_target", "imports")
    in_strings = True
    order = 5
    starter: ClassVar[Json] = {
        "$comment": 'A whole string. With "role": "device" only where it means a device.',
        "why": "Our launcher calls the NPU partition by another name.",
        "match": {"string": "gpu-partition"},
        "then": {"rename": "npu-partition"},
        "examples": [{"before": "submit('gpu-partition')\n", "after": "submit('npu-partition')\n"}],
    }

    @property
    def only_python(self) -> bool:
        return False

    @property
    def roles(self) -> frozenset[str]:
        return frozenset() if self.role is None else frozenset({self.role})

    @property
    def text(self) -> str:
        return f"the string `{self.string}`" + (f" where it means a {self.role}" if self.role else "")

    @property
    def subject(self) -> str:
        return f"{self.string!r}" + (f" as {self.role}" if self.role else "")

    def before(self, other: Match) -> str | None:
        if self.role is not None:
            return None
        if isinstance(other, StringMatch) and self.string == other.string:
            return "rules for whole strings come before rules for strings with a role"
        if isinstance(other, PatternMatch) and other.is_on(self.string):
            return "rules for whole strings come before patterns"
        return None

    @classmethod
    def in_text(cls, work: FileRules, ruled: RuledString) -> None:
        rule = work.table.texts.get(ruled.string.raw) if not ruled.string.is_formatted else None
        if rule is None:
            return
        ruled.rules.append(rule)
        ruled.is_settled = True
        if not rule.then.keep and (rule.then.rename is not None or not is_spoken(work.file, ruled.string.node)):
            work.matches.note(rule, ruled.string.place, ruled.string.raw)
            ruled.text = rule.then.rename if rule.then.rename is not None else ruled.text
