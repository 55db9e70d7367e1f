"""Kernels for CUDA that a project has compiled, and functions that run some by a library of NVIDIA's GPUs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from gpu2npu.engine.imports import is_compiled
from gpu2npu.engine.other_devices.choices import affirmed
from gpu2npu.engine.other_devices.foreign_calls import foreign_rule
from gpu2npu.engine.other_devices.kernels import LOADERS
from gpu2npu.engine.other_devices.sources import function_of, is_source
from gpu2npu.engine.strings.prose import speaks
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.facts.reading import IMPORTERS, loaded_module
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.scopes import Binding, Imported, Scope, value_of
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    IMPORTS,
    Import,
    dotted_name,
    elements,
    import_module,
    is_none,
    last_name,
    local_name,
    string_value,
)
from gpu2npu.records import Bounds, FindingKind
from gpu2npu.support.spellings import OTHER_DEVICE

OF_TORCH = re.compile(r"torch(\.|$)")
# Modules of these names, imported by themselves, may be extensions that the project builds; `torch` and `time` are not.
_EXTENSION = re.compile(r"(^|_)(c|ext|extensions?|ops?|kernels?|backend)(_|$)", re.IGNORECASE)
# Of packages that know no NPU what is only for GPUs: `faiss.index_cpu_to_all_gpus`, `decord.gpu`.
_FOREIGN = re.compile(r"gpu|cuda", re.IGNORECASE)
_COMPILED = re.compile(r"_cuda$")  # modules of this name are compiled, unless the project has them in Python


class OwnCode(Struct, frozen=True):
    """Asks of the code of one file whether it is CUDA's own: by where it is from, and by what the rules say."""

    names: Names
    table: RuleTable

    def is_of_cuda(self, node: ast.AST, depth: int = 3) -> bool:
        """Return whether a part of a condition is what CUDA alone has, or says that it is there: a name whose value is
        of such a package, or of whether several are there, or is set beside its import, the class of
        `isinstance(a, CUDAOpBuilder)`, and a call of what builds CUDA sources."""
        if isinstance(node, ast.Call):
            is_member = self.is_of_class(node) or self.table.is_cuda_only("member", last_name(node.func))
            return is_member or self._builds(node.func)
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return False
        if is_of_package(self._qualified(node), self.table):
            return True
        values = [each for each in self.names.file.scope_of(node).values(node) if each is not None]
        bound = (getattr(each, "value", None) for each in self.names.file.scope_of(node).bound(node))
        made = [each for each in bound if isinstance(each, ast.Call)]
        if any(self.table.is_cuda_only("member", last_name(each.func)) or self._looks_for(each) for each in made):
            return True
        tries = (above for each in values for above in self.names.file.above(each) if isinstance(above, ast.Try))
        if any(isinstance(each, IMPORTS) and self.imports_own(each) for tried in tries for each in tried.body):
            return True
        return depth > 0 and any(self.is_of_cuda(part, depth - 1) for each in values for part in _found(each))

    def is_of_class(self, call: ast.Call) -> bool:
        """`isinstance(a, CUDAOpBuilder)`"""
        is_test = last_name(call.func) == "isinstance" and len(call.args) > 1
        return is_test and self.table.is_cuda_only("member", last_name(call.args[1]))

    def tests_class(self, test: ast.expr) -> bool:
        """`isinstance(self, CUDAOpBuilder)`, also with more beside it: what is under it is of objects for CUDA."""
        return any(isinstance(part, ast.Call) and self.is_of_class(part) for part in affirmed(test))

    def _builds(self, function: ast.expr) -> bool:
        """Return whether a function of the project has the names of CUDA sources: in a call, or in a list for one."""
        made = function_of(function, self.names)
        texts = map(string_value, walk(*made[0].body)) if made is not None else ()
        return any(self.table.is_cuda_only("source", text) for text in texts if text is not None)

    def imports_own(self, statement: Import) -> bool:
        """Return whether a statement imports what is CUDA's own by the name of its package, module or member."""
        module = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
        names = [alias.name for alias in statement.names]
        parts = [part for name in (*names, module) for part in name.split(".")]
        level = statement.level if isinstance(statement, ast.ImportFrom) else 0
        packages = [] if level else [module] if module else names
        members = ["." * level + ".".join(filter(None, [module, name])) for name in names]
        return (
            self.table.is_cuda_only("module", *parts)
            or any(is_of_package(each, self.table) for each in packages)
            or any(map(self._is_built, members))
        )

    def _is_built(self, qualified: str) -> bool:
        """Return whether a name is of a module that the project builds from CUDA sources."""
        return self.table.built_rule(qualified, self.names.path) is not None

    def calls_own(self, code: Sequence[ast.AST]) -> bool:
        """Return whether code calls or imports what CUDA alone has, by the names of functions and packages."""
        for node in walk(*code):
            if isinstance(node, IMPORTS) and self.imports_own(node):
                return True
            if isinstance(node, ast.Call) and self.table.is_cuda_only("member", last_name(node.func)):
                return True
            called = self._qualified(node.func) if isinstance(node, ast.Call) else ""
            if is_of_package(called, self.table) or self._is_built(called):
                return True
        return False

    def always_imports(self, body: Sequence[ast.stmt]) -> bool:
        """Return whether statements come to an import of a package that is CUDA's own on each way through them, but for
        those of other devices, or end before it."""
        for each in body:
            if isinstance(each, IMPORTS) and self._imports_package(each):
                return True
            if isinstance(each, ast.If):
                ways = [] if OTHER_DEVICE.search(self.names.file.code(each.test).lower()) else [each.body]
                if each.orelse and all(map(self.always_imports, [*ways, each.orelse])):
                    return True
            elif isinstance(each, ast.With) and self.always_imports(each.body):
                return True
        return False

    def _imports_package(self, statement: Import) -> bool:
        """Return whether a statement imports such a package by a name of its own, not one that says for GPUs."""
        module = import_module(statement) if isinstance(statement, ast.ImportFrom) else statement.names[0].name
        is_other = self.names.project.module_path(module, self.names.path) is None
        return is_other and not _FOREIGN.search(self.names.file.code(statement)) and self.imports_own(statement)

    def keyed(self, displays: Iterable[ast.AST]) -> Iterator[Bounds]:
        """`"cuda"` in `{"cuda": "nms.cu", "cpu": "nms.cpp"}`, and the devices of `{"flash-attn2": ("cuda", "xpu")}`"""
        for display in displays:
            for key, value in zip(display.keys, display.values, strict=True) if isinstance(display, ast.Dict) else ():
                text = string_value(key)
                if key and text == "cuda" and (is_source(value, self.names, self.table) or self.calls_own([value])):
                    yield self.names.file.bounds(key)
                elif text and isinstance(value, (ast.Tuple, ast.List)) and self.table.is_cuda_only("refusal", text):
                    yield self.names.file.bounds(value)

    def warns(self, body: Sequence[ast.stmt]) -> bool:
        """Return whether statements only print that something needs a GPU: `print("no float8 without CUDA")`."""
        calls = [each.value for each in body if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)]
        texts = [string_value(part) for part in walk(*calls)]
        are_all = len(calls) == len(body) and all(speaks(last_name(each.func) or "") for each in calls)
        is_of_device = any("cpu" in (text or "").lower() for text in texts)  # that all will run there
        return are_all and not is_of_device and self.table.is_cuda_only("refusal", *texts)

    def registered(self, functions: Iterable[ast.AST]) -> Iterator[Bounds]:
        """The decorators that say `device_types="cuda"` of functions that call what CUDA alone has."""
        for function in functions:
            made = function.decorator_list if isinstance(function, FUNCTIONS) else ()
            of_cuda = [each for each in made if any(string_value(part) == "cuda" for part in walk(each))]
            if of_cuda and isinstance(function, FUNCTIONS) and self.calls_own(function.body):
                yield from map(self.names.file.bounds, of_cuda)

    def tries_kernels(self, body: Sequence[ast.stmt]) -> bool:
        """`try: return fast(x)`, where the function of the project imports what may be lacking, and code does without:
        a package whose kernels are tried, or a module of the project that imports one."""
        tried = body[0] if len(body) == 1 else None
        if not isinstance(tried, ast.Try):
            return False
        if not tried.handlers or any(isinstance(each.body[-1], ast.Raise) for each in tried.handlers):
            return False
        return any(isinstance(each, ast.Call) and self._imports_tried(each) for each in walk(*tried.body))

    def _imports_tried(self, call: ast.Call) -> bool:
        function, names = function_of(call.func, self.names) or (None, self.names)
        statements = walk(function) if function is not None else ()
        for each in (each for each in statements if isinstance(each, IMPORTS)):
            module = import_module(each) if isinstance(each, ast.ImportFrom) else each.names[0].name
            other = names.module(module)
            modules = other.facts.imports if other is not None else [module]
            if self.table.is_cuda_only("tried", *(each.partition(".")[0] for each in modules)):
                return True
        return False

    def _qualified(self, node: ast.expr) -> str:
        return self.names.qualified(node, self.names.file.scope_of(node)) or ""

    def is_kernel(self, value: ast.expr, of_tensor: bool = False) -> bool:
        """Return whether a value is a kernel for CUDA of a compiled module, or what a call of one gives.

        What runs for tensors on CUDA alone (`of_tensor`) is a kernel for it by any name.
        """
        function = value.func if isinstance(value, ast.Call) else value
        names, scope = self.names, self.names.file.scope_of(value)
        qualified = names.qualified(function, scope) or ""
        if self.table.is_cuda_only("library", qualified.partition(".")[0]) or self._is_built(qualified):
            return True
        if _FOREIGN.search(qualified) and foreign_rule(qualified, names, self.table) is not None:
            return True
        if runs_library(function, names, self.table) or (
            of_tensor and applies_kernels(function, names, scope, self.table)
        ):
            return True
        owner = function.value if isinstance(function, ast.Attribute) else function
        while of_tensor and isinstance(owner, (ast.Attribute, ast.Call)):  # function.Module().load(x.data_ptr())
            owner = owner.value if isinstance(owner, ast.Attribute) else owner.func
        found = scope.lookup(owner.id) if isinstance(owner, ast.Name) else None
        if found is None:
            return False
        if isinstance(function, ast.Name):
            given = [each for each in found[1] if not is_none(value_of(each))]  # None without the package
            return bool(given) and all(isinstance(each, Imported) and self._is_imported(each) for each in given)
        if all(self._is_extension(each) for each in found[1]):
            return of_tensor or self.table.is_cuda_only("module", *(dotted_name(function) or "").split("."))
        is_named_so = isinstance(function, ast.Attribute) and function.attr.endswith("_cuda")
        return is_named_so and all(is_compiled_binding(binding, names, self.table) for binding in found[1])

    def _is_imported(self, binding: Imported) -> bool:
        is_package = is_of_package(binding.qualified, self.table)
        return is_package or is_compiled_member(binding, self.names, self.table)

    def calls_kernels(self, body: Sequence[ast.stmt], depth: int = 2) -> bool:
        """Return whether statements call or assign a kernel for tensors on CUDA, themselves or in functions of the
        project, and run nothing in place of it."""
        for index, each in enumerate(body):
            if isinstance(each, ast.If):
                others = each.orelse or (body[index + 1 :] if isinstance(each.body[-1], ast.Return) else [])
                is_one_way = not each.orelse and not isinstance(each.body[-1], ast.Return)
                if self.calls_kernels(each.body, depth) and (is_one_way or self.calls_kernels(others, depth)):
                    return True
            taken = (ast.Call, ast.Name) if isinstance(each, ast.Assign) else ast.Call
            value = getattr(each, "value", None)
            if isinstance(value, taken) and self.is_kernel(value, of_tensor=True):
                return True
            made = function_of(value.func, self.names) if depth and isinstance(value, ast.Call) else None
            if made is not None and OwnCode(made[1], self.table).calls_kernels(made[0].body, depth - 1):
                return True
        return False

    def _is_extension(self, binding: Binding) -> bool:
        is_package = isinstance(binding, Imported) and is_of_package(binding.qualified, self.table)
        return is_package or is_extension(binding, self.names, self.table)

    def _looks_for(self, call: ast.Call) -> bool:
        """Return whether a call imports such a package by its name: the project's own `optional_import("name")`."""
        texts = [each for each in call.args if is_of_package(string_value(each) or "", self.table)]
        values, names = values_of(self.names.project), self.names
        places = (values.place_of(names, each.lineno, each.col_offset) for each in texts)
        uses = (use for at in places if at is not None for use in values.uses(at, names.path))
        return any(use.text.rpartition(".")[2] in IMPORTERS for use in uses)

    def is_member(self, value: ast.AST) -> bool:
        """`QuantType.INT8`, a member of an enumeration, but not `args.int8`"""
        owner = last_name(value.value) if isinstance(value, ast.Attribute) else None
        return (owner or "")[:1].isupper() and self.table.is_cuda_only("member", last_name(value))


