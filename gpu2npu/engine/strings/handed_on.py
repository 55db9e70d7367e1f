"""Judges what a name means by the calls that it is given to: `where = "cuda"; torch.zeros(2, device=where)`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from gpu2npu.engine.strings.places import YES, StringPlace
from gpu2npu.python.tree.scopes import Assigned, Scope
from gpu2npu.rulebook.rule import Role

ArgumentJudge = Callable[[ast.Call, ast.AST, StringPlace, Role], str | None]


def is_handed_on(name: str, scope: Scope, place: StringPlace, role: Role, judge_argument: ArgumentJudge) -> bool:
    """Return whether a name that is assigned, as a scope sees it, is an argument somewhere that certainly has the role.

    A parameter does not count: its callers may give it by a keyword that does not say what it means. Nor is a name
    that another is given to, as names may lead in a circle: `a.startswith(b) or b.startswith(a)`.
    """
    found = None if place.is_read else scope.lookup(name)
    if found is None or not all(isinstance(binding, Assigned) for binding in found[1]):
        return False
    for node, where in place.siblings.reads(name, place.names.file):
        parent = place.parent(node)
        argument = parent if isinstance(parent, ast.keyword) else node
        call = place.parent(argument)
        if not isinstance(call, ast.Call) or argument is call.func:
            continue
        home = where.lookup(name)
        if home is None or home[0] is not found[0]:
            continue
        if judge_argument(call, argument, replace(place, node=node, scope=where, is_read=True), role) == YES:
            return True
    return False
