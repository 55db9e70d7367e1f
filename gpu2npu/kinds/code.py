"""Rules for code by a pattern with metavariables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gpu2npu.rulebook.code_pattern import ANYTHING, CodePattern, PatternError, check_pattern, parse_code, qualified_name
from gpu2npu.rulebook.match import Evidence, Json, Match

_PLAIN = ("name", "literal")  # what may be written twice


@dataclass(frozen=True)
class CodeMatch(Match):
    """An expression, by a pattern such as `lib.norm($X, eps=$EPS, ...)`.

    `types` says for metavariables what they must be: tensor, module, device, dtype, literal, name, or the qualified
    name of a class. `signature` are the parameters of the function that is called, in their order, so that an argument
    counts by position and by keyword.
    """

    code: str
    types: tuple[tuple[str, str], ...] = ()
    signature: tuple[str, ...] = ()

    key = "code"
    shape: ClassVar[Json] = {
        "code": {
            "description": "An expression: $X is any expression, the same at each place, $_ any at all, ... any "
            "further arguments; names are qualified ones.",
            "type": "string",
            "minLength": 1,
        },
        "types": {
            "description": "What metavariables must be: tensor, module, device, dtype, literal, name, or the qualified "
            "name of a class.",
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": "^[A-Z_][A-Z0-9_]*$"},
            "additionalProperties": {"$ref": "#/$defs/qualified_name"},
        },
        "signature": {
            "description": "The parameters of the function that is called, in their order, without self.",
            "type": "array",
            "items": {"$ref": "#/$defs/identifier"},
            "uniqueItems": True,
        },
    }
    actions = ("replace", "remove", "add", "imports")
    additions = ("statement",)
    starter: ClassVar[Json] = {
        "$comment": "Code by a pattern: $X is any expression, ... any further arguments, names are qualified ones.",
        "why": "The NPU build of the function has another name and another name for its tolerance.",
        "match": {"code": "fastlib.gpu.norm($X, eps=$EPS, ...)", "signature": ["x", "eps"]},
        "then": {"replace": "fastlib.npu.norm($X, epsilon=$EPS, ...)"},
        "examples": [
            {
                "before": "from fastlib.gpu import norm\ny = norm(x, 1e-5, out=z)\n",
                "after": "from fastlib.npu import norm\ny = norm(x, epsilon=1e-5, out=z)\n",
            },
            {"keep": "def norm(x, eps): ...\ny = norm(x, eps=1e-5)\n"},
        ],
    }

    @property
    def pattern(self) -> CodePattern:
        """The pattern, parsed."""
        return parse_code(self.code)

    @property
    def index(self) -> str:
        return self.pattern.leaf

    @property
    def evidence(self) -> Evidence:
        return Evidence(" ".join(sorted(self.pattern.words)))

    @property
    def qualified(self) -> str | None:
        name = qualified_name(self.pattern.names[0])
        return name if name is not None and "." in name else None

    @property
    def importable(self) -> frozenset[str]:
        return frozenset(self.pattern.parts)

    @property
    def callee_leaves(self) -> frozenset[str]:
        return self.pattern.words

    @property
    def text(self) -> str:
        types = ", ".join(f"`${name}` is a {kind}" for name, kind in self.types)
        return f"the code `{self.code}`" + (f" where {types}" if types else "")

    @property
    def subject(self) -> str:
        return self.code

    @classmethod
    def decode(cls, entry: Mapping[str, Any]) -> CodeMatch:
        return cls(entry["code"], tuple(entry.get("types", {}).items()), tuple(entry.get("signature", ())))

    def encode(self) -> dict[str, Any]:
        entry = {"code": self.code, "types": dict(self.types), "signature": list(self.signature)}
        return {key: value for key, value in entry.items() if value}

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        match, then = entry["match"], entry["then"]
        try:
            pattern = check_pattern(match["code"])
        except PatternError as error:
            yield "match.code", str(error)
            return
        known = pattern.metavariables.keys() - {ANYTHING}
        types = match.get("types", {})
        for name in types.keys() - known:
            yield f"match.types.{name}", f"the pattern has no metavariable ${name}"
        if "replace" not in then:
            return
        try:
            new = parse_code(then["replace"])
        except PatternError as error:
            yield "then.replace", str(error)
            return
        for name, count in new.metavariables.items():
            if name not in known:
                yield "then.replace", f"the metavariable ${name} is not in the pattern"
            elif count > 1 and types.get(name) not in _PLAIN:
                yield (
                    "then.replace",
                    f"${name} stands {count} times in it, so that its code would run {count} times; say in 'types' "
                    f"that it is a name or a literal, or write it once",
                )
        if new.has_rest and not pattern.has_rest:
            yield "then.replace", "`...` stands for the arguments that `...` of the pattern matches, and it has none"