def _found(value: ast.expr) -> Sequence[ast.expr]:
    """The parts that are there where a value is true: `all((scan, conv))`, `scan is not None`."""
    if isinstance(value, ast.Call) and dotted_name(value.func) == "all" and value.args:
        return elements(value.args[0])
    is_test = isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.IsNot) and is_none(value.comparators[0])
    return [value.left] if is_test and isinstance(value, ast.Compare) else []


def is_of_package(qualified: str, table: RuleTable) -> bool:
    """Return whether a name is of a package that the rules call CUDA's own, or unsupported, such as flashinfer."""
    rule = table.package_rule(qualified)
    report = rule.then.report if rule is not None else None
    is_lacking = report is not None and report.kind is FindingKind.UNSUPPORTED
    return is_lacking or table.is_cuda_only("library", qualified.partition(".")[0])


def is_extension(binding: Binding, names: Names, table: RuleTable) -> bool:
    """`_C` of `from . import _C`, or what `torch.utils.cpp_extension.load` gives"""
    if isinstance(binding, Imported):
        return is_compiled_binding(binding, names, table)
    call = value_of(binding)
    if module := loaded_module(call):  # import_module("norm_cuda")
        return _COMPILED.search(module) is not None and names.project.module_path(module, names.path) is None
    made = names.qualified(call.func, names.file.scope_of(call)) if isinstance(call, ast.Call) else None
    return made in LOADERS


