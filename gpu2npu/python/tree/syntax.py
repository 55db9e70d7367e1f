"""Small questions about the nodes of a syntax tree."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
Import = ast.Import | ast.ImportFrom
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)
FORS = (ast.For, ast.AsyncFor)
WITHS = (ast.With, ast.AsyncWith)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

# What may give something else, or do something more, the second time.
_EFFECTS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
# Functions that import a module by its name.
IMPORT_FUNCTIONS = frozenset({"import_module", "__import__"})


def dotted_name(node: ast.AST) -> str | None:
    """`a.b.c` for a chain of attributes on a name, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


def last_name(node: ast.AST) -> str | None:
    """The name a reader would call an expression by: `c` of `a.b.c`, `f` of `x.f()`."""
    while isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def is_super(node: ast.AST) -> bool:
    """Return whether an expression is a call of `super`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def is_annotation(above: ast.AST, node: ast.AST) -> bool:
    """Return whether a node is the annotation of the parameter, function or variable right above it."""
    if isinstance(above, (ast.arg, ast.AnnAssign)):
        return above.annotation is node
    return isinstance(above, FUNCTIONS) and above.returns is node


def is_self(node: ast.AST) -> bool:
    """Return whether an expression is the name `self`."""
    return isinstance(node, ast.Name) and node.id == "self"


def is_static(function: Function) -> bool:
    """Return whether a method is static."""
    return "staticmethod" in map(last_name, function.decorator_list)


def is_classmethod(function: Function) -> bool:
    """Return whether a method is one of the class."""
    return "classmethod" in map(last_name, function.decorator_list)


def is_property(function: Definition) -> bool:
    """Return whether a function is decorated to be read like an attribute."""
    return any((last_name(decorator) or "").endswith("property") for decorator in function.decorator_list)


def string_value(node: ast.AST | None) -> str | None:
    """The value of a string literal, not of bytes or an f-string; else None."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def is_none(node: ast.AST | None) -> bool:
    """Return whether an expression is None."""
    return isinstance(node, ast.Constant) and node.value is None


def elements(node: ast.AST | None) -> Sequence[ast.expr]:
    """The values of a list, tuple or set display."""
    return node.elts if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else ()


def chain(node: ast.AST) -> list[ast.expr]:
    """The nodes of a dotted expression from its first part on: those of `a`, `a.b` and `a.b.c`."""
    parts: list[ast.expr] = []
    while isinstance(node, ast.Attribute):
        parts.append(node)
        node = node.value
    if isinstance(node, ast.expr):
        parts.append(node)
    return parts[::-1]


def arguments(call: ast.Call | ast.ClassDef) -> list[ast.expr | ast.keyword]:
    """Return the arguments of a call, in the order they are written; of a class, its bases and keywords."""
    positional = call.args if isinstance(call, ast.Call) else call.bases
    found: list[ast.expr | ast.keyword] = [*positional, *call.keywords]
    if positional and call.keywords and _place(positional[-1]) > _place(call.keywords[0]):  # f(a=1, *rest)
        found.sort(key=_place)
    return found


def _place(node: ast.expr | ast.keyword) -> tuple[int, int]:
    return node.lineno, node.col_offset


def argument_value(argument: ast.expr | ast.keyword) -> ast.expr:
    """The expression that an argument gives, without its keyword."""
    return argument.value if isinstance(argument, ast.keyword) else argument


def argument_keyword(argument: ast.expr | ast.keyword) -> str | None:
    """The keyword of an argument; None of one given by position or in what stars unpack."""
    return argument.arg if isinstance(argument, ast.keyword) else None


def argument_of(call: ast.Call, name: str, index: int = -1) -> ast.expr | None:
    """The argument of a call by name, or at a position before which nothing is unpacked; by name alone without one."""
    by_name = next((each.value for each in call.keywords if each.arg == name), None)
    is_known = 0 <= index < len(call.args) and not any(map(is_unpacked, call.args[: index + 1]))
    return call.args[index] if by_name is None and is_known else by_name


