"""Rules for arguments of calls, and for keys of configurations and options of commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gpu2npu.rulebook.match import Evidence, Json, Match, callee_text, leaf, listed, may_be_one
from gpu2npu.rulebook.template import TemplateError, check_template


@dataclass(frozen=True)
class ArgumentMatch(Match):
    """An argument of a call of `of`: by keyword, or by position counted from 0.

    With `value`, only where it is that string. Arguments written as one of `unless` are left alone, and so are those in
    whose code the regular expression `unless_found` finds something, in any case.
    """

    argument: str | int
    of: str
    value: str | None = None
    unless: frozenset[str] = frozenset()
    unless_found: str | None = None

    key = "argument"
    shape: ClassVar[Json] = {
        "argument": {
            "description": "A keyword, or a position counted from 0.",
            "oneOf": [{"$ref": "#/$defs/identifier"}, {"type": "integer", "minimum": 0}],
        },
        "of": {"description": "The function that is called.", "$ref": "#/$defs/callee"},
        "value": {"description": "The argument is this string.", "type": "string", "minLength": 1},
        "unless": {
            "description": "Arguments, as they are written, that the rule leaves alone.",
            "$ref": "#/$defs/words",
        },
    }
    actions = ("rename", "replace", "remove", "imports")
    starter: ClassVar[Json] = {
        "$comment": "An argument of a call, by keyword or by position counted from 0.",
        "why": "The NPU build has no graph capture.",
        "match": {"argument": "cuda_graph", "of": "fastlib.compile"},
        "then": {"remove": True},
        "examples": [
            {
                "before": "import fastlib\nfastlib.compile(net, cuda_graph=True)\n",
                "after": "import fastlib\nfastlib.compile(net)\n",
            }
        ],
    }

    @property
    def index(self) -> str:
        return f"*.{self.argument}" if self.is_of_any else leaf(self.of)

    @property
    def argument_name(self) -> str | int:
        return self.argument

    @property
    def is_of_any(self) -> bool:
        return self.of == "*" and isinstance(self.argument, str)

    @property
    def evidence(self) -> Evidence:
        words = (self.argument, self.value, self.of)
        return Evidence(" ".join(leaf(word) for word in words if isinstance(word, str) and word != "*"))

    @property
    def qualified(self) -> str:
        return self.of

    @property
    def only_python(self) -> bool:
        return "." in self.of

    @property
    def callee_leaves(self) -> frozenset[str]:
        return frozenset({leaf(self.of)}) if "." in self.of else frozenset()

    @property
    def text(self) -> str:
        number = isinstance(self.argument, int)
        which = f"argument {self.argument} (from 0)" if number else f"argument `{self.argument}`"
        text = f"the {which} of calls of {'any function' if self.of == '*' else callee_text(self.of)}"
        if self.value is not None:
            text += f", where it is the string `{self.value}`"
        if self.unless:
            text += f", unless it is written {listed(self.unless)}"
        if self.unless_found is not None:
            text += f", unless `{self.unless_found}` is found in it"
        return text

    @property
    def subject(self) -> str:
        return f"{self.of}({self.argument}{f'={self.value!r}' if self.value else ''})"

    @property
    def word(self) -> str:
        return leaf(self.of) if self.of != "*" else str(self.argument)

    def is_on(self, line: str) -> bool:
        return (self.value is None or self.value in line) and super().is_on(line)

    def meets(self, other: Match) -> bool:
        if not isinstance(other, ArgumentMatch) or self.argument != other.argument:
            return False
        same_value = self.value is None or other.value is None or self.value == other.value
        return may_be_one(self.of, other.of) and same_value

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        then = entry["then"]
        if "rename" in then and "value" not in entry["match"]:
            yield "then.rename", "renames the value of an argument, so the match must say which: give 'value'"
        try:
            pieces = check_template(then["replace"], argument=True) if "replace" in then else ()
        except TemplateError as error:
            yield "then.replace", str(error)
            return
        for piece in pieces:
            if piece.field not in (None, "value"):
                yield "then.replace", f"the field {{{piece.field}}} is none of an argument; use {{value}}"
