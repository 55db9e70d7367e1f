"""Code that a program has for CUDA beside the same for the NPU: `HAS_CUDA` and `HAS_NPU`, `def cuda` and `def npu`,
`class CudaDevice(Device)` and `class NpuDevice(Device)`, `if torch.cuda.is_available(): ...` before `if is_npu: ...`.
Its other code counts on CUDA not being there on an NPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from gpu2npu.engine.other_devices.choices import bounds_of, guarded_code
from gpu2npu.engine.other_devices.npu import imports_plugin, mentions_npu, tests_for_npu
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.flow.value_calls import ValueOrigin
from gpu2npu.python.flow.values import Values
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.imports import importers
from gpu2npu.python.project.project import EVERY_FILE
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.nodes import ByKind, walk
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import FUNCTIONS, argument_value, arguments, dotted_name, last_name, string_value
from gpu2npu.records import Bounds
from gpu2npu.support.spellings import OTHER_DEVICE, is_of_other_device

# Words in the names of what is for GPUs, and those in their place in the names of what is for NPUs.
_WORDS = {"cuda": "npu", "gpu": "npu", "rocm": "npu", "hip": "npu", "nccl": "hccl"}
_WORD = re.compile(rf"(?<![^\W_])({'|'.join(_WORDS)})(?![^\W_])", re.IGNORECASE)
# Functions that register what computes an operator, and the keys and device types of CUDA and the NPU that they take.
_REGISTRARS = frozenset({"impl", "register_kernel"})
_KEYS = {
    "cuda": "npu",
    "CUDA": "PrivateUse1",
    "AutogradCUDA": "AutogradPrivateUse1",
    "AutocastCUDA": "AutocastPrivateUse1",
}
# Words in the names of files for other devices, and those in their place in the names of files for NPUs.
_DEVICES = ("cpu", "cuda", "gpu", "hpu", "mps", "rocm", "tpu", "xpu")
_PART = re.compile(r"([_.-])")
_NPU_WORDS = {**dict.fromkeys(_DEVICES, ("npu", "ascend")), "nccl": ("hccl",)}
# A class for GPUs, and what such words become in the name of its counterpart: `CudaDevice`, `GPU_Worker`.
_CLASS_WORD = re.compile(r"CUDA|Cuda|GPU|Gpu")
_AVAILABLE = "torch.cuda.is_available()"
_CLASSES = re.compile(r"^[ \t]*class\s[^\n:]*(?:CUDA|Cuda|GPU|Gpu)", re.MULTILINE)
# Assignments that make code for CUDA run on another device.
_REPLACES = re.compile(r"^[ \t]*torch\.(cuda|Tensor|nn\.Module)\.\w+ *= *", re.MULTILINE)
# The calls, or a start as a program, that a file has which is more than that.
_OWN_USE = re.compile(r"(?<!['\"])\btorch\.cuda\.[\w.]+\(|\.cuda\(|__main__")
_REPLACED = re.compile(r"torch\.(cuda\.|(Tensor|nn\.Module)\.(is_)?cuda$)")
# What has one value in a run: `torch.accelerator.current_accelerator().type`, but not `torch.zeros().device.type`.
_FIXED = re.compile(r"(?:torch|os)\.(?!.*(?:\[|device))")
_HOLDS = {ast.Eq: True, ast.Is: True, ast.NotEq: False, ast.IsNot: False}
_DENIALS = (ast.NotEq, ast.NotIn, ast.Is, ast.Lt, ast.LtE)


def has_npu_file(path: str, exists: Callable[[str], object]) -> bool:
    """Return whether a file, by its name for another device or that of a folder, has one for NPUs beside it:
    `platform_cuda.py` beside `platform_npu.py`, all in `docker-cuda` beside `docker-npu`."""
    parts = path.split("/")
    for place, part in enumerate(parts):
        words = _PART.split(part)
        for index, word in enumerate(words):
            for other in _NPU_WORDS.get(word, ()):
                if exists("/".join([*parts[:place], "".join([*words[:index], other, *words[index + 1 :]])])):
                    return True
    return False


def halves_for_cuda(names: Names, kinds: ByKind) -> Iterator[Bounds]:
    """The functions and values of a file that are CUDA's, and the conditions for CUDA with what runs under them, where
    the NPU's are beside them."""
    file = names.file
    yield from _definitions(names, kinds)
    yield from _registrations(kinds, file)
    for node in kinds.get(ast.If, ()):
        if _holds_on_npu(node.test):
            yield from _conditions(node, file)
        if _is_chosen(node, kinds, file):
            yield from (file.bounds(node.test), *bounds_of(node.body, file))
    for node in kinds.get(ast.BoolOp, ()):  # (is_npu_available() and n > 1) or (torch.cuda.is_available() and n > 1)
        if isinstance(node.op, ast.Or) and any(map(_holds_on_npu, node.values)):
            yield from (file.bounds(each) for each in node.values if file.code(each).startswith(_AVAILABLE))


