"""What an expression's value is, as far as a program says: a tensor, several, a module of torch, or something else.

Types follow assignments, annotations, `self.x`, returns, the results of torch's own functions, and definitions in other
files of the project. Nothing is guessed from a name: what is not said is UNKNOWN.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpu2npu.analysis.python_module import PythonModule, of_torch
from gpu2npu.analysis.python_scopes import Assigned, Binding, Defined, Parameter, Scope
from gpu2npu.analysis.torch_results import torch_results

TENSOR = "torch.Tensor"
TENSORS = "tensors"  # a tuple or list of tensors
OTHER = "other"  # known to be none of torch's: a list, a number, an object of the project's own
UNKNOWN = "unknown"

Types = frozenset[str]
_UNKNOWN: Types = frozenset({UNKNOWN})
_OTHER: Types = frozenset({OTHER})
_TENSOR: Types = frozenset({TENSOR})
_TENSORS: Types = frozenset({TENSORS})
_NOTHING: Types = frozenset()

_OWN = "own:"  # before a key of `classes`: a class of the project

_MAX_DEPTH = 25
_TENSOR_CLASSES = frozenset({"torch.Tensor", "torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.FloatTensor",
    "torch.LongTensor", "torch.IntTensor", "torch.BoolTensor", "torch.HalfTensor", "torch.DoubleTensor",
    "torch.ByteTensor", "torch.BFloat16Tensor", "torch.nn.UninitializedParameter"})  # fmt: skip
MODULE = "torch.nn.Module"
# Modules whose call gives no single tensor, or whose result the arguments decide.
_NO_LAYERS = frozenset({"ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Sequential", "Module", "LSTM",
    "GRU", "RNN", "LSTMCell", "MultiheadAttention", "DataParallel", "AdaptiveLogSoftmaxWithLoss",
    "RNNBase"})  # fmt: skip
_LITERALS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.JoinedStr, ast.GeneratorExp,
    ast.Lambda, ast.Compare, ast.Constant)  # fmt: skip
_BUILTINS = frozenset({"list", "dict", "set", "tuple", "str", "int", "float", "bool", "len", "sorted", "range", "open",
    "zip", "enumerate", "map", "filter", "frozenset", "bytes", "repr", "type", "isinstance"})  # fmt: skip
# Packages whose values are no tensors; what others give is unknown.
_FOREIGN = frozenset({"numpy", "pandas", "os", "re", "json", "math", "random", "collections", "itertools", "pathlib",
    "time", "cv2", "PIL", "scipy", "sklearn", "logging", "argparse"})  # fmt: skip


@dataclass(eq=False)
class ValueTypes:
    """Types of the expressions of one module. `classes` are the project's classes that types name."""

    module: PythonModule
    classes: dict[str, tuple[PythonModule, Scope]] = field(default_factory=dict)
    _known: dict[tuple[int, str, int], Types] = field(default_factory=dict)
    _depth: int = 0

    def of(self, node: ast.expr, scope: Scope) -> Types:
        """Every type the value may have: the qualified name of a class of torch, a class of the project, or one of the
        constants above. The empty set is None."""
        if self._depth > _MAX_DEPTH:
            return _UNKNOWN
        self._depth += 1
        try:
            return self._by_form(node, scope)
        finally:
            self._depth -= 1

    def is_tensor(self, node: ast.expr, scope: Scope) -> bool:
        """Whether the value is a tensor and nothing else."""
        return self.of(node, scope) == _TENSOR

    def _by_form(self, node: ast.expr, scope: Scope) -> Types:
        if isinstance(node, ast.Name):
            return self._name(node, scope)
        if isinstance(node, ast.Call):
            return self._called(node, scope)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope)
        if isinstance(node, ast.BinOp):
            sides = self.of(node.left, scope) | self.of(node.right, scope)
            return _TENSOR if TENSOR in sides else _UNKNOWN if UNKNOWN in sides else _OTHER
        if isinstance(node, ast.UnaryOp):
            return _OTHER if isinstance(node.op, ast.Not) else self.of(node.operand, scope)
        if isinstance(node, ast.Compare):
            return _TENSOR if self._compares_tensors(node, scope) else _UNKNOWN
        if isinstance(node, ast.Subscript):
            return self._element(self.of(node.value, scope), whole=isinstance(node.slice, ast.Slice))
        if isinstance(node, ast.IfExp):
            return self.of(node.body, scope) | self.of(node.orelse, scope)
        if isinstance(node, ast.BoolOp):
            return frozenset().union(*(self.of(value, scope) for value in node.values))
        if isinstance(node, (ast.NamedExpr, ast.Await, ast.Starred)):
            return self.of(node.value, scope)
        if isinstance(node, ast.Tuple):
            return _TENSORS if node.elts and all(self.is_tensor(each, scope) for each in node.elts) else _OTHER
        if isinstance(node, ast.Constant) and node.value is None:
            return _NOTHING
        return _OTHER if isinstance(node, _LITERALS) else _UNKNOWN

    def _compares_tensors(self, node: ast.Compare, scope: Scope) -> bool:
        if isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return False
        return any(TENSOR in self.of(side, scope) for side in (node.left, *node.comparators))

    def _element(self, owner: Types, whole: bool = False) -> Types:
        """What an element of a value is, or with `whole` a slice of it."""
        found: set[str] = set()
        for kind in owner:
            if kind in (TENSOR, TENSORS):
                found.add(kind if whole else TENSOR)
            else:
                found.add(UNKNOWN if kind != OTHER else OTHER if whole else UNKNOWN)
        return frozenset(found)

    def _name(self, node: ast.Name, scope: Scope) -> Types:
        found = scope.lookup(node.id)
        if found is None:
            return _UNKNOWN
        owner, bindings = found
        reaching = _reaching(bindings, owner, node) if owner is scope and len(bindings) > 1 else bindings
        key = (id(owner), node.id, id(reaching[-1]) if reaching is not bindings else 0)
        if key not in self._known:
            self._known[key] = _NOTHING  # x = x.float() says nothing new about x
            self._known[key] = frozenset().union(*(self._bound(binding, node.id, owner) for binding in reaching))
        return self._known[key]

    def _bound(self, binding: Binding, name: str, owner: Scope) -> Types:
        if isinstance(binding, Assigned):
            return self._assigned(binding, owner)
        if isinstance(binding, Parameter):
            if binding.annotation is not None:
                return self._annotated(binding.annotation, owner)
            cls = owner.parent
            if binding.place == 0 and name == "self" and cls is not None and cls.kind == "class":
                return self._instance_of(self.module, cls)
        return _UNKNOWN

    def _assigned(self, binding: Assigned, scope: Scope) -> Types:
        if binding.annotation is not None:
            return self._annotated(binding.annotation, scope)
        if binding.value is None:
            return _UNKNOWN
        value = self.of(binding.value, scope)
        return self._element(value) if binding.part else value

    def _annotated(self, node: ast.expr, scope: Scope) -> Types:
        if isinstance(node, ast.Constant):
            if node.value is None:
                return _NOTHING
            if not isinstance(node.value, str):
                return _UNKNOWN
            try:
                node = ast.parse(node.value.strip(), mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return _UNKNOWN
        if isinstance(node, ast.BinOp):  # torch.Tensor | None
            return self._annotated(node.left, scope) | self._annotated(node.right, scope)
        if isinstance(node, ast.Subscript):
            return self._generic(node, scope)
        if isinstance(node, ast.Name) and node.id in _BUILTINS:
            return _OTHER
        return self._instance(node, scope)

    def _generic(self, node: ast.Subscript, scope: Scope) -> Types:
        name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts = (self._annotated(part, scope) for part in inner if not _is_ellipsis(part))
        if name in ("Optional", "Union", "Annotated"):
            return next(parts, _UNKNOWN) if name == "Annotated" else frozenset().union(*parts)
        if name in ("list", "tuple", "List", "Tuple", "Sequence", "Iterable"):
            return _TENSORS if all(part == _TENSOR for part in parts) else _OTHER
        return _OTHER if name in ("dict", "Dict", "set", "Set", "Callable") else _UNKNOWN

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Types:
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            cls = scope.enclosing_class()
            if cls is not None:
                return self._own_attribute(node.attr, cls)
        owner = self.of(node.value, scope)
        if owner == _TENSOR:
            known = torch_results()
            return _TENSOR if f"{TENSOR}.{node.attr}" in known.tensor else _UNKNOWN if node.attr == "grad" else _OTHER
        if TENSORS in owner and node.attr in ("values", "indices", "eigenvalues", "eigenvectors", "Q", "R", "U", "S"):
            return _TENSOR
        return _UNKNOWN

    def _own_attribute(self, name: str, cls: Scope) -> Types:
        key = (id(cls), f"self.{name}", 0)
        if key not in self._known:
            self._known[key] = _NOTHING
            found = [self._assigned(assigned, scope) for assigned, scope in cls.attributes.get(name, ())]
            found += [self._assigned(each, cls) for each in cls.bindings.get(name, ()) if isinstance(each, Assigned)]
            self._known[key] = frozenset().union(*found) if found else _UNKNOWN
        return self._known[key]

    def _called(self, node: ast.Call, scope: Scope) -> Types:
        function = node.func
        if isinstance(function, ast.Name) and function.id in _BUILTINS and scope.lookup(function.id) is None:
            return _OTHER
        known = self._instance(function, scope) if isinstance(function, (ast.Name, ast.Attribute)) else _UNKNOWN
        if known != _UNKNOWN:
            return known
        if isinstance(function, ast.Attribute):
            return self._method_result(function, scope)
        return self._forward(self.of(function, scope)) if isinstance(function, ast.Name) else _UNKNOWN

    def _method_result(self, function: ast.Attribute, scope: Scope) -> Types:
        if isinstance(function.value, ast.Name) and function.value.id == "self":
            called = self._forward(self._attribute(function, scope))
            return called if called != _UNKNOWN else self._own_method(function.attr, scope)
        owner = self.of(function.value, scope)
        if owner == _TENSOR:
            return _results(f"{TENSOR}.{function.attr}", _OTHER)
        if function.attr in _FLUENT and UNKNOWN not in owner and OTHER not in owner:
            return owner
        return _OTHER if owner == _OTHER else _UNKNOWN

    def _own_method(self, name: str, scope: Scope) -> Types:
        cls = scope.enclosing_class()
        for binding in cls.bindings.get(name, ()) if cls is not None else ():
            if isinstance(binding, Defined):
                return self._returned(binding)
        return _UNKNOWN

    def _forward(self, types: Types) -> Types:
        """What calling an object of these types gives."""
        results: set[str] = set()
        for kind in types:
            if kind.startswith(_OWN):
                results |= self._own_forward(*self.classes[kind])
            elif kind.startswith("torch.nn.") and kind.rpartition(".")[2] not in _NO_LAYERS:
                results.add(TENSOR)
            else:
                results.add(UNKNOWN)
        return frozenset(results) or _UNKNOWN

    def _own_forward(self, module: PythonModule, cls: Scope) -> Types:
        for name in ("forward", "__call__"):
            for binding in cls.bindings.get(name, ()):
                if isinstance(binding, Defined):
                    return self._within(module)._returned(binding)
        bases = self.bases(module, cls)
        return self._forward(frozenset(bases)) if bases else _UNKNOWN

    def _within(self, module: PythonModule) -> ValueTypes:
        return self if module is self.module else ValueTypes(module, self.classes, _depth=self._depth + 1)

    def _instance(self, node: ast.expr, scope: Scope) -> Types:
        """What calling `node`, or being annotated by it, gives."""
        qualified = self.module.qualified(node, scope)
        if qualified is not None and of_torch(qualified):
            return _of_torch(qualified)
        found = self.module.definition(node, scope) if isinstance(node, (ast.Name, ast.Attribute)) else None
        if found is None:
            foreign = qualified is not None and qualified.partition(".")[0] in _FOREIGN
            return _OTHER if foreign else _UNKNOWN
        module, defined = found
        if isinstance(defined.node, ast.ClassDef):
            return self._instance_of(module, defined.scope)
        return self._within(module)._returned(defined)

    def _instance_of(self, module: PythonModule, cls: Scope) -> Types:
        key = f"{_OWN}{module.path}:{id(cls)}"
        self.classes[key] = (module, cls)
        return frozenset({key})

    def owners(self, types: Types, member: str) -> set[str]:
        """The classes of torch that a member of a value of these types is looked up in, OTHER where it is not one of
        torch's: where a class of the project defines it, for instance."""
        found: set[str] = set()
        for kind in types:
            found |= self._own_owners(*self.classes[kind], member) if kind.startswith(_OWN) else {kind}
        return found

    def _own_owners(self, module: PythonModule, cls: Scope, member: str, depth: int = 8) -> set[str]:
        if member in cls.bindings or member in cls.attributes:
            return {OTHER}
        found: set[str] = set()
        for base in cls.node.bases if isinstance(cls.node, ast.ClassDef) else ():
            qualified = module.qualified(base, cls.parent or cls)
            if qualified is not None and of_torch(qualified):
                found.add(qualified if qualified not in _TENSOR_CLASSES else TENSOR)
                continue
            parent = self._own_base(module, cls, base) if depth else None
            if parent is not None:
                found |= self._own_owners(*parent, member, depth - 1)
            elif not (isinstance(base, ast.Name) and base.id in _EMPTY_BASES):
                found.add(UNKNOWN)
        return found or {OTHER}

    def _own_base(self, module: PythonModule, cls: Scope, base: ast.expr) -> tuple[PythonModule, Scope] | None:
        """The class of the project that a base is."""
        if not isinstance(base, (ast.Name, ast.Attribute)):
            return None
        found = module.definition(base, cls.parent or cls)
        if found is None or not isinstance(found[1].node, ast.ClassDef) or found[1].scope is cls:
            return None
        return found[0], found[1].scope

    def bases(self, module: PythonModule, cls: Scope) -> set[str]:
        """The classes of torch that a class of the project derives from, directly or not; UNKNOWN for a base from
        elsewhere, OTHER where there is none."""
        return self._own_owners(module, cls, "")

    def _returned(self, function: Defined) -> Types:
        node = function.node
        assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if node.returns is not None:
            return self._annotated(node.returns, function.scope.parent or function.scope)
        key = (id(node), "return", 0)
        if key not in self._known:
            self._known[key] = _NOTHING
            found = [self.of(value, function.scope) for value in _return_values(node.body)]
            self._known[key] = frozenset().union(*found) if found else _UNKNOWN
        return self._known[key]


_EMPTY_BASES = frozenset({"object", "ABC", "Generic", "Protocol"})
_FLUENT = frozenset({"to", "cuda", "npu", "cpu", "half", "float", "double", "bfloat16", "eval", "train",
    "requires_grad_", "apply", "share_memory"})  # fmt: skip


def _reaching(bindings: list[Binding], owner: Scope, use: ast.Name) -> list[Binding]:
    """The bindings of a name that may reach its use: not those before an assignment of the function's own level, which
    comes before the use, nor those after the use that no loop leads back from."""
    body: Iterable[ast.AST] = getattr(owner.node, "body", ())
    level = {id(statement) for statement in body} if isinstance(body, list) else set()
    alive: list[Binding] = []
    for binding in bindings:
        if not isinstance(binding, Assigned):
            alive.append(binding)
            continue
        line = getattr(binding.statement, "lineno", 0)
        end = getattr(binding.statement, "end_lineno", line) if isinstance(binding.statement, _SIMPLE) else line
        if line > use.lineno or (line <= use.lineno <= end and isinstance(binding.statement, _SIMPLE)):
            continue
        if id(binding.statement) in level and isinstance(binding.statement, _SIMPLE):
            alive.clear()
        alive.append(binding)
    return alive or bindings


_SIMPLE = (ast.Assign, ast.AnnAssign)


def _results(qualified: str, otherwise: Types) -> Types:
    known = torch_results()
    found = {TENSOR} if qualified in known.tensor else set()
    if qualified in known.tensors:
        found.add(TENSORS)
    return frozenset(found) or otherwise


def _of_torch(qualified: str) -> Types:
    """What calling a name of torch, or being annotated by it, gives."""
    if qualified in _TENSOR_CLASSES:
        return _TENSOR
    leaf = qualified.rpartition(".")[2]
    return frozenset({qualified}) if leaf[:1].isupper() else _results(qualified, _UNKNOWN)


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _return_values(body: list[ast.stmt]) -> list[ast.expr]:
    """The values of a function's own return statements."""
    found: list[ast.expr] = []
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return):
            if node.value is not None:
                found.append(node.value)
        elif isinstance(node, ast.stmt) and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            pending.extend(child for child in ast.iter_child_nodes(node))
        elif isinstance(node, (ast.ExceptHandler, ast.match_case)):
            pending.extend(node.body)
    return found
