"""Names in annotations that are strings: `"torch.cuda.Stream"`, `"Optional[CUDAGraph]"`."""

from __future__ import annotations

import re

from gpu2npu.engine.imports import parent
from gpu2npu.engine.rewriting.renames import Renames
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.records import Edit
from gpu2npu.rulebook.rule import Rule

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def rename_quoted(renames: Renames, string: StringText, scope: Scope) -> None:
    """Rename the names in an annotation, by one edit of its string; report those whose targets the release lacks."""
    applied: list[tuple[Rule, str]] = []

    def renamed(match: re.Match[str]) -> str:
        dotted = match[0]
        qualified = renames.names.dotted(dotted, scope)
        matched = renames.table.rule_for(qualified) if qualified is not None else None
        if qualified is None or matched is None or matched[0].then.keep:
            return dotted
        rule, prefix = matched
        renames.matches.note(rule, string.place, qualified)
        target = (rule.then.rename or prefix) + qualified[len(prefix) :]
        is_missing = rule.then.rename is not None and renames.is_missing(rule, target)
        if is_missing:
            renames.report_missing(rule, string.place, qualified, target)
        new = None if rule.then.rename is None or is_missing else _spelled(renames, dotted, target, scope)
        root = dotted.partition(".")[0]
        renames.locals.use(root, scope, moved=new is not None)
        if new is None or new == dotted:
            return dotted
        if "." in dotted:
            renames.anchors.add(root)
        applied.append((rule, target))
        return new

    text = _NAME.sub(renamed, string.raw)
    if applied:
        rule, target = applied[0]
        renames.matches.edits.append(Edit(string.place, string.quoted(text), rule.id, renames.why(rule, target)))


def _spelled(renames: Renames, dotted: str, target: str, scope: Scope) -> str | None:
    """The name as the file reaches it after the migration, through the same first name where that leads to it."""
    root = dotted.partition(".")[0]
    local = renames.locals.new_name(root, scope) or root
    if local == target or not parent(dotted):
        return local
    owner = dotted
    while owner := parent(owner):
        meaning = renames.names.dotted(owner, scope)
        moved = renames.target_of(meaning) if meaning is not None else None
        if meaning is not None and target.startswith(f"{meaning}."):
            return owner + target[len(meaning) :]
        if owner == root and moved is not None and target.startswith(f"{moved}."):
            return local + target[len(moved) :]
    return None