def classes_for_gpus(names: Names) -> Iterator[Bounds]:
    """The classes of a file that are for GPUs, where the project has one for NPUs with the same base of its own."""
    if _CLASSES.search(names.file.text) is not None:
        for cls in names.file.unordered().get(ast.ClassDef, ()):
            if _is_for_gpus(cls, names):
                yield names.file.bounds(cls)


def _is_for_gpus(cls: ast.ClassDef, names: Names) -> bool:
    project, scope = names.project, names.file.scope_of(cls)
    other = _CLASS_WORD.sub(lambda word: "NPU" if word[0].isupper() else "Npu", cls.name)
    bases = {found.bound.node for base in cls.bases if (found := names.definition(base, scope)) is not None}
    if other == cls.name or not bases:
        return False
    project.consult(names.path, EVERY_FILE)
    defining = project.files_with(lambda facts: other in facts.bound)
    for others in (project.names(path, names.path) for path in sorted(defining)):
        for each in others.file.unordered().get(ast.ClassDef, ()) if others is not None else ():
            above = [others.definition(base, others.file.scope_of(each)) for base in each.bases] if others else ()
            if each.name == other and any(one is not None and one.bound.node in bases for one in above):
                return True
    return False


def _is_chosen(node: ast.If, kinds: ByKind, file: PythonFile) -> bool:
    """`if torch.cuda.is_available(): name = "cuda"` where a condition gives it the NPU: `if is_npu: name = "npu"`, or
    an import that works."""
    chosen = node.body[0] if len(node.body) == 1 else None
    if not isinstance(chosen, ast.Assign) or string_value(chosen.value) != "cuda" or not _tests_for_cuda(node.test):
        return False
    name, scope = dotted_name(chosen.targets[0]), file.scope_of(chosen)
    branches = [own.body for own in kinds.get(ast.If, ()) if _holds_on_npu(own.test)]
    branches += [own.body + own.orelse for own in kinds.get(ast.Try, ()) if imports_plugin(own.body)]
    return any(
        string_value(each.value) == "npu" and dotted_name(each.targets[0]) == name and file.scope_of(each) is scope
        for branch in branches
        for each in branch
        if isinstance(each, ast.Assign)
    )


