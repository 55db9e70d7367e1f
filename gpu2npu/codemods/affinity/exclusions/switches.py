"""Parameters that are False unless a caller gives them another value."""

from __future__ import annotations

import ast

from gpu2npu.codemods.affinity.exclusions.callers import OF_OBJECTS, callers_of
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.python.tree.scopes import Parameter
from gpu2npu.python.tree.syntax import FUNCTIONS, Function, defaults, last_name, string_value


def is_switch(file: ParsedFile, node: ast.expr) -> bool:
    """Return whether a value is a parameter of the function around that is False by default, and nothing else."""
    scope = file.scope_of(node)
    bound = scope.bound(node) if isinstance(node, ast.Name) else ()
    if len(bound) != 1 or not isinstance(bound[0], Parameter) or not isinstance(scope.node, FUNCTIONS):
        return False
    return any(each is bound[0].node and is_false(value) for each, value in defaults(scope.node))


def is_false(node: ast.expr) -> bool:
    """Return whether an expression is the constant False."""
    return isinstance(node, ast.Constant) and node.value is False


def gives(file: ParsedFile, node: ast.AST, name: str) -> bool:
    """Return whether a keyword of a name gives another value than False, or than a switch of that name has."""
    return isinstance(node, ast.keyword) and node.arg == name and _turns_on(file, node.value, name)


def is_switched_off(program: TrainingProgram, file: ParsedFile, node: ast.AST) -> bool:
    """Return whether a node runs only where a switch is on that nothing in the program turns on."""
    below = node
    for above in file.above(node):
        switch = above.test if isinstance(above, ast.If) and below in above.body else None
        if isinstance(switch, ast.Name) and is_switch(file, switch) and not may_be_on(program, switch.id):
            return True
        below = above
    return False


def may_place(file: ParsedFile, call: ast.Call, at: int, name: str) -> bool:
    """Return whether a call may give another value than False at a position."""
    before = call.args[: at + 1]
    if any(isinstance(each, ast.Starred) for each in before):
        return True
    return len(before) > at and _turns_on(file, before[at], name)


def may_be_on(program: TrainingProgram, name: str) -> bool:
    """Return whether something may turn on a switch of a name: a keyword, a string that may become one, or a caller of
    a function that has such a switch."""
    return program.once((may_be_on, name), lambda: _may_be_on(program, name))


def _may_be_on(program: TrainingProgram, name: str) -> bool:
    for file in program.with_word(rb"\b" + name.encode() + rb"\b", name.encode()):
        if any(gives(file, each, name) for each in file.nodes(ast.keyword)):
            return True
        if any(string_value(each) == name for each in file.nodes(ast.Constant)):
            return True
        if any(_is_turned_on(program, file, each, name) for each in file.functions):
            return True
    return False


def _is_turned_on(program: TrainingProgram, file: ParsedFile, function: Function, name: str) -> bool:
    """Return whether a caller may turn on a switch of a function by its position, or by `**`."""
    if not any(each.arg == name and is_false(value) for each, value in defaults(function)):
        return False
    positional = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    is_method = isinstance(file.parents[function], ast.ClassDef)
    # A method is called on its object, or with it.
    places = {positional.index(name) - int(is_method), positional.index(name)} if name in positional else set()
    if is_method and function.name in OF_OBJECTS:
        calls = [each for other in program.with_word(rb"True|" + name.encode()) for each in other.nodes(ast.Call)]
        return any(_is_on(each, name) for call in calls for at in places for each in call.args[at : at + 1])
    callers = callers_of(program, file, function)
    return callers is None or any(
        _may_unpack(call) or any(may_place(other, call, at, name) for at in places)
        for other, call in callers
        if isinstance(call, ast.Call)
    )


def _turns_on(file: ParsedFile, value: ast.expr, name: str) -> bool:
    handed_on = isinstance(value, ast.Name) and value.id == name and is_switch(file, value)
    return not is_false(value) and not handed_on


def _is_on(value: ast.expr, name: str) -> bool:
    return last_name(value) == name or (isinstance(value, ast.Constant) and value.value is True)


def _may_unpack(call: ast.Call) -> bool:
    """Return whether a call has `**` before something of which the keys are not written there. The strings of those
    that are have been looked at."""
    unpacked = [each.value for each in call.keywords if each.arg is None]
    return not all(isinstance(each, ast.Dict) and all(map(_is_text, each.keys)) for each in unpacked)


def _is_text(key: ast.expr | None) -> bool:
    return string_value(key) is not None
