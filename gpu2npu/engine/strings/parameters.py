"""Parameters that give a string its meaning: of the project's own functions, and of fixtures of pytest."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gpu2npu.engine.strings.places import UNSURE, YES, StringPlace, by_siblings, strings_of
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.engine.strings.words import is_word
from gpu2npu.python.meaning.classes import method_parameters
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    Function,
    argument_keyword,
    arguments,
    elements,
    is_unpacked,
    last_name,
    parameters,
)
from gpu2npu.rulebook.rule import Role


class Param(NamedTuple):
    """The parameter of a fixture, or where that is a tuple its element at `position`."""

    fixture: Function
    position: int | None


def param_of(node: ast.AST, place: StringPlace) -> Param | None:
    """The parameter that an expression is: `request.param` below `@pytest.fixture(params=...)`, or a name that only it
    is assigned to: `name, n = request.param`."""
    if isinstance(node, ast.Attribute):
        fixture = _enclosing_fixture(node, place)
        return Param(fixture, None) if fixture is not None else None
    function = next((each for each in place.names.file.above(node) if isinstance(each, FUNCTIONS)), None)
    if not isinstance(node, ast.Name) or function is None or _params(function) is None:
        return None
    found = place.names.file.scope_of(node).bindings.get(node.id, ())
    bound = [each for each in _assigned(function, place) if each[0].id == node.id]
    return bound[0][1] if len(found) == len(bound) == 1 else None


def param_with(place: StringPlace, fixture: Function) -> Param:
    """The parameter of a fixture that has a string: of `params=[("cuda", 1)]`, the first element."""
    params = _params(fixture)
    above = place.parent(place.node)
    is_inside = isinstance(above, ast.Tuple) and place.parent(above) is params
    return Param(fixture, place.siblings.position(above, place.node) if is_inside and above is not None else None)


def _values(param: Param, place: StringPlace) -> frozenset[str]:
    """The strings that a parameter may be."""
    params = _params(param.fixture)
    if params is None or param.position is None:
        return place.siblings.inside(params) if params is not None else frozenset()
    rows = (elements(each) for each in elements(params))
    return strings_of(row[param.position] for row in rows if param.position < len(row))


def is_param(param: Param, place: StringPlace, role: Role) -> bool:
    """Return whether a parameter has a role by the name of its fixture, or by what else it may be."""
    return is_word(param.fixture.name, role) or by_siblings(_values(param, place), place, role) == YES


def readings(param: Param, place: StringPlace) -> Iterator[ast.expr]:
    """The names that a parameter is assigned to in the fixture."""
    yield from (name for name, assigned in _assigned(param.fixture, place) if assigned == param)


def _assigned(fixture: Function, place: StringPlace) -> Iterator[tuple[ast.Name, Param]]:
    """The names that a fixture assigns its parameter, or elements of it, to."""
    for node in walk(*fixture.body):
        if not isinstance(node, ast.Assign) or _enclosing_fixture(node.value, place) is not fixture:
            continue
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target, Param(fixture, None)
            for index, each in enumerate(elements(target)):
                if isinstance(each, ast.Name):
                    yield each, Param(fixture, index)


def _enclosing_fixture(node: ast.AST, place: StringPlace) -> Function | None:
    """The fixture whose `request.param` an expression is."""
    if not isinstance(node, ast.Attribute) or node.attr != "param" or not isinstance(node.value, ast.Name):
        return None
    function = next((each for each in place.names.file.above(node) if isinstance(each, FUNCTIONS)), None)
    is_given = function is not None and node.value.id in {each.arg for each in parameters(function)}
    return function if is_given and function is not None and _params(function) is not None else None


def _params(function: Function) -> ast.expr | None:
    made = (
        each for each in function.decorator_list if isinstance(each, ast.Call) and last_name(each.func) == "fixture"
    )
    return next((keyword.value for each in made for keyword in each.keywords if keyword.arg == "params"), None)


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
    definitions = method_parameters(place.names.project, call.func.attr, place.names.path)
    agree = definitions and all(index < len(names) and is_word(names[index], role) for names in definitions)
    return YES if agree else UNSURE