def of_other_devices(names: Names) -> Iterator[Bounds]:
    """The code of a file that the project's own words say is not for NPUs: under `@require_cuda` of a project that has
    `require_npu`, where a value that may be "npu" is "cuda", where a member such as MULTI_GPU is chosen of a class that
    has MULTI_NPU, and the functions and imported files that give torch.cuda what another device has."""
    kinds, text = names.file.unordered(), names.file.text
    for assign in kinds.get(ast.Assign, ()) if _REPLACES.search(text) is not None else ():
        if _replaces_cuda(assign):
            above = [each for each in names.file.above(assign) if isinstance(each, FUNCTIONS)]
            is_bridge = _OWN_USE.search(text) is None and importers(names.project, names.path, names.path)
            yield (0, len(text)) if is_bridge else names.file.bounds(above[-1] if above else assign)
    for kind in (ast.ClassDef, *FUNCTIONS):
        for node in kinds.get(kind, ()):
            if any(_has_npu_half(each, names) for each in getattr(node, "decorator_list", ())):
                yield names.file.bounds(node)
    for test in kinds.get(ast.Compare, ()):
        holds = _HOLDS.get(type(test.ops[0])) if len(test.ops) == 1 else None
        if holds is not None and (_is_one_of_npus(test, names) or _is_member_like_npu(test, names)):
            yield from guarded_code(test, holds, names.file, kinds) or ()
    for pair in kinds.get(ast.Tuple, ()):  # (is_cuda_available, "cuda") where there is is_npu_available
        if len(pair.elts) == 2 and string_value(pair.elts[1]) == "cuda" and _has_npu_half(pair.elts[0], names):
            yield names.file.bounds(pair)
    for call in kinds.get(ast.Call, ()):  # getattr(torch, name, torch.cuda)
        if dotted_name(call.func) == "getattr" and len(call.args) == 3 and dotted_name(call.args[0]) == "torch":
            yield names.file.bounds(call.args[2])


def branches_for_others(names: Names) -> Iterator[Bounds]:
    """The code that runs under `if is_xla and wide:`, and comparisons of what a package for another device gives."""
    file = names.file
    lines = {at for at, line in enumerate(file.text.lower().split("\n"), 1) if OTHER_DEVICE.search(line)}
    kinds = file.unordered() if lines else {}
    for node in (*kinds.get(ast.If, ()), *kinds.get(ast.IfExp, ())):
        if not isinstance(node, (ast.If, ast.IfExp)) or lines.isdisjoint(
            range(node.test.lineno, (node.test.end_lineno or 0) + 1)
        ):
            continue
        if any(map(_tests_for_other, _parts(node.test))):
            yield from bounds_of(node.body, file)
    for test in kinds.get(ast.Compare, ()):
        calls = [each for each in (test.left, *test.comparators) if isinstance(each, ast.Call)]
        given = [names.qualified(each.func, file.scope_of(each)) or "" for each in calls]
        if any(OTHER_DEVICE.search(each.partition(".")[0].lower()) for each in given):
            yield file.bounds(test)


def _parts(test: ast.expr) -> Sequence[ast.expr]:
    """The conditions that all have to hold: each of `a and b`, but not the `xpu` of `xpu.is_gpu()`."""
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _tests_for_other(part: ast.expr) -> bool:
    """`is_rocm_available()`, `torch.xpu.is_available()`, `self.on_tpu`, `kind == Kind.XLA`, `kind == "hpu"`"""
    if isinstance(part, ast.Compare):
        sides = (part.left, *part.comparators) if isinstance(part.ops[0], (ast.Eq, ast.Is)) else ()
        names = [string_value(each) or (each.attr if isinstance(each, ast.Attribute) else "") for each in sides]
        return any(OTHER_DEVICE.fullmatch(each.lower()) is not None for each in names)
    name = (dotted_name(part.func if isinstance(part, ast.Call) else part) or "").rpartition(".")
    flag = name[0] if name[2] == "is_available" else name[2]
    return OTHER_DEVICE.search(flag.lower()) is not None and not isinstance(part, ast.Constant)


def _replaces_cuda(assign: ast.Assign) -> bool:
    """`torch.cuda.Event = torch.xpu.Event`, `torch.Tensor.cuda = torch.Tensor.xpu`"""
    targets = [name for each in assign.targets if (name := dotted_name(each)) is not None and _REPLACED.match(name)]
    return bool(targets) and any(is_of_other_device(dotted_name(each) or "") for each in walk(assign.value))


