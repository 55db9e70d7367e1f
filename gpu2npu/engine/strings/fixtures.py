"""Fixtures of pytest, whose parameters come to them as `request.param`."""

from __future__ import annotations

import ast

from gpu2npu.engine.strings.places import StringPlace
from gpu2npu.python.tree.syntax import FUNCTIONS, Function, last_name, parameters


def fixture_of(node: ast.AST, place: StringPlace) -> Function | None:
    """The fixture whose parameter an expression is: `request.param` below `@pytest.fixture(params=...)`."""
    if not isinstance(node, ast.Attribute) or node.attr != "param" or not isinstance(node.value, ast.Name):
        return None
    function = next((each for each in place.names.file.above(node) if isinstance(each, FUNCTIONS)), None)
    is_given = function is not None and node.value.id in {each.arg for each in parameters(function)}
    return function if is_given and function is not None and _params(function) is not None else None


def params_of(fixture: Function, place: StringPlace) -> frozenset[str]:
    """The strings in a fixture's `params`."""
    params = _params(fixture)
    return place.siblings.inside(params) if params is not None else frozenset()


def _params(function: Function) -> ast.expr | None:
    made = (
        each for each in function.decorator_list if isinstance(each, ast.Call) and last_name(each.func) == "fixture"
    )
    return next((keyword.value for each in made for keyword in each.keywords if keyword.arg == "params"), None)
