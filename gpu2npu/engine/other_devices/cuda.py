"""Conditions under which only code of CUDA's own runs: kernels, their sources, NVIDIA's libraries. They stay as they
are, and are false on an NPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from gpu2npu.engine.other_devices.capability import (
    BUILDS,
    denies_build,
    finds_capability,
    reads_build,
    tests_build,
    tests_capability,
)
from gpu2npu.engine.other_devices.choices import (
    affirmed,
    answers_for_nvidia,
    bounds_of,
    chooses_another,
    chooses_cuda,
    decides_device,
    guarded,
    otherwise,
    picks_kernels,
    switched_off,
    without_not,
)
from gpu2npu.engine.other_devices.compiled import OF_TORCH, OwnCode, ends_in_error, with_uses
from gpu2npu.engine.other_devices.device_pairs import tests_own_function
from gpu2npu.engine.other_devices.foreign_calls import gives_cuda, imports_foreign
from gpu2npu.engine.other_devices.kernels import begins_with_kernels, builds_kernels
from gpu2npu.engine.other_devices.sources import is_build_step, is_capture, is_source, sets_architectures, sets_compiler
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.imports import is_taken
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.nodes import ByKind, walk
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    IMPORTS,
    dotted_name,
    elements,
    import_module,
    is_none,
    last_name,
    string_value,
)
from gpu2npu.records import Bounds

_AVAILABLE, _HOME, _OF_TENSOR = "torch.cuda.is_available", "CUDA_HOME", "is_cuda"
_DEVICE = re.compile(r"is_cuda|['\"]cuda")  # of the text that an edit changes


class CudaBranches(Struct, frozen=True):
    """Code of CUDA's own, by the places of what decides whether it runs.

    `conditions` stay as they are, and so do the `bodies` under them. Where a condition is a name that other code may
    ask as well, `named` has its place and that of the value. `moves` are the conditions under which something is moved
    to the device, `apart` those on what the project's own code distinguishes, each with the code that then runs.
    """

    conditions: tuple[Bounds, ...] = ()
    named: tuple[tuple[Bounds, Bounds], ...] = ()
    bodies: tuple[Bounds, ...] = ()
    moves: tuple[Bounds, ...] = ()
    apart: Mapping[Bounds, list[Bounds]] = field(default_factory=dict)


def cuda_branches(names: Names, table: RuleTable, kinds: ByKind) -> CudaBranches:
    """Find the conditions of a file that ask for CUDA, and guard only what is CUDA's own."""
    file = names.file
    found, bodies, moves = list[Bounds](), list[Bounds](), list[Bounds]()
    named: dict[tuple[Scope, str], list[ast.If | ast.IfExp]] = {}
    own = _CudaCode(names, table)
    for node in (*kinds.get(ast.If, ()), *kinds.get(ast.IfExp, ())):
        flag = own.flag(without_not(node.test))
        place = file.bounds(node.test if flag is None else _value(flag[0], flag[1].id))
        if not own.is_for_cuda(node):
            continue
        if flag is None:
            found.append(place)
            bodies += own.body_behind(node) or _body(file, node)
            if tests_build(node.test, names) and chooses_cuda(node.body):
                moves.append(place)
        else:
            named.setdefault((flag[0], flag[1].id), []).append(node)
    tests = [(node, file.bounds(node)) for node in kinds.get(ast.BoolOp, ())]
    for node, place in tests:
        if own.tests_for_vendor(node):
            found.append(place)
            guard = own.guard(node)
            bodies += _body(file, guard) if guard is not None else ()
            moves += [place] if guard is not None and chooses_cuda(guard.body) else ()
    flags = [(place, flag) for node, place in tests if (flag := own.flag_of_capability(node)) is not None]
    found += [each for place, (home, name) in flags for each in (place, file.bounds(_value(home, name.id)))]
    found += [file.bounds(node.test) for node in kinds.get(ast.Assert, ()) if own.is_asserted(node)]
    bodies += own.code.registered(kinds.get(ast.FunctionDef, ()))
    bodies += own.code.keyed(kinds.get(ast.Dict, ()))
    woken: list[tuple[Bounds, Bounds]] = []
    for (home, name), guards in named.items():
        value = file.bounds(_value(home, name))
        if own.is_tested_only(home, name, len(guards)):
            found.append(value)
            bodies += [body for guard in guards for body in _body(file, guard)]
        else:
            woken += [(file.bounds(guard.test), value) for guard in guards]
    tested = (node for node in kinds.get(ast.If, ()) if tests_own_function(node, names))
    apart = {file.bounds(node.test): _body(file, node) for node in tested}
    bodies += [each for under in apart.values() for each in under]
    conditions = tuple(sorted({*found, *apart}))
    return CudaBranches(conditions, tuple(sorted(woken)), tuple(bodies), tuple(moves), apart)