def _is_one_of_npus(test: ast.Compare, names: Names) -> bool:
    """`name == "cuda"`, where the project's code may have given the name "npu"; `backend == "nccl"` beside "hccl" """
    others = {_WORDS[text] for each in (test.left, test.comparators[0]) if (text := string_value(each)) in _WORDS}
    if not any(names.project.naming(each, names.path) for each in others):
        return False
    values = values_of(names.project)
    sources = (each for at in values.operands(names, test) if at for each in values.sources(at, names.path))
    return any(values.text(each.place) in others or compares_with_npu(each, values, names.path) for each in sources)


def compares_with_npu(origin: ValueOrigin, values: Values, asker: str) -> bool:
    """Return whether the project compares what comes from outside with "npu"; each tensor's device is another value."""
    if not _FIXED.match(origin.text):
        return False
    project = values.project
    project.consult_naming(asker, "npu")
    found = project.cached(("npu_compared",), lambda: frozenset(_compared_with_npu(values)))
    return (values.at(origin.place).path, origin.text) in (found or ())


def _compared_with_npu(values: Values) -> Iterator[tuple[str, str]]:
    for path in sorted(values.project.naming("npu")):
        names = values.project.names(path)
        for test in names.file.unordered().get(ast.Compare, ()) if names is not None else ():
            if names and "npu" in map(string_value, (test.left, *test.comparators)):
                sources = (each for at in values.operands(names, test) if at for each in values.sources(at, path))
                yield from ((values.at(each.place).path, each.text) for each in sources)


def _is_member_like_npu(test: ast.Compare, names: Names) -> bool:
    """`kind == DistributedType.MULTI_GPU`"""
    for member in (test.left, test.comparators[0]):
        other = _WORD.sub(_of_npu, member.attr) if isinstance(member, ast.Attribute) else ""
        if isinstance(member, ast.Attribute) and member.attr != other and member.attr.isupper():
            made = names.definition(member.value, names.file.scope_of(member))
            cls = made.bound.scope if made is not None and isinstance(made.bound.node, ast.ClassDef) else None
            if cls is not None and {member.attr, other} <= cls.bindings.keys():
                return True
    return False


def tests_own_function(node: ast.If, names: Names) -> bool:
    """`if is_cuda_available():` of the project's own, which has `is_npu_available()` too"""
    return any(isinstance(each, ast.Call) and _has_npu_half(each, names) for each in _parts(node.test))


def _has_npu_half(function: ast.expr, names: Names) -> bool:
    """Return whether a function of the project, or one that is called, is for CUDA beside another for NPUs."""
    function = function.func if isinstance(function, ast.Call) else function
    if _WORD.search(last_name(function) or "") is None:
        return False
    made = names.definition(function, names.file.scope_of(function))
    if made is None or not mentions_npu(made.names.file.text):
        return False
    place = made.names.file.bounds(made.bound.node)
    return place in _definitions(made.names, made.names.file.unordered())


def _definitions(names: Names, kinds: ByKind) -> Iterator[Bounds]:
    file = names.file
    bound: dict[tuple[Scope, str], list[ast.AST]] = {}
    for function in (*kinds.get(ast.FunctionDef, ()), *kinds.get(ast.AsyncFunctionDef, ())):
        bound.setdefault((file.scope_of(function), function.name), []).append(function)
    for assignment in kinds.get(ast.Assign, ()):
        target = assignment.targets[0]
        if len(assignment.targets) == 1 and isinstance(target, ast.Name):
            bound.setdefault((file.scope_of(target), target.id), []).append(assignment.value)
    used = {node.id for node, _ in file.uses if isinstance(node, ast.Name)}
    for (scope, name), values in bound.items():
        other = _WORD.sub(_of_npu, name)
        of_npu = bound.get((scope, other), []) if other != name else []
        if any(mentions_npu(file.code(each)) for each in of_npu) and (
            name not in used or other in used or _is_exported(other, scope, names)
        ):
            yield from map(file.bounds, values)


