"""Reads the names a Python package offers from its sources, without importing it.

A wheel of torch_npu cannot be imported where there is no Ascend driver, so its surface is read with `ast`. A name
counts when the module defines it, imports it from the same package, or exports it through `__all__`; what a module
imports from elsewhere (`os`, `Optional`) is not its own. Names with one leading underscore count only as functions,
classes and modules: programs do call `torch.cuda._sleep` and `torch.cuda.memory._record_memory_history`. A class of
nothing but static methods, such as `torch_npu.npu.mstx`, is read as a module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Surface:
    """Qualified names: `modules` are the package and its submodules, `names` everything else they offer.

    `inert` are those of the public names that are functions which do nothing but warn and return a constant.
    `parameters` are those that the public functions and classes of the package itself can be given by keyword, with
    "**" for any others.
    """

    modules: frozenset[str]
    names: frozenset[str]
    inert: frozenset[str] = frozenset()
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass
class _Module:
    """What one module's top level says. `objects` maps an imported name to the module of the package it comes from, and
    what it is called there.

    `exported` are the names of `__all__`, and `is_closed` tells that there is one: an empty one exports nothing.
    `namespaces` are the classes of nothing but static methods, with these; `inert` the functions that do nothing.
    """

    callables: set[str] = field(default_factory=set)
    namespaces: dict[str, set[str]] = field(default_factory=dict)
    inert: set[str] = field(default_factory=set)
    parameters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    variables: set[str] = field(default_factory=set)
    objects: dict[str, tuple[str, str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    foreign: set[str] = field(default_factory=set)
    exported: set[str] = field(default_factory=set)
    is_closed: bool = False


def read_surface(sources: Mapping[str, str], package: str) -> Surface:
    """The names of `package` ("torch_npu.npu") and its submodules, found in `sources` (path in the wheel -> text).

    Raises:
        SyntaxError: a source does not parse.
        KeyError: `package` has no `__init__.py` in `sources`.
    """
    parsed = {}
    for path, text in sources.items():
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if name == package or name.startswith(package + "."):
            parsed[name] = _read_module(ast.parse(text), name, path.endswith("/__init__.py"), package)
    root = parsed[package]
    # `from .mstx import mstx` hides the submodule behind the object of the same name.
    modules = {name for name in parsed if root.objects.get(name.removeprefix(package + "."), ("",))[0] != name}
    names: set[str] = set()
    inert: set[str] = set()
    namespaces: set[str] = set()
    parameters: dict[str, tuple[str, ...]] = {}
    for module in modules:
        for name in _offered(module, parsed, frozenset()):
            qualified = f"{module}.{name}"
            names.add(qualified)
            home = _home(module, name, parsed, frozenset())
            if home is None:
                continue
            owner, original = home
            if original in owner.inert and "._" not in qualified:
                inert.add(qualified)
            if original in owner.parameters and module == package and not name.startswith("_"):
                parameters[qualified] = owner.parameters[original]
            if original in owner.namespaces:
                namespaces.add(qualified)
                names.update(f"{qualified}.{member}" for member in owner.namespaces[original])
    modules |= namespaces
    return Surface(frozenset(modules), frozenset(names - modules), frozenset(inert), parameters)


def _read_module(tree: ast.Module, name: str, is_package: bool, package: str) -> _Module:
    module = _Module()
    for statement in _top_level(tree.body):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            module.callables.add(statement.name)
            if isinstance(statement, ast.ClassDef):
                members = _static_methods(statement)
                if members:
                    module.namespaces[statement.name] = members
                for method in statement.body:
                    if isinstance(method, ast.FunctionDef) and method.name in ("__init__", "__new__"):
                        module.parameters[statement.name] = _parameters(method)[1:]
            else:
                module.parameters[statement.name] = _parameters(statement)
                if _does_nothing(statement):
                    module.inert.add(statement.name)
        elif isinstance(statement, ast.ImportFrom):
            origin = _origin(statement, name, is_package)
            inside = origin == package or origin.startswith(package + ".")
            for alias in statement.names:
                if not inside:
                    module.foreign.add(alias.asname or alias.name)
                elif alias.name == "*":
                    module.stars.append(origin)
                else:
                    module.objects[alias.asname or alias.name] = origin, alias.name
        elif isinstance(statement, ast.Import):
            module.foreign.update(alias.asname or alias.name.split(".")[0] for alias in statement.names)
        else:
            exported = _exported(statement)
            if exported is None:
                module.variables.update(_assigned(statement))
            else:
                module.exported.update(exported)
                module.is_closed = True
            for owner, member in _attributes(statement):
                module.namespaces.get(owner, set()).add(member)
    return module


def _static_methods(statement: ast.ClassDef) -> set[str]:
    """The methods of a class without bases whose methods are all static; empty for any other class."""
    methods = [each for each in statement.body if isinstance(each, ast.FunctionDef)]
    static = {
        method.name
        for method in methods
        if any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in method.decorator_list)
    }
    return static if len(static) == len(methods) and not statement.bases else set()


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, ...]:
    named = [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]
    return (*named, "**") if function.args.kwarg is not None else tuple(named)


def _does_nothing(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the body is nothing but a docstring, warnings, `pass` and the return of a constant."""

    def is_idle(statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Return):
            return statement.value is None or isinstance(statement.value, ast.Constant)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            return ast.unparse(statement.value.func) in ("warn", "warnings.warn")
        return isinstance(statement, ast.Pass) or (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        )

    return all(map(is_idle, function.body))


