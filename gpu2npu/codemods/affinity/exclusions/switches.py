"""Parameters that are False unless a caller gives them another value, and the calls that may give them one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.python.tree.scopes import Defined, Imported, Parameter
from gpu2npu.python.tree.syntax import DEFINITIONS, FUNCTIONS, Definition, Function, defaults, last_name, string_value


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
    for above, below in file.steps(node):
        switch = above.test if isinstance(above, ast.If) and below in above.body else None
        if isinstance(switch, ast.Name) and is_switch(file, switch) and not may_be_on(program, switch.id):
            return True
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
    forwarded = isinstance(value, ast.Name) and value.id == name and is_switch(file, value)
    return not is_false(value) and not forwarded


def _is_on(value: ast.expr, name: str) -> bool:
    return last_name(value) == name or (isinstance(value, ast.Constant) and value.value is True)


def _may_unpack(call: ast.Call) -> bool:
    """Return whether a call has `**` before something whose keys are not written there."""
    unpacked = [each.value for each in call.keywords if each.arg is None]
    return not all(isinstance(each, ast.Dict) and all(map(_is_text, each.keys)) for each in unpacked)


def _is_text(key: ast.expr | None) -> bool:
    return string_value(key) is not None


# Nodes that give a function or class on as a value, and functions that only look at one.
_COLLECTIONS = (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.Starred)
_CARRIERS = (*_COLLECTIONS, ast.Call, ast.keyword, ast.Assign, ast.Return, ast.IfExp, ast.BoolOp, ast.NamedExpr)
_LOOKS = frozenset({"isinstance", "issubclass", "super"})
# Methods that are called by the name of an object.
OF_OBJECTS = frozenset({"__call__", "forward"})

# A call, or a definition that the function decorates without a call of its own.
Caller = tuple[ParsedFile, ast.Call | Definition]


def callers_of(program: TrainingProgram, file: ParsedFile, function: Function) -> list[Caller] | None:
    """The callers of a function, or of the class of an `__init__`; None where it has another name or is a value."""
    names = {function.name}
    cls = file.parents[function]
    if isinstance(cls, ast.ClassDef):
        if function.name in OF_OBJECTS:
            return None
        if function.name == "__init__":
            names = _subclasses(program, cls.name)
    found: list[Caller] = []
    for other in _spelling(program, names):
        if any(each.asname and each.name.rpartition(".")[2] in names for each in other.nodes(ast.alias)):
            return None
        for node in _named(other, names):
            parent = other.parents[node]
            if (isinstance(parent, ast.Call) and parent.func is node) or (
                isinstance(parent, DEFINITIONS) and node in parent.decorator_list
            ):
                found.append((other, parent))
            elif _is_value(other, node, parent, isinstance(cls, ast.ClassDef)):
                return None
    return found


def _subclasses(program: TrainingProgram, name: str) -> set[str]:
    """The names of a class and of the classes that inherit from it."""
    found: set[str] = set()
    pending = {name}
    while pending:
        found |= pending
        pending = {
            each.name
            for file in _spelling(program, pending)
            for each in file.nodes(ast.ClassDef)
            if any(last_name(base) in pending for base in each.bases)
        } - found
    return found


def _spelling(program: TrainingProgram, names: Set[str]) -> Iterator[ParsedFile]:
    return program.with_word(rb"\b(?:" + b"|".join(sorted(each.encode() for each in names)) + rb")\b")


def _named(file: ParsedFile, names: Set[str]) -> Iterator[ast.Name | ast.Attribute]:
    yield from (each for each in file.nodes(ast.Name) if each.id in names and isinstance(each.ctx, ast.Load))
    yield from (each for each in file.nodes(ast.Attribute) if each.attr in names and isinstance(each.ctx, ast.Load))


def _is_value(file: ParsedFile, node: ast.Name | ast.Attribute, parent: ast.AST, is_method: bool) -> bool:
    """Return whether a name that means a function may be given on, to be called elsewhere."""
    if not isinstance(parent, _CARRIERS) or (isinstance(parent, ast.Call) and last_name(parent.func) in _LOOKS):
        return False
    if isinstance(node, ast.Attribute):
        return is_method or file.qualified(node) is not None
    return any(isinstance(each, (Defined, Imported)) for each in file.scope_of(node).bound(node))
