"""Reads the expressions of a function as terms: follows names through straight-line code, and calls into functions."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from msgspec import Struct

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import ValueTypes
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import value_of
from gpu2npu.python.tree.syntax import (
    DEFINITIONS,
    FUNCTIONS,
    Function,
    arguments,
    dotted_name,
    is_self,
    is_unpacked,
    parameters,
)
from gpu2npu.shapes.operations import binary, called, item, number
from gpu2npu.shapes.terms import FLOAT32, Term, const

# How many calls are followed into functions, one within the other.
_DEPTH = 4
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match)
_NUMBERS = {"math.pi": math.pi, "numpy.pi": math.pi, "math.inf": math.inf, "torch.inf": math.inf, "numpy.inf": math.inf}
_FLOAT32 = frozenset({"torch.float32", "torch.float"})


class Within(Struct, frozen=True):
    """The binding of a name somewhere within a compound statement, or by one that does more than assign it."""

    statement: ast.AST


# The statement that gives a name its value; None for a parameter, and for names of an outer scope.
Reaching = ast.stmt | Within | None


def identity(reaching: Reaching) -> int | None:
    """Return what two bindings by one statement have in common, however they bind."""
    return None if reaching is None else id(reaching.statement if isinstance(reaching, Within) else reaching)


@dataclass(eq=False)
class TermReader:
    """Reads a function, or the top level of a file. `given` has its parameters where a call of it is followed."""

    names: Names
    given: Mapping[str, Term] = field(default_factory=dict)
    depth: int = 0
    _terms: dict[ast.expr, Term] = field(default_factory=dict)
    file: PythonFile = field(init=False)

    def __post_init__(self) -> None:
        self.file = self.names.file

    @cached_property
    def types(self) -> ValueTypes:
        """The types of the expressions of the file."""
        return ValueTypes(self.names)

    def term(self, node: ast.expr) -> Term:
        """The value of an expression."""
        if node not in self._terms:
            self._terms[node] = self._leaf(node)  # what leads back to itself is a leaf
            found = self._read(node)
            outside = self.depth > 0 and not _is_of_self(node)
            self._terms[node] = found if outside else replace(found, spelled=(node, *found.spelled))
        return self._terms[node]

    def qualified(self, node: ast.expr) -> str:
        """The qualified name of what an expression means, "" where it has none."""
        if not self.names.may_lead_on(node):  # before its scope is looked for
            return ""
        return self.names.qualified(node, self.file.scope_of(node)) or ""

    def module(self, function: ast.expr) -> str:
        """The class of PyTorch of the module that is called, "" where it is none or may be of several."""
        kinds = self.types.of(function, self.file.scope_of(function))
        only = next(iter(kinds)) if len(kinds) == 1 else ""
        return only if isinstance(only, str) and only.startswith("torch.nn.") else ""

    def makings(self, function: ast.expr) -> list[ast.Call]:
        """The calls that make the module that is called."""
        return self.names.calls(function, self.file.scope_of(function))

    def _read(self, node: ast.expr) -> Term:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            return const(node.value)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.term(node.operand)
            return const(-inner.number) if inner.number is not None else Term("neg", (inner,))
        if isinstance(node, ast.BinOp):
            return binary(node.op, self.term(node.left), self.term(node.right)) or self._leaf(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node) or self._leaf(node)
        if isinstance(node, ast.Call):
            return called(self, node) or self._inlined(node) or self._leaf(node)
        return self._leaf(node)

    def _leaf(self, node: ast.expr) -> Term:
        """A value of which only the expression is known, such as the name of a variable."""
        name = dotted_name(node)
        if name is None:
            return Term("leaf", value=(id(node), "code"))
        first = name.partition(".")[0]
        scope = self.file.scope_of(node)
        if _is_of_self(node) or (isinstance(scope.node, FUNCTIONS) and first not in scope.bindings):
            return Term("leaf", value=("name", name, self.file.path))
        if not isinstance(scope.node, FUNCTIONS):
            return Term("leaf", value=(id(node), "code"))
        where = identity(self.reaching(first, self.file.statement(node)))
        return Term("leaf", value=("name", name, id(scope), self.depth, where))

    def _attribute(self, node: ast.Attribute) -> Term:
        qualified = self.qualified(node)
        if qualified in _FLOAT32:
            return FLOAT32
        if qualified in _NUMBERS:
            return const(_NUMBERS[qualified])
        if node.attr == "min" and self.term(node.value).op == "finfo":
            return Term("least")
        if node.attr == "dtype":
            return Term("dtype", (self.term(node.value),))
        if node.attr == "mT":
            return Term("transposed", (self.term(node.value),))
        return self._number_of_self(node) or self._leaf(node)

    def _number_of_self(self, node: ast.Attribute) -> Term | None:
        """The number that an attribute of `self` always is: one assignment in the project gives it."""
        if not is_self(node.value):
            return None
        classes = {cls: cls.attributes[node.attr] for cls in self.file.scopes.values() if node.attr in cls.attributes}
        own = self.file.scope_of(node).enclosing_class()
        if own is None or classes.keys() != {own} or len(classes[own]) != 1:
            return None
        value = value_of(classes[own][0][0])
        if value is None or self.names.project.storing(node.attr) - {self.names.path}:
            return None
        found = self.term(value)
        return const(found.number) if found.number is not None else None

    def _name(self, node: ast.Name) -> Term:
        scope = self.file.scope_of(node)
        if not isinstance(scope.node, FUNCTIONS) or node.id not in scope.bindings:
            return self._leaf(node)
        reaching = self.reaching(node.id, self.file.statement(node))
        if reaching is None:
            return self.given.get(node.id) or self._leaf(node)
        is_certain = isinstance(reaching, ast.stmt)
        if not is_certain and isinstance(reaching, Within) and _only_changes(reaching.statement, node.id):
            assert isinstance(reaching.statement, ast.stmt)
            reaching = self.reaching(node.id, reaching.statement)
        value = self._assigned(reaching, node.id) if isinstance(reaching, ast.stmt) else None
        if value is None:
            return self._leaf(node)
        assert isinstance(reaching, ast.stmt)
        value = value if is_certain else replace(value, is_certain=False)
        return value if self.depth else replace(value, through=(reaching, *value.through))

    def _assigned(self, statement: ast.stmt, name: str) -> Term | None:
        """The value that an assignment gives a name."""
        if isinstance(statement, ast.AnnAssign):
            return self.term(statement.value) if statement.value is not None else None
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            return self.term(statement.value)
        assert isinstance(target, (ast.Tuple, ast.List))
        index = next(index for index, each in enumerate(target.elts) if isinstance(each, ast.Name) and each.id == name)
        if isinstance(statement.value, (ast.Tuple, ast.List)) and len(statement.value.elts) == len(target.elts):
            return self.term(statement.value.elts[index])
        return item(self.term(statement.value), index) if len(target.elts) == 2 else None

    def _subscript(self, node: ast.Subscript) -> Term | None:
        """A half of the last dimension, or every other element of it: `x[..., :x.shape[-1] // 2]`, `x[..., ::2]`."""
        index = node.slice
        if isinstance(index, ast.Constant) and index.value in (0, 1):
            halves = self.term(node.value)
            return item(halves, 1 if index.value else 0) if halves.op == "halves" else None
        *before, part = index.elts if isinstance(index, ast.Tuple) and index.elts else (None,)
        is_last = [isinstance(each, ast.Constant) and each.value is Ellipsis for each in before] == [True]
        if not isinstance(part, ast.Slice) or not (is_last or all(map(_is_whole, before))):
            return None
        whole = replace(self.term(node.value), is_certain=is_last)
        if part.step is not None:
            first = number(self, part.lower) if part.lower is not None else 0.0
            if part.upper is None and number(self, part.step) == 2 and first in (0, 1):
                return Term("odd" if first else "even", (whole,))
            return None
        if part.lower is None and part.upper is not None and self.is_half(part.upper, whole):
            return Term("first_half", (whole,))
        if part.upper is None and part.lower is not None and self.is_half(part.lower, whole):
            return Term("second_half", (whole,))
        return None

    def is_half(self, node: ast.expr, whole: Term) -> bool:
        """Return whether an expression is half the size of the last dimension of a value."""
        node = self.value_of(node)
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv) or number(self, node.right) != 2:
            return False
        match self.value_of(node.left):
            case ast.Call(func=ast.Attribute(value, "size"), args=[dim]) | ast.Subscript(
                ast.Attribute(value, "shape"), dim
            ):
                return number(self, dim) == -1 and self.term(value) == whole
        return False

    def value_of(self, node: ast.expr) -> ast.expr:
        """The expression that gave a name its value, or the expression itself."""
        scope = self.file.scope_of(node)
        if not isinstance(node, ast.Name) or node.id not in scope.bindings or not isinstance(scope.node, FUNCTIONS):
            return node
        reaching = self.reaching(node.id, self.file.statement(node))
        is_plain = isinstance(reaching, ast.Assign) and isinstance(reaching.targets[0], ast.Name)
        return reaching.value if is_plain and isinstance(reaching, ast.Assign) else node

    # Names

    def reaching(self, name: str, statement: ast.stmt, ignored: Collection[ast.stmt] = ()) -> Reaching:
        """The statement whose value a name has where another statement begins, without those that are `ignored`."""
        block = self.file.block(statement)
        at = next(index for index, each in enumerate(block) if each is statement)
        for other in reversed(block[:at]):
            if other not in ignored and name in self._names_bound(other):
                return other if _assigns(other, name) else Within(other)
        owner = self.file.parents[statement]
        while not isinstance(owner, (ast.stmt, ast.Module)):
            owner = self.file.parents[owner]
        if isinstance(owner, (ast.Module, *DEFINITIONS)):
            return None
        bound_within = isinstance(owner, _LOOPS) and name in self._names_bound(owner)
        if bound_within or (isinstance(owner, (ast.With, ast.AsyncWith)) and name in self._entered(owner)):
            return Within(owner)
        return self.reaching(name, owner, ignored)

    def _entered(self, owner: ast.With | ast.AsyncWith) -> frozenset[str]:
        return frozenset(name for item in owner.items for name in self._names_bound(item))

    def _names_bound(self, node: ast.AST) -> Collection[str]:
        """The names that a statement binds, and those that it calls a method of which changes the object."""
        return self._bound.get(node, ())

    @cached_property
    def _bound(self) -> dict[ast.AST, set[str]]:
        return _bound_in(self.file)

    # Functions

    def _inlined(self, call: ast.Call) -> Term | None:
        """The value of a call of a function of the project that only computes and returns it."""
        if self.depth >= _DEPTH or any(is_unpacked(each) for each in arguments(call)):
            return None
        found = self._function(call)
        if found is None:
            return None
        names_there, function, bound = found
        value = _only_return(function)
        names = [each.arg for each in parameters(function)][bound:]
        if value is None or function.args.vararg or function.args.kwarg or len(call.args) > len(names):
            return None
        given = dict(zip(names, (self.term(each) for each in call.args), strict=False))
        given |= {each.arg: self.term(each.value) for each in call.keywords if each.arg is not None}
        return TermReader(names_there, given, self.depth + 1).term(value) if set(names) == set(given) else None

    def _function(self, call: ast.Call) -> tuple[Names, Function, int] | None:
        """The function that a call calls, the names of its file, and how many of its parameters are given unwritten."""
        scope = self.file.scope_of(call)
        if isinstance(call.func, ast.Attribute) and is_self(call.func.value):
            method = self.names.method(call.func, scope)
            cls = scope.enclosing_class()
            if method is None or cls is None or (method.function.decorator_list and method.is_bound):
                return None
            assert isinstance(cls.node, ast.ClassDef)
            has_subclass = bool(self.names.project.deriving(cls.node.name))
            return None if has_subclass else (self.names, method.function, int(method.is_bound))
        found = self.names.definition(call.func, scope)
        node = found.bound.node if found is not None else None
        if found is None or not isinstance(node, ast.FunctionDef) or node.decorator_list:
            return None
        return found.names, node, 0


def _is_of_self(node: ast.AST) -> bool:
    name = dotted_name(node)
    return name is not None and name.startswith("self.")


def _is_whole(index: ast.expr | None) -> bool:
    return isinstance(index, ast.Slice) and not (index.lower or index.upper or index.step)


def _only_changes(statement: ast.AST, name: str) -> bool:
    """Return whether a condition decides whether a value is changed: `if half: x = x.to(dtype)`, `if m: x = x + m`."""
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    changes = [each for each in statement.body if not isinstance(each, ast.Assign) or _assigns(each, name)]
    return bool(changes) and all(
        isinstance(each, ast.Assign)
        and any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(each.value))
        for each in changes
    )


def _assigns(statement: ast.stmt, name: str) -> bool:
    """Return whether a statement only gives a name, or names side by side, a value."""
    if isinstance(statement, ast.AnnAssign):
        return isinstance(statement.target, ast.Name) and statement.value is not None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    targets = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    names = [each.id for each in targets if isinstance(each, ast.Name)]
    in_value = any(isinstance(each, ast.NamedExpr) for each in ast.walk(statement.value))
    return not in_value and len(names) == len(targets) and names.count(name) == 1


def _bound_in(file: PythonFile) -> dict[ast.AST, set[str]]:
    """The names that the nodes of a file bind or change in place: by `x[i] = v`, `x += 1`, or a method that ends in
    `_`. One loop over all nodes, as these are many."""
    found: dict[ast.AST, set[str]] = {}
    parents = file.parents
    for node in parents:
        kind = node.__class__
        names: Iterable[str]
        if kind is ast.Name or kind is ast.Attribute or kind is ast.Subscript:
            if node.ctx.__class__ is ast.Load:  # type: ignore[attr-defined]
                continue
            names = (node.id,) if isinstance(node, ast.Name) else _first_names(node)
        elif kind is ast.Call:
            func = node.func  # type: ignore[attr-defined]
            if func.__class__ is not ast.Attribute or not func.attr.endswith("_") or func.attr.endswith("__"):
                continue
            names = _first_names(func)
        elif isinstance(node, ast.alias):
            names = (node.asname or node.name.partition(".")[0],)
        elif isinstance(node, (*DEFINITIONS, ast.ExceptHandler)) and node.name:
            names = (node.name,)
        else:
            continue
        above: ast.AST | None = node
        while above is not None:
            found.setdefault(above, set()).update(names)
            above = parents.get(above)
    return found


def _first_names(node: ast.AST) -> set[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _only_return(function: Function) -> ast.expr | None:
    """The value of a function that assigns names and returns, and does nothing else."""
    body = list(function.body)
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    if not body or not isinstance(body[-1], ast.Return) or isinstance(function, ast.AsyncFunctionDef):
        return None
    simple = all(isinstance(each, (ast.Assign, ast.AnnAssign)) for each in body[:-1])
    return body[-1].value if simple else None