def is_compiled_member(binding: Imported, names: Names, table: RuleTable) -> bool:
    """`from ._ext import nms_cuda`, where the project has no such file in Python"""
    module, _, member = binding.qualified.rpartition(".")
    is_named = isinstance(binding.statement, ast.ImportFrom) and bool(module.strip("."))
    return (
        is_named
        and table.is_cuda_only("module", member)
        and is_compiled_binding(binding._replace(qualified=module), names, table)
    )


def is_compiled_binding(binding: Binding, names: Names, table: RuleTable) -> bool:
    """`kernels = load_extension(...)`, `from . import _ext` where the project has no such file in Python"""
    if not isinstance(binding, Imported):
        return isinstance(value_of(binding), ast.Call)
    if _COMPILED.search(binding.qualified) and not OF_TORCH.match(binding.qualified):
        return names.project.module_path(binding.qualified, names.path) is None
    name = binding.qualified.rpartition(".")[2]
    package = binding.qualified.removesuffix(name)
    here = binding.alias.asname or name
    if not package and not (_EXTENSION.search(name) or table.is_cuda_only("module", name, here)):
        return False
    return is_compiled(names, package.removesuffix(".") if package.strip(".") else package, name)


def runs_library(function: ast.expr, names: Names, table: RuleTable) -> bool:
    """Return whether a function of the project always imports a library of NVIDIA's GPUs first, perhaps in a `try`."""
    made = function_of(function, names)
    body = made[0].body if made is not None else [ast.Pass()]
    first = body[1] if made and ast.get_docstring(made[0], clean=False) is not None and len(body) > 1 else body[0]
    if isinstance(first, ast.Try):
        first = first.body[0] if all(isinstance(each.body[-1], ast.Raise) for each in first.handlers) else first
    if not isinstance(first, IMPORTS):
        return False
    modules = [import_module(first)] if isinstance(first, ast.ImportFrom) else [each.name for each in first.names]
    return any(is_of_package(each, table) for each in modules)