def is_unpacked(argument: ast.expr | ast.keyword) -> bool:
    """Return whether an argument is `*args` or `**kwargs`."""
    return isinstance(argument, ast.Starred) or (isinstance(argument, ast.keyword) and argument.arg is None)


def parameters(function: Function | ast.Lambda) -> list[ast.arg]:
    """The parameters of a signature in the order of the call, starred ones last."""
    given = function.args
    stars = [star for star in (given.vararg, given.kwarg) if star is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *stars]


def defaults(function: Function | ast.Lambda) -> Iterator[tuple[ast.arg, ast.expr]]:
    """Each parameter that has a default, with it."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    if given.defaults:
        yield from zip(positional[-len(given.defaults) :], given.defaults, strict=True)
    for parameter, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        if default is not None:
            yield parameter, default


def import_module(node: ast.ImportFrom) -> str:
    """The module of a from-import, with its leading dots."""
    return "." * node.level + (node.module or "")


def member_of(module: str, name: str) -> str:
    """The qualified name of a member of a module, which may be only dots."""
    return f"{module}{name}" if module.endswith(".") else f"{module}.{name}"


def imported_names(node: Import) -> Iterator[tuple[ast.alias, str]]:
    """Each alias of an import statement with the whole dotted name it imports; of a star the module's."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield alias, alias.name
        else:
            module = import_module(node)
            yield alias, module if alias.name == "*" else member_of(module, alias.name)


# `try` with `except*` is a node of its own from Python 3.11 on.
TRIES: tuple[type[Any], ...] = (
    (ast.Try, getattr(ast, "TryStar")) if sys.version_info >= (3, 11) else (ast.Try,)  # noqa: B009
)
_MISSING = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_EXITS = frozenset({"exit", "quit", "_exit"})  # of sys, os and builtins


def goes_on_without_import(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches the error of an import, and neither raises one itself nor ends the program."""
    caught = elements(handler.type) if isinstance(handler.type, ast.Tuple) else [handler.type]
    catches = handler.type is None or any(last_name(each) in _MISSING for each in caught if each is not None)
    return catches and not any(isinstance(statement, ast.Raise) or _exits(statement) for statement in handler.body)


def _exits(statement: ast.stmt) -> bool:
    """Return whether a statement ends the program: `sys.exit(1)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and last_name(call.func) in _EXITS


def local_name(alias: ast.alias, node: Import) -> str:
    """The name that an alias of an import statement binds."""
    if alias.asname is not None:
        return alias.asname
    return alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name


def shallow_nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of statements, in the order of the source, without those inside functions, classes and lambdas."""
    pending = list(reversed(body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*DEFINITIONS, ast.Lambda)):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements and those in their blocks, in the order of the source, without those inside functions and classes."""
    pending: list[ast.AST] = list(reversed(body))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, DEFINITIONS):
            for name in ("finalbody", "orelse", "handlers", "cases", "body"):
                pending.extend(reversed(getattr(node, name, ())))


def returned_values(function: Function) -> Iterator[ast.expr]:
    """The values of a function's own return statements."""
    for node in statements(function.body):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value


def is_main_guard(statement: ast.AST) -> bool:
    """`if __name__ == '__main__':`, also with more conditions behind `and`."""
    test = statement.test if isinstance(statement, ast.If) else None
    conditions = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    compared = [part for each in conditions if isinstance(each, ast.Compare) for part in (each.left, *each.comparators)]
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in compared)


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of statements directly in a node."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block


def has_effects(found: ast.expr | Sequence[ast.expr | ast.keyword]) -> bool:
    """Return whether evaluating code twice may differ from evaluating it once: `next(batches)`."""
    nodes = [found] if isinstance(found, ast.expr) else found
    return any(isinstance(inner, _EFFECTS) for node in nodes for inner in ast.walk(node))
