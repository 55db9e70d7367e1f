"""Rules for settings of configurations, by the path of their keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gpu2npu.rulebook.match import Json, Match, leaf, listed


@dataclass(frozen=True)
class SettingMatch(Match):
    """A value in YAML, JSON or TOML, and in settings of a command line, by the path of its keys: `trainer.*.device`.

    `*` is any one key, `**` any number of them; lists are passed through. With `values`, only where the value is one of
    these strings.
    """

    setting: str
    values: frozenset[str] = frozenset()

    key = "setting"
    shape: ClassVar[Json] = {
        "setting": {
            "description": "Keys with dots between them: * is any one key, ** any number of them; the last is a key.",
            "type": "string",
            "pattern": r"^([^.\s]+\.)*(?!\*)[^.\s]+$",
        },
        "values": {"description": "Only where the value is one of these strings.", "$ref": "#/$defs/words"},
    }
    actions = ("rename",)
    starter: ClassVar[Json] = {
        "$comment": "A setting in YAML, JSON or TOML by the path of its keys: * is any one key, ** any number of them.",
        "why": "The trainer of our library takes another accelerator on the NPU.",
        "match": {"setting": "trainer.*.accelerator", "values": ["gpu", "cuda"]},
        "then": {"rename": "npu"},
        "examples": [
            {
                "file": "conf.yaml",
                "before": "trainer:\n  main:\n    accelerator: gpu  # A100\n",
                "after": "trainer:\n  main:\n    accelerator: npu  # A100\n",
            },
            {"file": "conf.yaml", "keep": "plot:\n  main:\n    accelerator: gpu-line\n"},
        ],
    }

    @property
    def index(self) -> str:
        return leaf(self.setting)

    @property
    def evidence(self) -> None:
        return None

    @property
    def only_python(self) -> bool:
        return False

    @property
    def text(self) -> str:
        values = f" where it is {listed(self.values)}" if self.values else ""
        return f"the setting `{self.setting}` of configurations{values}"

    @property
    def subject(self) -> str:
        return f"{self.setting}: {' | '.join(sorted(self.values)) or '...'}"

    def fits(self, keys: Sequence[str], value: str | None) -> bool:
        """Return whether a value below some keys is the setting; None is a value that is not a string."""
        if self.values and value not in self.values:
            return False
        steps = {"*": r"[^\0]+\0", "**": r"(?:[^\0]+\0)*"}
        pattern = "".join(steps.get(step, re.escape(step) + r"\0") for step in self.setting.split("."))
        return re.fullmatch(pattern, "".join(f"{key}\0" for key in keys)) is not None

    def meets(self, other: Match) -> bool:
        if not isinstance(other, SettingMatch) or self.setting != other.setting:
            return False
        return not self.values or not other.values or not self.values.isdisjoint(other.values)

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        if "rename" in entry["then"] and "values" not in entry["match"]:
            yield "then.rename", "writes another value, so the match must say which it is now: give 'values'"