def _attributes(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Owner and name of each attribute that an assignment sets: `mstx.annotate = annotate`."""
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            yield target.value.id, target.attr


def _home(name: str, offered: str, parsed: Mapping[str, _Module], seen: frozenset[str]) -> tuple[_Module, str] | None:
    """The module that defines what module `name` offers, and its name there, if it is a function or class of the
    package."""
    module = parsed.get(name)
    if module is None or name in seen:
        return None
    if offered in module.callables:
        return module, offered
    origins = [module.objects[offered]] if offered in module.objects else [(star, offered) for star in module.stars]
    homes = (_home(origin, original, parsed, seen | {name}) for origin, original in origins)
    return next((home for home in homes if home is not None), None)


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run on import, also those inside `if`, `try` and `with`."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If) and ast.unparse(statement.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from _top_level(statement.orelse)
        elif isinstance(statement, (ast.If, ast.Try, ast.With)):
            for part in ("body", "orelse", "finalbody"):
                yield from _top_level(getattr(statement, part, []))
            for handler in getattr(statement, "handlers", []):
                yield from _top_level(handler.body)


def _origin(statement: ast.ImportFrom, name: str, is_package: bool) -> str:
    """The absolute module that `from X import ...` reads from, in module `name`."""
    if not statement.level:
        return statement.module or ""
    parents = name.split(".")
    parents = parents[: len(parents) - statement.level + is_package]
    return ".".join([*parents, *([statement.module] if statement.module else [])])


def _exported(statement: ast.stmt) -> set[str] | None:
    """The names that `__all__ = [...]`, `__all__ += [...]` or `__all__.extend([...])` states; None for all else."""
    if isinstance(statement, ast.Assign):
        targets: list[ast.expr] = statement.targets
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        targets = [statement.target]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        method = statement.value.func
        targets = [method.value] if isinstance(method, ast.Attribute) else []
    else:
        return None
    if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
        return None
    return {
        node.value for node in ast.walk(statement) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _assigned(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.Assign):
        targets: list[ast.expr] = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    else:
        return set()
    return {
        node.id
        for target in targets
        if isinstance(target, (ast.Name, ast.Tuple))
        for node in ast.walk(target)
        if isinstance(node, ast.Name)
    }


def _offered(name: str, parsed: Mapping[str, _Module], seen: frozenset[str]) -> set[str]:
    """The names that can be read from module `name`; `seen` breaks cycles of star imports."""
    module = parsed.get(name)
    if module is None or name in seen:
        return set()
    starred = set()
    for origin in module.stars:
        offered = _offered(origin, parsed, seen | {name})
        source = parsed.get(origin)
        if source is not None and source.is_closed:
            starred |= offered & source.exported
        else:
            starred |= {each for each in offered if not each.startswith("_")}
    public = {each for each in module.variables if not each.startswith("_")}
    own = public | starred | {each for each in module.callables | set(module.objects) if not each.startswith("__")}
    # An `__all__` may name what is not there (a missing comma makes one name of two). Only the tensor types, which C++
    # adds to the module, are believed without a binding.
    bound = own | module.foreign | module.variables
    return own | {each for each in module.exported if each in bound or each.endswith("Tensor")}
