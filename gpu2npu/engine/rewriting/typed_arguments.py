"""Arguments that rules are for by what they are, such as a whole number, and numbers in what takes their place."""

from __future__ import annotations

import ast
import re

from gpu2npu.engine.code_matching import CodeMatcher, with_article
from gpu2npu.engine.file_rules import FileRules
from gpu2npu.python.tree.place import is_integer
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import last_name
from gpu2npu.records import Bounds, FindingKind, Found
from gpu2npu.rulebook.rule import Rule

# The name of a number of a card, where nothing else says what a value is.
_CARD = re.compile(r"(?:^|_)(?:rank|gpu|gpu_id|device_id|device_index|device_num|card)$")
# The value as the last part of an f-string, which is a plain string where it is a number.
_FORMATTED = re.compile(r'\bf("[^"{]*)\{\{\{value\}\}\}(?=")')


class TypedArguments:
    """Judges the arguments in one file."""

    def __init__(self, work: FileRules) -> None:
        self.file = work.file
        self.matches = work.matches
        self.matcher = CodeMatcher(work.names)

    def accept(self, rule: Rule, wanted: str | None, value: ast.expr, place: Bounds, scope: Scope) -> bool:
        """Return whether an argument is of the type that a rule wants; one that is not known, and by its name is the
        number of a card, is reported."""
        is_one = wanted is None or self.matcher.is_of(wanted, value, scope)
        named = isinstance(value, (ast.Name, ast.Attribute)) and _CARD.search(last_name(value) or "")
        if is_one is None and named:
            shown = self.file.code(value)
            message = f"{rule.why} This may be such a place: `{shown}` is not known to be {with_article(wanted or '')}."
            self.matches.report(Found(place, rule.id, FindingKind.REVIEW, shown, message))
        return is_one is True


def with_number(template: str, value: ast.expr) -> str:
    """The template of an argument, in which a number that is written out is a part of a plain string."""
    return _FORMATTED.sub(rf"\g<1>{value.value}", template) if is_integer(value) else template
