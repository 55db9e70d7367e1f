"""The JSON Schema of rule files: its frame is the published file, what rules can match is what the kinds say."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from gpu2npu.rulebook.builtin import schema_path
from gpu2npu.rulebook.kinds import KINDS


@cache
def schema() -> dict[str, Any]:
    """The schema with the shape of every kind of match."""
    loaded: dict[str, Any] = json.loads(schema_path().read_text(encoding="utf-8"))
    loaded["$defs"]["match"] = {"oneOf": [kind.schema() for kind in KINDS.values()]}
    return loaded


def schema_text() -> str:
    """The text of the published file, rules/rule.schema.json."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
