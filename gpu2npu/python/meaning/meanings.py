"""Follows expressions through files to what they mean in a running program: modules, functions, classes, objects.

It over-approximates: a name that is given several values may mean each of them, and a container what is put into it.
Nothing outside the project is looked at: what comes from there stays a dotted name. What is found holds no nodes, so
that a file may be forgotten once it was looked up.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import partial

from gpu2npu.python.facts.reading import loaded_module
from gpu2npu.python.facts.record import OriginKind
from gpu2npu.python.meaning.classes import Classes
from gpu2npu.python.meaning.meaning import Found, Meaning, MeaningKind, defined_name, few, joined, without_modules
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import CALLED, TENSOR, TENSORS
from gpu2npu.python.project.imports import absolute_name, module_names
from gpu2npu.python.project.project import Project
from gpu2npu.python.tree.scopes import Assigned, Binding, Imported, Parameter, Scope, value_of
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    argument_value,
    arguments,
    defaults,
    elements,
    is_classmethod,
    is_static,
    is_super,
    last_name,
    returned_values,
    string_value,
)
from gpu2npu.python.tree.syntax_tree import alternatives

_MOST_ELEMENTS = 40  # of a container that are looked at
# What gives back, in one wrapping or another, what it is given.
_WRAPPERS = frozenset(
    {"copy.deepcopy", "enumerate", "functools.partial", "functools.wraps", "iter", "list", "next", "reversed", "sorted",
     "tuple", "zip"}
)  # fmt: skip
_SEVERAL = frozenset({TENSOR, TENSORS})
_NAMED = (ast.Name, ast.Attribute)
_MODULE, _FUNCTION, _CLASS, _OBJECT, _NAME, _INSTANCE, _MEMBER = MeaningKind


class Meanings(Classes):
    """Answers what the expressions of a project's files may mean. `modules` are the dotted names of its files."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self.modules = module_names(project)

    def files(self) -> Iterator[Names]:
        """The files of the project that can be parsed, sorted by path."""
        for path in sorted(self.modules):
            names = self.project.names(path)
            if names is not None:
                yield names

    def of(self, node: ast.AST | None, scope: Scope, names: Names) -> Found:
        """Return what an expression in a scope of a file may mean; nothing where that is not known."""
        return self.deeper(lambda: few(self._by_form(node, scope, names))) or () if node is not None else ()

    def dotted(self, meaning: Meaning) -> str:
        """The dotted name of what is meant, of an object that of its class."""
        if not meaning.path:
            return meaning.name
        module = self.modules[meaning.path]
        return f"{module}.{meaning.name}" if meaning.name else module

    def _by_form(self, node: ast.AST, scope: Scope, names: Names) -> Iterable[Meaning]:
        again = partial(self.of, scope=scope, names=names)
        if isinstance(node, ast.Name):
            return self._of_name(node.id, scope, names)
        if isinstance(node, ast.Attribute):
            if is_super(node.value):
                return self._of_super(node.attr, scope, names)
            return joined(self.attribute(owner, node.attr) for owner in again(node.value))
        if isinstance(node, ast.Call):
            return self._called(node, scope, names)
        if isinstance(node, ast.Subscript):
            return without_modules(again(node.value))
        if isinstance(node, ast.IfExp):
            return joined(map(again, (node.body, node.orelse)))
        if isinstance(node, ast.BoolOp):
            return joined(map(again, node.values))
        if isinstance(node, ast.BinOp):
            return joined(map(again, (node.left, node.right)))
        if isinstance(node, (ast.Await, ast.NamedExpr, ast.Starred)):
            return again(node.value)
        if isinstance(node, ast.UnaryOp):
            return again(node.operand)
        if isinstance(node, ast.Dict):
            return joined(map(again, node.values[:_MOST_ELEMENTS]))
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self.of(node.elt, names.file.scopes[node], names)
        if isinstance(node, ast.DictComp):
            return self.of(node.value, names.file.scopes[node], names)
        return joined(map(again, elements(node)[:_MOST_ELEMENTS]))

    # Names

    def _of_name(self, name: str, scope: Scope, names: Names) -> Iterable[Meaning]:
        found = scope.lookup(name)
        if found is None or found[0].kind == "module":
            members = self.member(names.path, name)
            return members or ((Meaning(_NAME, name),) if found is None and name in _WRAPPERS else ())
        owner, bindings = found
        ask = partial(self._of_bindings, bindings, owner, names)
        return self.project.once(("meanings", owner, name), ask) or ()

    def _of_bindings(self, bindings: Iterable[Binding], owner: Scope, names: Names) -> Found:
        return few(joined(self._bound(binding, owner, names) for binding in bindings))

    def _bound(self, binding: Binding, owner: Scope, names: Names) -> Iterable[Meaning]:
        if isinstance(binding, Imported):
            return self.imported(binding.qualified, names.path)
        if isinstance(binding, Assigned):
            return self._assigned(binding, names)
        if isinstance(binding, Parameter):
            return self._parameter(binding, owner, names)
        name = defined_name(binding.scope)
        if name is None:  # what a function defines is a part of it
            return ()
        return (Meaning(_FUNCTION if isinstance(binding.node, FUNCTIONS) else _CLASS, name, names.path),)

    def _assigned(self, binding: Assigned, names: Names) -> Iterable[Meaning]:
        scope = names.file.scope_of(binding.statement)  # not that of the name, in a function that declares it global
        if binding.annotation is not None and (known := self._annotated(binding.annotation, scope, names)):
            return known
        statement = binding.statement
        if isinstance(statement, ast.withitem):
            whole = isinstance(statement.optional_vars, ast.Name)
            return self.of(statement.context_expr, scope, names) if whole else ()
        if (value := value_of(binding)) is not None:
            return self.of(value, scope, names)
        return without_modules(self.of(binding.value or _unpacked(statement), scope, names))

    def _parameter(self, binding: Parameter, owner: Scope, names: Names) -> Iterable[Meaning]:
        function = owner.node
        own = _class_of(binding, owner)
        if own is not None:
            name = defined_name(own)
            kind = _CLASS if isinstance(function, FUNCTIONS) and is_classmethod(function) else _OBJECT
            return (Meaning(kind, name, names.path),) if name else ()
        outer = owner.parent or owner
        found = self._annotated(binding.annotation, outer, names)
        if isinstance(function, (*FUNCTIONS, ast.Lambda)):
            given = (default for parameter, default in defaults(function) if parameter is binding.node)
            found = (*found, *self.of(next(given, None), outer, names))
        return found

    def _annotated(self, annotation: ast.expr | None, scope: Scope, names: Names) -> Found:
        """The objects of the classes that an annotation names."""
        classes = joined(self.of(each, scope, names) for each in alternatives(annotation) if isinstance(each, _NAMED))
        return few(joined(self._made(each) for each in classes if each.kind in (_CLASS, _NAME)))

    def imported(self, qualified: str, importer: str) -> Found:
        """Return what a dotted name means that a file imports, relative with leading dots."""
        parts = qualified.lstrip(".").split(".")
        leading = qualified[: len(qualified) - len("".join(parts)) - len(parts) + 1]
        if leading or parts[0] not in self.library.packages:
            for split in range(len(parts) - 1, -1, -1):
                module = leading + ".".join(parts[:split])
                path = self.project.module_path(module, importer) if module else None
                if path is not None:
                    return self._members((Meaning(_MODULE, "", path),), parts[split:])
            path = self.project.module_path(qualified, importer)
            if path is not None:
                return (Meaning(_MODULE, "", path),)
        if leading:
            return (Meaning(_NAME, absolute_name(qualified, self.modules[importer], importer)),)
        return (Meaning(_NAME, self.library.canonical(qualified)),)

    def _members(self, found: Found, parts: Iterable[str]) -> Found:
        for part in parts:
            found = few(joined(self.attribute(each, part) for each in found))
        return found

    def member(self, path: str, name: str) -> Found:
        """Return what a name of a module means, through its imports; a submodule, where it binds none."""
        return self.cached(("member", path, name), partial(self._member, path, name)) or ()

    def _member(self, path: str, name: str) -> Found:
        facts = self.project.facts(path, path)
        origins = facts.bound.get(name, ()) if facts is not None else ()
        found: Found = ()
        if any(origin.kind is not OriginKind.IMPORT for origin in origins):
            names = self.project.names(path)
            if names is not None:
                found = self._of_bindings(names.file.module.bindings[name], names.file.module, names)
        elif origins:
            found = few(joined(self.imported(origin.name, path) for origin in origins))
        elif facts is not None:
            found = few(joined(self._starred(star, name, path) for star in facts.stars))
        if not found and path.endswith("__init__.py"):
            inner = self.project.module_path(f".{name}", path)
            found = (Meaning(_MODULE, "", inner),) if inner is not None else ()
        return found

    def _starred(self, module: str, name: str, importer: str) -> Found:
        """Return what a name means that `from module import *` may bring in."""
        path = self.project.module_path(module, importer)
        if path is None:
            brought = self.library.starred(module, name)
            return (Meaning(_NAME, brought),) if brought is not None else ()
        facts = self.project.facts(path, importer) if path != importer else None
        return self.member(path, name) if facts is not None and facts.may_have(name) else ()

    # Attributes

    def attribute(self, owner: Meaning, name: str) -> Found:
        """Return what the attribute `name` of `owner` may mean."""
        if owner.kind is _MODULE:
            return self._of_module(owner, name)
        if owner.kind is _NAME:
            qualified = f"{owner.name}.{name}"
            inner = self.project.module_path(qualified, "")  # in a package without an __init__.py
            return (
                Meaning(_NAME, self.library.canonical(qualified)) if inner is None else Meaning(_MODULE, "", inner),
            )
        if owner.kind is _INSTANCE:
            return (Meaning(_MEMBER, f"{owner.name}.{name}"),)
        if owner.kind is _MEMBER:
            cls, _, last = owner.name.rpartition(".")
            is_tensor = cls == TENSOR and TENSOR in self.library.tensor_attribute(last)
            return (Meaning(_MEMBER, f"{TENSOR}.{name}"),) if is_tensor else ()
        return self._of_class(owner, name) if owner.kind in (_CLASS, _OBJECT) else ()

    def _of_module(self, module: Meaning, name: str) -> Found:
        found = self.member(module.path, name)
        facts = self.project.facts(module.path, module.path)
        if found or (facts is not None and name in facts.bound):
            return found
        return (Meaning(_NAME, f"{self.modules[module.path]}.{name}"),)

    def _of_class(self, owner: Meaning, name: str) -> Found:
        method = self.method(owner, name)
        if method is not None:
            return self.result(method) if self.reads_property(owner, name) is not None else (method,)
        if owner.kind is _CLASS and name in self.library.class_calls:
            return (Meaning(_OBJECT, owner.name, owner.path),)
        question = "attribute", owner.path, owner.name, name
        assigned, found = self.cached(question, partial(self._values, owner, name)) or (True, ())
        base = self.outside_base(owner) if not assigned else None
        return (Meaning(_MEMBER, f"{base}.{name}"),) if base is not None else found

    def _values(self, owner: Meaning, name: str) -> tuple[bool, Found]:
        """Return whether an attribute is assigned in a class or those it inherits from, and what it may mean then."""
        assigned = False
        found: list[Meaning] = []
        for cls in self.mro(owner):
            known = self.definition(cls) if cls.path else None
            if known is None:
                continue
            scope, names = known[0].scope, known[1]
            given = [*scope.attributes.get(name, ()), *((each, scope) for each in scope.bindings.get(name, ()))]
            assigned = assigned or bool(given)
            found += joined(self._bound(binding, inner, names) for binding, inner in given)
        return assigned, few(found)

    def _of_super(self, name: str, scope: Scope, names: Names) -> Found:
        cls = scope.enclosing_class()
        own = defined_name(cls) if cls is not None else None
        if own is None:
            return ()
        own_class = Meaning(_CLASS, own, names.path)
        method = self.method(own_class, name, inherited_only=True)
        base = self.outside_base(own_class)
        if method is not None:
            return (method,)
        return (Meaning(_MEMBER, f"{base}.{name}"),) if base is not None else ()

    # Calls

    def _called(self, call: ast.Call, scope: Scope, names: Names) -> Iterator[Meaning]:
        """Yield what the result of a call may mean."""
        loaded = loaded_module(call)
        if loaded is not None:
            yield from self.imported(loaded, names.path)
            return
        attribute = string_value(call.args[1]) if len(call.args) > 1 and last_name(call.func) == "getattr" else None
        if attribute is not None:
            yield from joined(self.attribute(owner, attribute) for owner in self.of(call.args[0], scope, names))
            return
        for owner, called in self._callees(call.func, scope, names):
            if called.kind is _NAME and (called.name in _WRAPPERS or called.name in self.library.wrappers):
                yield from joined(self.of(argument_value(each), scope, names) for each in arguments(call)[:2])
            elif owner is not None and called.kind is _MEMBER and called.name.rpartition(".")[2] in self.library.fluent:
                yield owner
            else:
                yield from self._given(called)

    def _callees(self, node: ast.expr, scope: Scope, names: Names) -> Iterator[tuple[Meaning | None, Meaning]]:
        """Yield what is called, each with the object that it is an attribute of."""
        if isinstance(node, ast.Attribute) and not is_super(node.value):
            for owner in self.of(node.value, scope, names):
                yield from ((owner, each) for each in self.attribute(owner, node.attr))
        else:
            yield from ((None, each) for each in self.of(node, scope, names))

    def _given(self, called: Meaning) -> Found:
        """Return what the result of calling something with this meaning may mean."""
        if called.kind is _FUNCTION:
            return self.result(called)
        if called.kind is _OBJECT:
            method = next(filter(None, (self.method(called, name) for name in CALLED)), None)
            found = self.result(method) if method is not None else ()
            return found or ((Meaning(_INSTANCE, TENSOR),) if self.is_layer(called) else ())
        if called.kind is _INSTANCE:
            types = self.library.layer_result(called.name)
        elif called.kind is _MEMBER:
            owner, _, method_name = called.name.rpartition(".")
            types = self.library.tensor_method(method_name) if owner == TENSOR else frozenset()
        else:
            return self._made(called)
        return (Meaning(_INSTANCE, TENSOR),) if _SEVERAL & types else ()

    def _made(self, called: Meaning) -> Found:
        """The object that a class makes, whose name has a capital where it is not the project's; of the library's
        functions the tensor."""
        if called.kind is _CLASS:
            return (Meaning(_OBJECT, called.name, called.path),)
        if called.kind is not _NAME:
            return ()
        if called.name in self.library.tensors or _SEVERAL & self.library.assumed_result(called.name):
            return (Meaning(_INSTANCE, TENSOR),)
        return (Meaning(_INSTANCE, called.name),) if called.name.rpartition(".")[2][:1].isupper() else ()

    def result(self, function: Meaning) -> Found:
        """Return what a function of the project returns: what its annotation says, else what its returns are."""
        return self.cached(("result", function.path, function.name), partial(self._result, function)) or ()

    def _result(self, function: Meaning) -> Found:
        found = self.definition(function)
        if found is None or not isinstance(found[0].node, FUNCTIONS):
            return ()
        (defined, names), node = found, found[0].node
        assert isinstance(node, FUNCTIONS)
        known = self._annotated(node.returns, defined.scope.parent or defined.scope, names)
        return known or few(joined(self.of(value, defined.scope, names) for value in returned_values(node)))


def _class_of(parameter: Parameter, owner: Scope) -> Scope | None:
    """The class that a method's first parameter stands for, or one named `self` of a function within a method."""
    function, cls = owner.node, owner.enclosing_class()
    if not isinstance(function, FUNCTIONS) or cls is None or parameter.position != 0:
        return None
    outer = owner.parent if owner.parent is None or owner.parent.kind != "types" else owner.parent.parent
    is_own = parameter.node.arg == "self" or (outer is cls and not is_static(function))
    return cls if is_own and parameter.annotation is None else None


def _unpacked(statement: ast.AST) -> ast.expr | None:
    """The expression whose parts a statement binds to the names in its target."""
    if isinstance(statement, (ast.For, ast.AsyncFor, ast.comprehension)):
        return statement.iter
    return statement.value if isinstance(statement, ast.Assign) else None
