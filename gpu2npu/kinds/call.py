"""Rules for calls of functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gpu2npu.kinds.method import MethodMatch
from gpu2npu.kinds.name import NameMatch
from gpu2npu.rulebook.match import IDENTIFIER, Json, Match, ReferenceMatch, callee_text, leaf, may_be_one
from gpu2npu.rulebook.template import TemplateError, check_template


@dataclass(frozen=True)
class CallMatch(ReferenceMatch):
    """A call of a function, by its qualified name; `*.move` is any function or method that is called `move`.

    With `arguments`, only where it is called with so many; with `without`, only where that keyword argument is left to
    its default: no argument by position, and no `**`, may give it.
    """

    call: str
    arguments: int | None = None
    without: str | None = None

    key = "call"
    shape: ClassVar[Json] = {
        "call": {"description": "A function that is called.", "$ref": "#/$defs/callee"},
        "arguments": {"description": "Only with so many arguments.", "type": "integer", "minimum": 0},
        "without": {"description": "Only where this keyword is left to its default.", "$ref": "#/$defs/identifier"},
    }
    actions = ("rename", "replace", "imports")
    new_name = (IDENTIFIER, "an identifier")
    starter: ClassVar[Json] = {
        "$comment": "A call as a whole: {0} and {name} in replace are its arguments, {args} all of them.",
        "why": "On the NPU the communicator is made by another function, which takes the rank first.",
        "match": {"call": "fastlib.init_nccl"},
        "then": {"replace": "fastlib.init_hccl({rank}, {0})"},
        "examples": [
            {
                "before": "import fastlib\nfastlib.init_nccl(size, rank=3)\n",
                "after": "import fastlib\nfastlib.init_hccl(3, size)\n",
            }
        ],
    }

    @property
    def text(self) -> str:
        number = f" with {self.arguments} arguments" if self.arguments is not None else ""
        number += f" without `{self.without}=`" if self.without is not None else ""
        return f"calls of {callee_text(self.call)}{number}"

    @property
    def subject(self) -> str:
        return f"{self.call}()"

    def meets(self, other: Match) -> bool:
        if not isinstance(other, CallMatch) or not may_be_one(self.call, other.call):
            return False
        return self.arguments is None or other.arguments is None or self.arguments == other.arguments

    def before(self, other: Match) -> str | None:
        if isinstance(other, NameMatch) and may_be_one(self.call, other.name):
            return "rules for calls come before rules for names"
        if isinstance(other, MethodMatch) and other.method == leaf(self.call):
            return "rules for calls come before rules for methods"
        return None

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        if "replace" in entry["then"]:
            try:
                check_template(entry["then"]["replace"])
            except TemplateError as error:
                yield "then.replace", str(error)
