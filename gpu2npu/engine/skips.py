"""Comments that switch rules off: `# gpu2npu: skip`, or `# gpu2npu: skip=rule-id, other-rule` for some of them.

At the end of a line of code a comment is for what stands on that line. On a line of its own it is for the line below,
and before the first code of a file for the whole file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_COMMENT = re.compile(r"#\s*gpu2npu:\s*skip(?:\s*=\s*(?P<rules>[\w-]+(?:\s*,\s*[\w-]+)*))?\s*(?:#|$)")
EVERY_RULE = "*"


@dataclass(frozen=True)
class Skips:
    """The ids of rules switched off, in the whole file and by line (counted from 1); EVERY_RULE stands for all."""

    file: frozenset[str] = frozenset()
    lines: dict[int, frozenset[str]] = field(default_factory=dict)

    def covers(self, rule: str, first: int, last: int) -> bool:
        """Whether the rule is off on one of the lines from first to last."""
        if not self.lines:
            return False
        off: set[str] = set()
        for line in range(first, last + 1):
            off |= self.lines.get(line, frozenset())
        return rule in off or EVERY_RULE in off


def find_skips(text: str) -> Skips:
    """The skip comments of a text in which comments start with `#`."""
    if "gpu2npu:" not in text:
        return Skips()
    file: set[str] = set()
    lines: dict[int, frozenset[str]] = {}
    before_code = True
    for number, line in enumerate(re.split(r"\r\n?|\n", text), start=1):
        alone = line.lstrip().startswith("#")
        comment = _COMMENT.search(line)
        if comment is not None:
            named = comment.group("rules")
            rules = frozenset(re.split(r"\s*,\s*", named)) if named else frozenset({EVERY_RULE})
            if alone and before_code:
                file |= rules
            else:
                at = number + 1 if alone else number
                lines[at] = lines.get(at, frozenset()) | rules
        before_code = before_code and (alone or not line.strip())
    return Skips(frozenset(file), lines)