def applies_kernels(function: ast.expr, names: Names, scope: Scope, table: RuleTable) -> bool:
    """Return whether a function is the `apply` of a class of the project, a torch.autograd.Function, whose methods call
    a compiled module, also by a name that is assigned it; or an object of such a class, as PyTorch had them before
    0.4."""
    found = scope.lookup(function.id) if isinstance(function, ast.Name) else None
    value = value_of(found[1][0]) if found is not None and len(found[1]) == 1 else None
    if found is not None and isinstance(value, ast.Attribute):
        return applies_kernels(value, names, found[0], table)
    is_apply = isinstance(function, ast.Attribute) and function.attr == "apply"
    cls = function.func if isinstance(function, ast.Call) else getattr(function, "value", None) if is_apply else None
    made = names.definition(cls, scope) if cls is not None else None
    if made is None or not isinstance(made.bound.node, ast.ClassDef):
        return False
    called = (node.func for node in walk(made.bound.node) if isinstance(node, ast.Call))
    return any(_is_of_extension(each, made.names, table) for each in called)


def _is_of_extension(function: ast.expr, names: Names, table: RuleTable) -> bool:
    """`_C.forward`, where all that binds the name is a compiled module"""
    owner = function.value if isinstance(function, ast.Attribute) else None
    bound = names.file.scope_of(owner).bound(owner) if isinstance(owner, ast.Name) else ()
    given = [each for each in bound if not is_none(value_of(each))]
    return bool(given) and all(is_extension(each, names, table) for each in given)


def with_uses(body: Sequence[ast.stmt], marked: Sequence[bool]) -> list[bool]:
    """The statements that are marked, and those with what such an import brings in, or with what is made of it."""
    bound, found = set[str](), []
    for statement, is_marked in zip(body, marked, strict=True):
        is_use = not bound.isdisjoint(node.id for node in walk(statement) if isinstance(node, ast.Name))
        found.append(is_marked or is_use)
        if isinstance(statement, IMPORTS):
            bound |= {local_name(alias, statement) for alias in statement.names if is_marked}
        elif isinstance(statement, ast.Assign) and is_use:
            bound |= {dotted_name(each) or "" for each in statement.targets}
    return found


def ends_in_error(node: ast.If) -> bool:
    """Return whether each way through a condition ends, one with an error: `if small: return None` and then `raise`."""
    ends = [node.body[-1], *node.orelse[-1:]]
    is_end = all(isinstance(each, (ast.Return, ast.Raise)) for each in ends) and len(ends) > 1
    return is_end and any(isinstance(each, ast.Raise) for each in ends)
