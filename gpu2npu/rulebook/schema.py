"""The JSON Schema of rule files, whose frame is the published file and whose matches are what the kinds say; and a rule
file to start from for each kind."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from gpu2npu.builtin_rules import SCHEMA_NAME, schema_path
from gpu2npu.rulebook.match import kinds

_COMMENT = [
    "A rule file of gpu2npu. JSON has no comments: what stands under $comment is for readers.",
    "Try it with `gpu2npu rules test FILE`, use it with `gpu2npu -i SRC -o OUT -v VERSION -r FILE`.",
    "Change the rule below into yours: what it matches, what then happens, why, and examples that prove it.",
]


@cache
def schema() -> dict[str, Any]:
    """The schema with the shape of every kind of match."""
    loaded: dict[str, Any] = json.loads(schema_path().read_text(encoding="utf-8"))
    loaded["$defs"]["match"] = {"oneOf": [kind.schema() for kind in kinds().values()]}
    return loaded


def schema_text() -> str:
    """The text of the published file, rules/rule.schema.json."""
    return _text(schema())


def starter(rule_id: str, kind: str) -> str:
    """The text of a rule file with one rule of a kind of match, whose examples pass."""
    rule = {"id": rule_id, **kinds()[kind].starter}
    return _text({"$schema": f"./{SCHEMA_NAME}", "$comment": _COMMENT, "rules": [rule]})


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