def _is_exported(name: str, scope: Scope, names: Names) -> bool:
    """Return whether another file of the project has the name of what a module binds."""
    if scope.parent is not None:
        return False
    project, path = names.project, names.path
    return bool(project.naming(name, path) - {path})


def registers_twice(text: str) -> bool:
    """Return whether a text may register an operator for CUDA and for the NPU."""
    return "PrivateUse1" in text and "impl(" in text


def _registrations(kinds: ByKind, file: PythonFile) -> Iterator[Bounds]:
    """`lib.impl("op", run, "CUDA")` beside `lib.impl("op", run_on_npu, "PrivateUse1")`"""
    found: dict[tuple[str, str], ast.Call] = {}
    for call in kinds.get(ast.Call, ()):
        if last_name(call.func) in _REGISTRARS:
            texts = [text for each in arguments(call) if (text := string_value(argument_value(each))) is not None]
            found.update({(texts[0], key): call for key in texts[1:]})
    for (operator, key), call in found.items():
        if (operator, _KEYS.get(key, "")) in found:
            yield file.bounds(call)


def _of_npu(word: re.Match[str]) -> str:
    """`NPU` for `CUDA`, `npu` for `cuda`"""
    text = word.group()
    return _WORDS[text.lower()].upper() if text.isupper() else _WORDS[text.lower()]


def _conditions(own: ast.If, file: PythonFile) -> Iterator[Bounds]:
    """The conditions for CUDA among the `if`s in a row with one for the NPU, where all that runs under the one runs for
    the NPU under the other, both end there, or both ask their device for the same."""
    block = file.block(own)
    place = block.index(own)
    for row in (block[place + 1 :], block[:place][::-1]):
        for statement in row:
            if not isinstance(statement, ast.If):
                break
            if _tests_for_cuda(statement.test) and _is_alike(statement.body, own.body):
                yield from (file.bounds(statement.test), *bounds_of(statement.body, file))


def _holds_on_npu(test: ast.expr) -> bool:
    """`is_npu`, `wide and is_npu`"""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(map(_holds_on_npu, test.values))
    return tests_for_npu(test) is True


def _tests_for_cuda(test: ast.expr) -> bool:
    """`torch.cuda.is_available()`, `HAS_CUDA and n`, `device.type == "cuda"`"""
    nodes = list(walk(test))
    words = {word for node in nodes for word in (string_value(node) or last_name(node) or "").lower().split("_")}
    return "cuda" in words and not any(map(_is_denial, nodes))


def _is_denial(node: ast.AST) -> bool:
    """`not is_cuda`, `device != "cuda"`, `torch.cuda.device_count() == 0`"""
    if isinstance(node, ast.Compare):
        is_count = any(isinstance(each, ast.Constant) and each.value == 0 for each in node.comparators)
        return any(isinstance(each, _DENIALS) or (is_count and isinstance(each, ast.Eq)) for each in node.ops)
    return isinstance(node, ast.UnaryOp)


def _is_alike(body: Sequence[ast.stmt], own: Sequence[ast.stmt]) -> bool:
    if isinstance(body[-1], ast.Return) and isinstance(own[-1], ast.Return):
        return True
    used = {name.replace("torch.cuda.", "torch.npu.") for name in _dotted(body) if name.startswith("torch.cuda.")}
    if not {each for each in used if not each.endswith(".is_available")}.isdisjoint(_dotted(own)):
        return True  # each prints its device's name
    return _text(body).replace("cuda", "npu").replace("nccl", "hccl") == _text(own)


def _dotted(body: Sequence[ast.stmt]) -> set[str]:
    """The names with dots in code: `torch.npu.get_device_name`."""
    return {dotted_name(node) or "" for node in walk(*body) if isinstance(node, ast.Attribute)}


def _text(body: Sequence[ast.stmt]) -> str:
    return "\n".join(map(ast.unparse, body)).lower()