def _body(file: PythonFile, node: ast.If | ast.IfExp) -> list[Bounds]:
    """The bounds of what runs only where a condition for CUDA is true."""
    is_denied = without_not(node.test) is not node.test
    is_after = is_denied or (isinstance(node, ast.If) and bool(switched_off(node, file)))
    return list(bounds_of(node.orelse if is_after else node.body, file))


def _value(home: Scope, name: str) -> ast.expr:
    """The only value that is assigned to a name."""
    value = home.only_value(name)
    assert value is not None
    return value


def tests_device(place: Bounds, file: PythonFile) -> bool:
    """Return whether a place in a condition asks for the device of a tensor: `x.is_cuda`, `x.device.type == "cuda"`."""
    return _DEVICE.search(file.text, *place) is not None


class _CudaCode:
    """Judges for the code of one file whether it is CUDA's own."""

    def __init__(self, names: Names, table: RuleTable) -> None:
        self.names = names
        self.table = table
        self.code = OwnCode(names, table)

    def is_for_cuda(self, node: ast.If | ast.IfExp) -> bool:
        """Return whether a condition holds on CUDA alone, and what then runs is CUDA's own code."""
        options = switched_off(node, self.names.file)
        if options and all(self.table.is_cuda_only("feature", each) for each in options):
            return True
        test = without_not(node.test)
        is_denied = test is not node.test
        if tests_build(node.test, self.names) or (isinstance(node, ast.If) and self._refuses(node)):
            return True
        has_message = isinstance(node, ast.If) and isinstance(node.body[0], ast.Expr) and not node.orelse
        if has_message and self._is_denial(node.test) and self.code.warns(node.body):  # type: ignore[arg-type]
            return True
        if not self._needs_cuda(test):
            is_of_class = isinstance(node.test, ast.Call) and self.code.is_of_class(node.test)
            return is_of_class or self._tests_source(node.test)
        if is_denied and isinstance(node, ast.If) and sets_architectures(node):
            return True
        if answers_for_nvidia(node, self.names, self.table):
            return True
        if isinstance(node, ast.IfExp):
            value = node.orelse if is_denied else node.body
            is_own = self.code.is_kernel(value) or self.code.is_member(value)
            is_own = is_own or is_source(value, self.names, self.table)
            is_own = is_own or (_is_of_tensor(node.test) and picks_kernels(node, self.table))
            return is_own or (not is_none(node.orelse) and finds_capability([value], self.names, self.table))
        body = (node.orelse or self._rest(node)) if is_denied else node.body
        if (
            self._is_own(body, _is_of_tensor(node.test))
            or begins_with_kernels(body, self.names)
            or finds_capability(body, self.names, self.table)
            or self._is_of_source(node.body)
            or ((reads_build(body) or self.code.always_imports(body)) and not chooses_cuda(body))
        ):
            return True
        calls = self.code.calls_kernels(body) or self.code.tries_kernels(body)
        return _is_of_tensor(node.test) and (calls or self._captures(node, body))

    def body_behind(self, node: ast.If | ast.IfExp) -> list[Bounds]:
        """The bounds of what asks for a capability behind `if not torch.cuda.is_available(): return None`, and of a
        refusal with all behind it."""
        if not isinstance(node, ast.If) or node.orelse:
            return []
        is_refused = self._refuses(node)
        is_denied = without_not(node.test) is not node.test
        rest = [*node.body, *self._after(node)] if is_refused else self._rest(node) if is_denied else ()
        is_own = is_refused or (bool(rest) and finds_capability(rest, self.names, self.table))
        return list(bounds_of(rest, self.names.file)) if is_own else []

    def _tests_source(self, test: ast.expr) -> bool:
        """`"CUDAExecutionProvider" in available`, `provider in ("CUDAExecutionProvider", ...)`"""
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.In, ast.Eq)):
            return False
        texts = (each for each in (test.left, *test.comparators) if isinstance(each, (ast.Constant, ast.Tuple)))
        return any(is_source(each, self.names, self.table) for each in texts)

    def _refuses(self, node: ast.If) -> bool:
        """`if not torch.cuda.is_available(): raise ...` for what is CUDA's own, by its text or what follows it, also in
        the last `else`; `if x.device.type != "cuda": return error("The kernel needs CUDA")`"""
        first, last = node.body[0], otherwise(node)
        if isinstance(last, ast.Raise) and self._needs_cuda(node.test):
            return self._is_refusal(node, last) and not chooses_cuda(node.body)
        is_error = isinstance(first, ast.Raise) or (isinstance(first, ast.Return) and isinstance(first.value, ast.Call))
        is_error = is_error or (len(node.body) == 1 and isinstance(first, ast.If) and ends_in_error(first))
        if not (is_error or isinstance(first, ast.Return)) or not self._is_denial(node.test):
            return False
        of_kernels = _is_of_tensor(node.test) and self.code.calls_kernels(node.orelse or self._after(node))
        is_of_build = denies_build(node.test) and not chooses_cuda(self._after(node))
        is_own = builds_kernels(node, self.names) or (isinstance(first, ast.Raise) and (of_kernels or is_of_build))
        return is_own or (is_error and self._is_refusal(node, first))

    def _is_denial(self, test: ast.expr) -> bool:
        """`not torch.cuda.is_available()`, `not (... or xpu)`, `x.device.type != "cuda" or y.device.type != "cuda"`"""
        if denies_build(test):
            return True
        if isinstance(test, ast.BoolOp):
            limited = [self._is_denial(each) or tests_capability(each, self.names, self.table) for each in test.values]
            are_denied = all(without_not(each) is not each for each in test.values)  # not (a or b), by each
            if isinstance(test.op, ast.And):
                return are_denied and any(limited)
            return self._is_denial(test.values[0]) and all(limited)
        if isinstance(test, ast.Compare) and without_not(test) is test:
            other = test.comparators[0]
            is_one = isinstance(test.ops[0], ast.NotIn) and "cuda" in map(string_value, (test.left, *elements(other)))
            return is_one or (isinstance(test.ops[0], ast.NotEq) and string_value(other) == "cuda")
        denied = without_not(test)
        return denied is not test and any(map(self._needs_cuda, getattr(denied, "values", [denied])))

    def tests_for_vendor(self, test: ast.BoolOp) -> bool:
        """`torch.cuda.is_available() and torch.version.hip is None`, but not `... and (torch.version.hip or big_card)`;
        `isinstance(self, CUDAOpBuilder) and ...`, `kernels is not None and ...` of a package for CUDA, `x.is_cuda and
        get_device_capability()[0] >= 8`; and `flag and x.is_cuda` where it guards a call of what CUDA alone has."""
        if not isinstance(test.op, ast.And):
            return False
        sure = [value for value in test.values if not isinstance(value, ast.BoolOp)]  # the others are alternatives
        if any(dotted_name(part) in BUILDS for part in walk(*sure)) or self._is_refused(test):
            return True
        if any(map(self._tests_source, test.values)):
            return True
        is_limited = (
            any(map(self.code.is_of_cuda, affirmed(test)))
            or self._tests_capability(test)
            or (self._is_whole(test) and any(self.code.calls_own(code) for code in guarded(test, self.names)))
        )
        return is_limited and not decides_device(test, self.names)

    def guard(self, test: ast.BoolOp) -> ast.If | ast.IfExp | None:
        """The `if` whose whole condition this is: `if torch.cuda.is_available() and torch.version.cuda:`."""
        above = self.names.file.parents[test]
        is_for_cuda = self._needs_cuda(test) or self.code.tests_class(test)
        return above if isinstance(above, (ast.If, ast.IfExp)) and above.test is test and is_for_cuda else None

    def _is_whole(self, test: ast.BoolOp) -> bool:
        """Return whether what a condition guards runs with CUDA alone, and the condition is whole."""
        return not isinstance(self.names.file.parents[test], ast.BoolOp) and self._needs_cuda(test)

    def _is_refused(self, test: ast.expr) -> bool:
        """`if (paged or use_8bit) and not torch.cuda.is_available(): raise ValueError("8-bit needs a GPU")`"""
        above = self.names.file.parents.get(test)
        if not isinstance(above, ast.If) or above.test is not test:
            return False
        return isinstance(above.body[0], ast.Raise) and self._is_refusal(above, above.body[0])

    def _tests_capability(self, test: ast.BoolOp) -> bool:
        """Return whether a condition asks for CUDA first, and then for what only a GPU has."""
        for_cuda = [any(_tests_cuda(node, self.names) for node in walk(value)) for value in test.values]
        first = for_cuda.index(True) if True in for_cuda else len(for_cuda)
        return any(tests_capability(value, self.names, self.table) for value in test.values[first + 1 :])

    def flag_of_capability(self, test: ast.BoolOp) -> tuple[Scope, ast.Name] | None:
        """`is_nvidia and torch.cuda.get_device_capability()[0] >= 9`: the scope and the name of the flag."""
        first = self.flag(test.values[0]) if isinstance(test.op, ast.And) else None
        return first if any(tests_capability(value, self.names, self.table) for value in test.values[1:]) else None

    def is_asserted(self, node: ast.Assert) -> bool:
        """`assert torch.cuda.is_available(), "8-bit needs a GPU"`"""
        return self._needs_cuda(node.test) and self._is_refusal(node, node)

    def _is_refusal(self, node: ast.stmt, raised: ast.stmt) -> bool:
        """`raise RuntimeError("A GPU is needed for quantization.")`, where no other device is used after it."""
        parts = (part.values if isinstance(part, ast.JoinedStr) else (part,) for part in walk(raised))
        texts = [string_value(each) for part in parts for each in part]
        return self.table.is_cuda_only("refusal", *texts) and not chooses_another(self._after(node), node)

    def _captures(self, node: ast.If, body: Sequence[ast.stmt]) -> bool:
        """Return whether a graph is captured where the release cannot, beside a branch that does the same without."""
        other = (node.orelse if body is node.body else node.body) or self.names.file.block(node)
        return is_capture(body, other, self.names, self.table)

    def _needs_cuda(self, test: ast.expr, path: tuple[ast.expr, ...] = ()) -> bool:
        """Return whether a condition holds with CUDA alone, or where the user asks for it: not `not is_available()`,
        nor `a or is_available()`. `path` are the values of names that lead to it."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return any(self._needs_cuda(value, path) for value in test.values)
        if isinstance(test, ast.BoolOp):
            others = [value for value in test.values if not _is_forced(value)]
            return bool(others) and all(self._needs_cuda(value, path) for value in others)
        if without_not(test) is not test:
            return False
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.NotEq, ast.NotIn, ast.Is)):
            return False
        return self.flag(test, path) is not None or any(_tests_cuda(node, self.names) for node in walk(test))

    def flag(self, test: ast.expr, path: tuple[ast.expr, ...] = ()) -> tuple[Scope, ast.Name] | None:
        """The scope and the name, where a condition is a name that is bound once, to a question for CUDA."""
        found = self.names.file.scope_of(test).lookup(test.id) if isinstance(test, ast.Name) else None
        if not isinstance(test, ast.Name) or found is None:
            return None
        value = found[0].only_value(test.id)
        if value is None or isinstance(value, ast.Name) or value in path:
            return None
        return (found[0], test) if self._needs_cuda(value, (*path, value)) else None

    def is_tested_only(self, home: Scope, name: str, times: int) -> bool:
        """Return whether a name, which no other file can see, is used so many times."""
        if not isinstance(home.node, FUNCTIONS) and is_taken(self.names.project, self.names.path, name):
            return False
        uses = [node for node, scope in self.names.file.uses if isinstance(node, ast.Name) and node.id == name]
        return len(uses) == times

    def _rest(self, node: ast.If) -> Sequence[ast.stmt]:
        """The statements after `if not x.is_cuda: return ...`."""
        return self._after(node) if isinstance(node.body[-1], ast.Return) else []

    def _after(self, node: ast.stmt) -> Sequence[ast.stmt]:
        block = self.names.file.block(node)
        return block[block.index(node) + 1 :]

    def _is_own(self, body: Sequence[ast.stmt], of_tensor: bool) -> bool:
        """Return whether statements, or a `try`'s, only import, list, set or call what is CUDA's own, and print. Where
        a program can do without such an import for tensors, all that is made of it is CUDA's own."""
        tried = body[0] if len(body) == 1 and isinstance(body[0], ast.Try) else None
        body = tried.body if tried is not None else body
        marked = [self._is_marked(statement) for statement in body]
        ends = [each.body[-1] for each in tried.handlers] if tried is not None and of_tensor else [ast.Raise()]
        marked = marked if any(isinstance(each, ast.Raise) for each in ends) else with_uses(body, marked)
        steps = [is_build_step(each) or imports_foreign(each, self.names, self.table) for each in body]
        return any(marked) and all(one or other for one, other in zip(marked, steps, strict=True))

    def _is_of_source(self, body: Sequence[ast.stmt]) -> bool:
        """Return whether statements name what is built for CUDA, and call nothing of PyTorch:
        `if choice == "cuda": return find("CUDAExecutionProvider")`, `if not is_available(): version += "+cpu"`."""
        nodes = [node for node in walk(*body) if isinstance(node, ast.expr)]
        if chooses_cuda(body) or not any(is_source(each, self.names, self.table) for each in nodes):
            return False
        called = (node.func for node in nodes if isinstance(node, ast.Call))
        qualified = (self.names.qualified(node, self.names.file.scope_of(node)) or "" for node in called)
        return not any(name.startswith("torch.") for name in qualified)

    def _is_marked(self, statement: ast.stmt) -> bool:
        if isinstance(statement, IMPORTS):
            module = import_module(statement) if isinstance(statement, ast.ImportFrom) else ""
            of_torch = OF_TORCH.match(module or statement.names[0].name) is not None
            return not of_torch and self.code.imports_own(statement)
        value = statement.value if isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return)) else None
        if value is None:
            return False
        nodes = [] if chooses_cuda([value]) else walk(value)
        return (
            sets_compiler(statement, self.table)
            or self.code.is_kernel(value)
            or gives_cuda(value, self.names, self.table)
            or self.code.is_member(value)
            or any(is_source(node, self.names, self.table) for node in nodes if isinstance(node, ast.expr))
        )


def _is_of_tensor(test: ast.expr) -> bool:
    """Return whether a condition asks where a tensor is, or joins such a question with others."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_is_of_tensor(each) for each in test.values)
    nodes = list(walk(test))
    if any(last_name(node) == "is_available" for node in nodes):
        return False
    return any(string_value(node) == "cuda" or (last_name(node) or "").startswith(_OF_TENSOR) for node in nodes)


def _tests_cuda(node: ast.AST, names: Names) -> bool:
    """`torch.cuda.is_available`, `is_available` that is imported from there, `CUDA_HOME`, `x.is_cuda`, `"cuda"`"""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return string_value(node) in ("cuda", _HOME)
    name = last_name(node) or ""
    if name == "is_available" and isinstance(node, ast.Attribute) and last_name(node.value) == "cuda":
        return True
    return (
        name == _HOME or name.startswith(_OF_TENSOR) or names.qualified(node, names.file.scope_of(node)) == _AVAILABLE
    )


def _is_forced(test: ast.expr) -> bool:
    """`os.getenv("FORCE_CUDA") == "1"`"""
    reads = any(last_name(node) in ("environ", "getenv") for node in walk(test))
    return reads and any("CUDA" in (string_value(node) or "") for node in walk(test))
