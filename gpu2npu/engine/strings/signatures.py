"""Judges what an argument means by the parameter of the project's own function that it is for."""

from __future__ import annotations

import ast

from gpu2npu.engine.strings.places import UNSURE, YES, StringPlace
from gpu2npu.engine.strings.words import is_word
from gpu2npu.python.meaning.classes import method_parameters
from gpu2npu.python.tree.scopes import Defined
from gpu2npu.python.tree.syntax import FUNCTIONS, Function, argument_keyword, arguments, is_unpacked, parameters
from gpu2npu.rulebook.rule import Role


def by_signature(call: ast.Call, argument: ast.expr | ast.keyword, place: StringPlace, role: Role) -> str:
    """Judge an argument by the parameter of the project's own function that it is for."""
    index = place.siblings.position(call, argument)
    if argument_keyword(argument) is not None or any(map(is_unpacked, arguments(call)[: index + 1])):
        return UNSURE
    called = _called(call.func, place)
    if called is None:
        return _by_method_name(call, argument, place, role)
    function, is_bound = called
    names = [parameter.arg for parameter in parameters(function)][is_bound:]
    return YES if index < len(names) and is_word(names[index], role) else UNSURE


def _by_method_name(call: ast.Call, argument: ast.expr | ast.keyword, place: StringPlace, role: Role) -> str:
    """Judge an argument of a method that is known by its name alone: all methods of that name which the project
    defines have such a parameter there."""
    if not isinstance(call.func, ast.Attribute) or place.names.qualified(call.func, place.scope) is not None:
        return UNSURE
    index = place.siblings.position(call, argument)
    definitions = method_parameters(place.names.project, call.func.attr, place.names.path)
    agree = definitions and all(index < len(names) and is_word(names[index], role) for names in definitions)
    return YES if agree else UNSURE


def _called(func: ast.expr, place: StringPlace) -> tuple[Function, bool] | None:
    """The project's own function that a call runs; True where its first parameter is given without being written."""
    found = place.names.definition(func, place.scope)
    function = _signature(found.bound) if found is not None else None
    if found is not None and function is not None:
        return function, isinstance(found.bound.node, ast.ClassDef)
    return place.names.method(func, place.scope) if isinstance(func, ast.Attribute) else None


def _signature(defined: Defined) -> Function | None:
    if isinstance(defined.node, FUNCTIONS):
        return defined.node
    for binding in defined.scope.bindings.get("__init__", ()):
        if isinstance(binding, Defined) and isinstance(binding.node, FUNCTIONS):
            return binding.node
    return None
