"""The facts of one Python file for a call graph (see third_party_records), read from its syntax tree in one walk."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from gpu2npu.analysis.third_party_records import Class, Expression, Facts, Function, Use

_RECURSION_LIMIT = 10_000
_LARGEST = 4_000_000  # bytes; a syntax tree takes a hundred times as much memory
_MOST_VALUES = 6  # alternatives for one name that are kept
_ASKING = frozenset({"isinstance", "issubclass", "hasattr", "type", "getattr", "print", "len", "str", "repr", "super"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def read_facts(path: str, module: str, source: bytes) -> Facts:
    """The facts of a file. Never raises for what is in it."""
    if len(source) > _LARGEST:
        return Facts(path, module, failure=f"it is larger than {_LARGEST // 1_000_000} MB, as only data are")
    facts = Facts(path, module)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        _Reader(facts).module(tree)
    except SyntaxError as error:
        return Facts(path, module, failure=f"it is not valid Python: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        return Facts(path, module, failure=f"it cannot be parsed: {error or 'its expressions are nested too deeply'}")
    finally:
        sys.setrecursionlimit(limit)
    return facts


class _Reader:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.owner: Class | None = None
        self.inside = ""  # the dotted names of the classes around
        self.function = self.top = Function("", 1)
        facts.functions[""] = self.function

    def module(self, tree: ast.Module) -> None:
        self.body(tree.body)

    def body(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self.visit(statement)

    # -- what binds names -------------------------------------------------------------------------------------------

    def bind(self, name: str, value: Expression) -> None:
        if self.function is not self.top:
            values = self.function.values.setdefault(name, [])
        elif self.owner is not None:
            attributes = self.owner.attributes.setdefault(name, [])
            if len(attributes) < _MOST_VALUES:
                attributes.append(("", value))
            return
        else:
            values = self.facts.bindings.setdefault(name, [])
        if value is not None and len(values) < _MOST_VALUES:
            values.append(value)

    def target(self, node: ast.expr, value: Expression) -> None:
        if isinstance(node, ast.Name):
            self.bind(node.id, value)
        elif isinstance(node, ast.Tuple | ast.List):
            parts = value[1] if value is not None and value[0] == "either" and value[2:] == ("tuple",) else ()
            for index, inner in enumerate(node.elts):
                whole = parts[index] if len(parts) == len(node.elts) else ("element", value)
                self.target(inner, whole if value is not None else None)
        elif isinstance(node, ast.Starred):
            self.target(node.value, None)
        else:
            if isinstance(node, ast.Attribute) and self.is_self(node.value):
                assert self.owner is not None
                attributes = self.owner.attributes.setdefault(node.attr, [])
                if value is not None and len(attributes) < _MOST_VALUES:
                    attributes.append((self.function.name, value))
            self.visit(node)

    def is_self(self, node: ast.expr) -> bool:
        function = self.function
        own = self.owner is not None and function.kind != "staticmethod" and bool(function.first)
        return own and isinstance(node, ast.Name) and node.id == function.first

    def visit(self, node: ast.AST) -> None:
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            handler(self, node)
        else:
            for child in ast.iter_child_nodes(node):
                self.visit(child)

    def visit_import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            self.bind(alias.asname or name, ("import", name))

    def visit_from(self, node: ast.ImportFrom) -> None:
        module = self.absolute(node)
        for alias in node.names:
            if alias.name == "*":
                self.facts.stars.append(module)
            else:
                self.bind(alias.asname or alias.name, ("import", f"{module}.{alias.name}" if module else alias.name))

    def absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = [part for part in self.facts.package.split(".") if part]
        kept = package[: len(package) - node.level + 1]
        return ".".join([*kept, *([node.module] if node.module else [])])

    def visit_assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.target(target, self.convert(node.value))

    def visit_annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        known = annotated(self.convert(node.annotation))
        self.target(node.target, known if known is not None else self.convert(node.value))

    def visit_named(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.target(node.target, self.convert(node.value))

    def visit_for(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        value = self.convert(node.iter)
        self.target(node.target, ("element", value) if value is not None else None)
        self.body(node.body)
        self.body(node.orelse)

    def visit_comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        for generator in node.generators:
            self.visit(generator.iter)
            value = self.convert(generator.iter)
            self.target(generator.target, ("element", value) if value is not None else None)
            for test in generator.ifs:
                self.visit(test)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.visit(part)

    def visit_with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self.target(item.optional_vars, self.convert(item.context_expr))
        self.body(node.body)

    # -- what opens a scope -----------------------------------------------------------------------------------------

    def visit_function(self, node: _Function) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        if self.function is not self.top:  # an inner function is part of the outer one
            self.bind(node.name, ("inner", node.name))
            self.parameters(node.args)
            self.body(node.body)
            return
        name = f"{self.inside}.{node.name}" if self.inside else node.name
        function = Function(name, node.lineno, self.inside, kind=_kind(node))
        arguments = [*node.args.posonlyargs, *node.args.args]
        function.first = arguments[0].arg if arguments and self.owner is not None else ""
        function.annotation = annotated(self.convert(node.returns))
        if self.owner is not None:
            self.owner.methods[node.name] = name
        else:
            self.bind(node.name, ("function", name))
        # Of several definitions under one name, such as overloads, the last one counts, with what all of them use.
        if (earlier := self.facts.functions.get(name)) is not None:
            function.uses.extend(earlier.uses)
        self.facts.functions[name] = function
        for decorator in node.decorator_list:
            function.uses.append(Use(decorator.lineno, self.convert(decorator), "call"))
        self.function = function
        self.parameters(node.args)
        self.body(node.body)
        self.function = self.top

    def parameters(self, arguments: ast.arguments) -> None:
        plain = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
        given = [*zip(plain, [*defaults, *arguments.defaults], strict=True)]
        given += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        for parameter, default in given:
            self.bind(parameter.arg, annotated(self.convert(parameter.annotation)))
            if default is not None:
                self.bind(parameter.arg, self.convert(default))
                self.visit(default)
        for star in (arguments.vararg, arguments.kwarg):
            if star is not None:
                self.bind(star.arg, None)

    def visit_lambda(self, node: ast.Lambda) -> None:
        if self.function is not self.top:
            self.parameters(node.args)
        self.visit(node.body)

    def visit_class(self, node: ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        if self.function is not self.top:  # a class inside a function is part of it
            self.bind(node.name, None)
            self.body(node.body)
            return
        name = f"{self.inside}.{node.name}" if self.inside else node.name
        outer, outside = self.owner, self.inside
        if outer is None:
            self.bind(node.name, ("class", name))
        else:
            outer.attributes.setdefault(node.name, []).append(("", ("class", name)))
        self.owner = self.facts.classes[name] = Class(name, node.lineno, [self.convert(base) for base in node.bases])
        self.inside = name
        self.body(node.body)
        self.owner, self.inside = outer, outside

    # -- what is used -----------------------------------------------------------------------------------------------

    def use(self, node: ast.expr, how: str, to: ast.expr | None = None) -> None:
        value = self.convert(node)
        if value is not None:
            place = node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or node.col_offset
            self.function.uses.append(Use(node.lineno, value, how, place, self.convert(to)))

    def visit_call(self, node: ast.Call) -> None:
        self.use(node.func, "call")
        self.visit_inside(node.func)
        asking = isinstance(node.func, ast.Name) and node.func.id in _ASKING
        for value in (*node.args, *(keyword.value for keyword in node.keywords)):
            if isinstance(value, ast.Name | ast.Attribute) and not asking:
                self.use(value, "pass", node.func)
                self.visit_inside(value)
            else:
                self.visit(value)

    def visit_inside(self, node: ast.expr) -> None:
        """The calls inside a name, such as that of `super().forward`."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            self.visit(node)

    def visit_attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            self.use(node, "read")
        self.visit_inside(node)

    def visit_return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.visit(node.value)
            if len(self.function.returns) < _MOST_VALUES and (value := self.convert(node.value)) is not None:
                self.function.returns.append(value)

    # -- expressions ------------------------------------------------------------------------------------------------

    def convert(self, node: ast.expr | None) -> Expression:
        match node:
            case ast.Name():
                local = self.function is not self.top and node.id in self.function.values
                return ("local" if local or self.is_self(node) else "name", node.id)
            case ast.Attribute():
                value = self.convert(node.value)
                return ("attribute", value, node.attr)
            case ast.Call(func=ast.Name(id="super")):
                return ("super",)
            case ast.Call():
                function = self.convert(node.func)
                given = [argument.value if isinstance(argument, ast.Starred) else argument for argument in node.args]
                return ("call", function, tuple(self.convert(argument) for argument in given[:2]))
            case ast.Subscript():
                return ("element", self.convert(node.value), self.convert(node.slice))
            case ast.IfExp():
                return _either([self.convert(node.body), self.convert(node.orelse)])
            case ast.BoolOp():
                return _either([self.convert(value) for value in node.values])
            case ast.BinOp():
                return _either([self.convert(node.left), self.convert(node.right)])
            case ast.UnaryOp() | ast.Await() | ast.NamedExpr():
                return self.convert(node.operand if isinstance(node, ast.UnaryOp) else node.value)
            case ast.Tuple():
                return ("either", tuple(self.convert(value) for value in node.elts[:_MOST_VALUES]), "tuple")
            case ast.List() | ast.Set():
                return _either([self.convert(value) for value in node.elts[:_MOST_VALUES]])
            case ast.Dict():
                return _either([self.convert(value) for value in node.values[:40]], 40)
            case ast.ListComp() | ast.GeneratorExp():
                return _either([self.convert(node.elt)])
            case ast.Constant(value=str() as text):
                return ("text", text)
            case _:
                return None


