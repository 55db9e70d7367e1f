"""Comments that switch rules off: `# gpu2npu: skip`, or `# gpu2npu: skip=rule-id, other-rule` for some of them.

At the end of a line of code a comment is for what is on that line. On a line of its own it is for the line below,
and before the first code of a file, of which its docstring is none, for the whole file.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

_COMMENT = re.compile(r"#\s*gpu2npu:\s*skip(?:\s*=\s*(?P<rules>[\w-]+(?:\s*,\s*[\w-]+)*))?\s*(?:#|$)")
# A docstring in three quotes, on lines of its own after blank ones and comments.
_DOCSTRING = re.compile(
    r"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r(?!\n)|\n))*"
    r"(?P<text>[rRuU]?(?P<quotes>\"{3}|'{3}).*?(?P=quotes))[ \t]*(?:#[^\r\n]*)?(?=[\r\n]|\Z)",
    re.DOTALL,
)
_LINE_END = re.compile(r"\r\n?|\n")
EVERY_RULE = "*"


class Skips(Struct, frozen=True):
    """The ids of rules switched off, in the whole file and by line (counted from 1); EVERY_RULE stands for all."""

    file: frozenset[str] = frozenset()
    lines: dict[int, frozenset[str]] = field(default_factory=dict)

    def covers(self, rule: str, first: int, last: int) -> bool:
        """Return whether the rule is off on one of the lines from first to last."""
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
    documented = _docstring_lines(text)
    before_code = True
    for number, line in enumerate(_LINE_END.split(text), start=1):
        if number in documented:
            continue
        is_comment = line.lstrip().startswith("#")
        comment = _COMMENT.search(line)
        if comment is not None:
            named = comment.group("rules")
            rules = frozenset(re.split(r"\s*,\s*", named)) if named else frozenset({EVERY_RULE})
            if is_comment and before_code:
                file |= rules
            else:
                at = number + 1 if is_comment else number
                lines[at] = lines.get(at, frozenset()) | rules
        before_code = before_code and (is_comment or not line.strip())
    return Skips(frozenset(file), lines)


def _docstring_lines(text: str) -> range:
    """The lines of a module's docstring, counted from 1."""
    docstring = _DOCSTRING.match(text)
    if docstring is None:
        return range(0)
    first = len(_LINE_END.findall(text, 0, docstring.start("text"))) + 1
    return range(first, first + len(_LINE_END.findall(docstring["text"])) + 1)
