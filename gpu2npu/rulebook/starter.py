"""Rule files to start from, one for each kind of match: complete, with examples that pass."""

from __future__ import annotations

import json

from gpu2npu.rulebook.builtin import SCHEMA_NAME
from gpu2npu.rulebook.kinds import KINDS

_COMMENT = [
    "A rule file of gpu2npu. JSON has no comments: what stands under $comment is for readers.",
    "Try it with `gpu2npu rules test FILE`, use it with `gpu2npu -i SRC -o OUT -v VERSION -r FILE`.",
    "Change the rule below into yours: what it matches, what then happens, why, and examples that prove it.",
]


def starter(rule_id: str, kind: str) -> str:
    """The text of a rule file with one rule of a kind of match."""
    rule = {"id": rule_id, **KINDS[kind].starter}
    document = {"$schema": f"./{SCHEMA_NAME}", "$comment": _COMMENT, "rules": [rule]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
