"""Parameters that give a string its meaning: of the project's own functions, and of fixtures of pytest."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpu2npu.engine.strings.places import UNSURE, YES, StringPlace
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.engine.strings.words import is_word
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    argument_keyword,
    arguments,
    is_unpacked,
    last_name,
    parameters,
)
from gpu2npu.rulebook.rule import Role


def is_fixture(above: Iterable[ast.AST], role: Role) -> bool:
    """Return whether the nearest function above has the role by its name, and is a fixture with parameters."""
    function = next((each for each in above if isinstance(each, FUNCTIONS)), None)
    if function is None or not is_word(function.name, role) or "request" not in (p.arg for p in parameters(function)):
        return False
    made = [each for each in function.decorator_list if isinstance(each, ast.Call)]
    return any(
        keyword.arg == "params" for each in made if last_name(each.func) == "fixture" for keyword in each.keywords
    )


def by_signature(call: ast.Call, argument: ast.expr | ast.keyword, place: StringPlace, role: Role) -> str:
    """Judge an argument by the parameter of the project's own function that it is for."""
    index = place.siblings.position(call, argument)
    if argument_keyword(argument) is not None or any(map(is_unpacked, arguments(call)[: index + 1])):
        return UNSURE
    values = values_of(place.names.project)
    with values.near(place.names.path):
        callees = values.callees(at) if (at := values.call_at(place.names, call)) else ()
        run = [(values.kind(each.place)[1], bound) for each, bound in callees if each.kind == "function"]
    if not run:
        return _by_method_name(call, argument, place, role)
    names = [[name for name, _ in function.positional[bound:]] for function, bound in run]
    return YES if all(index < len(each) and is_word(each[index], role) for each in names) else UNSURE


def _by_method_name(call: ast.Call, argument: ast.expr | ast.keyword, place: StringPlace, role: Role) -> str:
    """Judge an argument of a method that is known by its name alone: all methods of that name which the project
    defines have such a parameter there."""
    if not isinstance(call.func, ast.Attribute) or place.names.qualified(call.func, place.scope) is not None:
        return UNSURE
    index = place.siblings.position(call, argument)
    definitions = place.names.project.methods(call.func.attr, place.names.path)
    agree = definitions and all(index < len(names) and is_word(names[index], role) for names in definitions)
    return YES if agree else UNSURE