def _either(values: list[Expression], most: int = _MOST_VALUES) -> Expression:
    known = tuple(dict.fromkeys(value for value in values if value is not None and value[0] != "text"))[:most]
    return known[0] if len(known) == 1 else ("either", known) if known else None


def annotated(annotation: Expression) -> Expression:
    """An object of the class an annotation names: `Optional["Tensor"]`, `Tensor | None` too; not containers of any."""
    if annotation is None:
        return None
    kind = annotation[0]
    if kind == "text":
        parts = annotation[1].split(".")
        if not all(part.isidentifier() for part in parts):
            return None
        value: Expression = ("name", parts[0])
        for part in parts[1:]:
            value = ("attribute", value, part)
        return ("instance", value)
    if kind in ("name", "attribute", "local"):
        return ("instance", annotation)
    if kind == "element" and annotation[1] is not None and annotation[1][-1] in ("Optional", "Union"):
        return annotated(annotation[2])
    if kind == "either":
        return _either([annotated(part) for part in annotation[1]])
    return None


def _kind(node: _Function) -> str:
    for decorator in node.decorator_list:
        name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
        if name in ("staticmethod", "classmethod"):
            return str(name)
        if name.endswith("property"):
            return "property"
    return ""


_HANDLERS: dict[type[ast.AST], Any] = {
    ast.Import: _Reader.visit_import,
    ast.ImportFrom: _Reader.visit_from,
    ast.Assign: _Reader.visit_assign,
    ast.AnnAssign: _Reader.visit_annotated,
    ast.NamedExpr: _Reader.visit_named,
    ast.For: _Reader.visit_for,
    ast.AsyncFor: _Reader.visit_for,
    ast.ListComp: _Reader.visit_comprehension,
    ast.SetComp: _Reader.visit_comprehension,
    ast.GeneratorExp: _Reader.visit_comprehension,
    ast.DictComp: _Reader.visit_comprehension,
    ast.With: _Reader.visit_with,
    ast.AsyncWith: _Reader.visit_with,
    ast.FunctionDef: _Reader.visit_function,
    ast.AsyncFunctionDef: _Reader.visit_function,
    ast.Lambda: _Reader.visit_lambda,
    ast.ClassDef: _Reader.visit_class,
    ast.Call: _Reader.visit_call,
    ast.Attribute: _Reader.visit_attribute,
    ast.Return: _Reader.visit_return,
}
