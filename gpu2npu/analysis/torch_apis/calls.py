"""The torch APIs that a file calls and that the NPU lacks, runs on the CPU, or that no table knows.

Functions and classes are found by what their names mean, methods by the type of what they are called on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from gpu2npu.analysis.code import Code, is_annotated, is_decorator, is_type_tested
from gpu2npu.analysis.torch_apis.dtypes import Tensors
from gpu2npu.analysis.torch_apis.tensor_labels import FACTORIES
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.engine.torch_library import of_torch
from gpu2npu.python.facts.values import TYPE
from gpu2npu.python.meaning.types import TENSOR
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Imported, Scope
from gpu2npu.python.tree.syntax import argument_of, dotted_name, string_value
from gpu2npu.records import Finding, FindingKind, Severity
from gpu2npu.rulebook.in_code import TORCH_API
from gpu2npu.rulebook.match import SEVERITIES
from gpu2npu.support.facts import documented, is_named
from gpu2npu.support.operators import torch_results
from gpu2npu.support.spellings import is_for_other_device, is_in, is_of_host, is_torch_api
from gpu2npu.support.verdicts import ApiVerdict, VerdictKind, judged_leaves, verdict

_KINDS = {
    VerdictKind.FALLBACK: FindingKind.FALLBACK,
    VerdictKind.UNSUPPORTED: FindingKind.UNSUPPORTED,
    VerdictKind.UNKNOWN: FindingKind.UNKNOWN,
}
# What the rules of the migration answer for.
_OF_RULES = ("torch.cuda", "torch.backends.cuda", "torch.backends.cudnn", "torch.version",
             "torch.Tensor.cuda", "torch.Tensor.is_cuda", "torch.nn.Module.cuda", "torch.distributed.is_hccl_available",
             "torch.distributed.Backend.HCCL")  # fmt: skip
# A member of a dtype: what has it is something else, which may be a dtype as well.
_OF_DTYPE = re.compile(r"torch\.(?:u?int|float|bfloat|complex|q?u?int)\d+\w*\..*|torch\.(?:bool|half|double|long)\..*")
# Private functions that only builds for CUDA have: a known fact is about them.
_OF_CUDA_BUILDS = re.compile(r"torch\._C\._(?:cuda|nccl)_\w+$")
# torch_npu has more than it lists, and nobody calls it without having one.
_OF_TORCH_NPU = ("torch_npu", "torch.npu")
_USES_DEVICE = re.compile(r"\.(?:cuda|npu)\(\)|['\"](?:cuda|npu)['\"]")
_GUARDED = "The program tests for it first, or goes on without it: check whether its other way is good enough."
_UNVERIFIED = (
    "Its operators are registered, and torch_npu's documentation lists it as not supported: compare its result with "
    "the CPU's once."
)
# Classes whose methods have verdicts of their own, besides those of the class.
_TENSOR_CLASS = "torch.Tensor"
_MODULE = "torch.nn.Module"
_RECEIVERS = (_TENSOR_CLASS, _MODULE)
# What runs where a line is written that the advice shows: PyTorch's own backend for it generates no code for the NPU.
_COMPILE = "torch.compile"


def torch_api_findings(code: Code, version: str) -> list[Finding]:
    """The findings of one code, in the order of their places; nothing for what works on the NPU."""
    found: dict[tuple[object, str], Finding] = {}
    for node, api in _uses(code, version):
        judged = verdict(api, version)
        span = code.file.span(node)
        kind, text, severity = _KINDS.get(judged.kind, FindingKind.REVIEW), message(judged), verdict_severity(judged)
        advice = _sentence(judged.advice)
        if judged.unverified and judged.kind not in _KINDS:
            text = advice = _UNVERIFIED
        is_absent = judged.kind is VerdictKind.UNSUPPORTED and judged.api.startswith(_OF_TORCH_NPU)
        may_be_tested = bool(judged.later) or is_absent
        if may_be_tested and guarded(code.file, node, judged.api.rpartition(".")[2], judged.later):
            kind, text, severity, advice = FindingKind.REVIEW, f"{text} {_GUARDED}", Severity.NOTE, _GUARDED
        finding = Finding(span, TORCH_API, kind, judged.api, text, severity, advice)
        found.setdefault((span, judged.api), finding)
    used = {api for _, api in found}
    for alias, api in _never_had(code):
        judged = verdict(api, version)
        if api not in used and judged.kind is VerdictKind.UNSUPPORTED and not judged.later:
            span, text = code.file.span(alias), message(judged)
            kind, advice = FindingKind.UNSUPPORTED, _sentence(judged.advice)
            found[(span, api)] = Finding(span, TORCH_API, kind, api, text, verdict_severity(judged), advice)
    return sorted(found.values(), key=lambda finding: (finding.span, finding.api))


def verdict_severity(judged: ApiVerdict) -> Severity:
    """The severity of an API with something to report: where the facts know what to write instead, a change."""
    if judged.kind not in _KINDS:
        return Severity.NOTE
    if (judged.kind is VerdictKind.UNSUPPORTED and judged.advice) or judged.api == _COMPILE:
        return Severity.CHANGE
    return SEVERITIES[_KINDS[judged.kind]]


def message(judged: ApiVerdict) -> str:
    """The evidence, and what to do."""
    return " ".join(filter(None, map(_sentence, (judged.evidence, judged.advice))))


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    return f"{text if _NAME.match(text) else f'{text[:1].upper()}{text[1:]}'}." if text else ""


# A sentence that starts with a name, whose letters mean something.
_NAME = re.compile(r"\w+(?:::|[._])\w|aclnn[A-Z]|\w+ of npu_")


def _uses(code: Code, version: str) -> Iterator[tuple[ast.expr, str]]:
    """Each place that uses an API worth reporting, and the API."""
    for call, scope in code.calls:
        function = call.func
        qualified = code.qualified(function, scope)
        if qualified is not None and of_torch(qualified):
            if not (qualified == _COMPILE and _gives_backend(call)) and _is_reported(qualified, version, called=True):
                yield function, qualified
        elif isinstance(function, ast.Attribute) and _may_be_reported(function.attr, version):
            yield from _method(function, scope, code, version)
    for node, scope in code.mentions:
        qualified = code.qualified(node, scope)
        if qualified is None or not of_torch(qualified):
            continue
        if not _is_reported(qualified, version, is_decorator(node, code.file)):
            continue
        if is_annotated(node, code.file) or (
            is_type_tested(node, code.file) and not _is_missing(node, qualified, code, version)
        ):
            continue
        yield node, qualified


def _is_missing(node: ast.expr, api: str, code: Code, version: str) -> bool:
    """Return whether a release has no such API yet, and nothing tests for it."""
    later = verdict(api, version).later
    return bool(later) and not guarded(code.file, node, api.rpartition(".")[2], later)


def _never_had(code: Code) -> Iterator[tuple[ast.alias, str]]:
    """Each public name or module that is imported of torch_npu where nothing catches the error, used or not."""
    for node, _ in code.file.imports:
        above = f"{node.module}." if isinstance(node, ast.ImportFrom) and not node.level else ""
        if isinstance(node, ast.ImportFrom) and not is_in(above.rstrip("."), _OF_TORCH_NPU):
            continue
        names = [(alias, f"{above}{alias.name}") for alias in node.names if "._" not in above + alias.name]
        names = [(alias, api) for alias, api in names if api not in _OF_TORCH_NPU and is_in(api, _OF_TORCH_NPU)]
        if names and not any(isinstance(each, ast.Try) for each in code.file.above(node)):
            yield from ((alias, api) for alias, api in names if alias.name != "*")


_SHARED, _SHARED_MODULE = f"{_TENSOR_CLASS}.share_memory_", f"{_MODULE}.share_memory"
_MOVES = frozenset({".cuda", ".npu", ".to", ".to_empty"})


@cache
def _is_reported(api: str, version: str, called: bool) -> bool:
    """Return whether there is something to report of a use of `api`. A name that is not called may not be an API."""
    if _OF_DTYPE.fullmatch(api) or is_in(api, _OF_RULES) or is_for_other_device(api):
        return False
    if not is_torch_api(api) and not _OF_CUDA_BUILDS.match(api):
        return False
    if not called and api.startswith("torch.ops."):
        return False  # an operator as a key of a table, or for a function that registers something for it
    kind = verdict(api, version).kind
    if kind is VerdictKind.UNKNOWN:
        is_likely = is_of_host(api) or is_in(api, _OF_TORCH_NPU)
        return called and (documented(api) is not None or is_named(api) or not is_likely)
    return kind in _KINDS or verdict(api, version).unverified


def _gives_backend(call: ast.Call) -> bool:
    """Return whether a call of torch.compile names a backend of its own, for which the rules answer."""
    backend = argument_of(call, "backend")
    return backend is not None and string_value(backend) != "inductor"


@cache
def _may_be_reported(method: str, version: str) -> bool:
    """Return whether a method of this name is something to report where the receiver is torch's: most are not, and then
    nobody needs to know the receiver."""
    is_judged = method in judged_leaves() or method in torch_results().methods
    return is_judged and any(_is_method_reported(owner, method, version) for owner in _RECEIVERS)


def _is_method_reported(owner: str, method: str, version: str) -> bool:
    kind = verdict(f"{owner}.{method}", version).kind
    if kind is VerdictKind.UNKNOWN:
        # What a mapping has too may be meant for one, whatever the annotation.
        return owner == _TENSOR_CLASS and method in torch_results().methods and not hasattr(dict, method)
    # What is annotated as Tensor may be a list by then: a list has this method, and no tensor of that release has.
    return kind in (VerdictKind.FALLBACK, VerdictKind.UNSUPPORTED) and not hasattr(list, method)


def _method(function: ast.Attribute, scope: Scope, code: Code, version: str) -> Iterator[tuple[ast.expr, str]]:
    """A method of one certain receiver."""
    owners = code.types.owners(code.types.of(function.value, scope), function.attr)
    if len(owners) != 1:
        return
    owner = owners.pop()
    if owner == TENSOR:
        owner = _TENSOR_CLASS
    elif owner.startswith("torch.nn."):
        owner = _MODULE
    api = f"{owner}.{function.attr}"
    if (api == _SHARED and _is_on_cpu(function, code)) or (api == _SHARED_MODULE and _is_never_moved(function, code)):
        return
    if owner in _RECEIVERS and not is_in(api, _OF_RULES) and _is_method_reported(owner, function.attr, version):
        yield function, api


def _is_on_cpu(function: ast.Attribute, code: Code) -> bool:
    """Return whether the tensor that a method is called on is on the CPU: `torch.from_numpy(a)`, `torch.zeros(2)`."""
    call, tensors = code.file.parents[function], Tensors(code.names)
    label = tensors.label(tensors.receiver(tensors.call(call)) if isinstance(call, ast.Call) else 0)
    return label.device == "cpu" or ((label.name in FACTORIES or label.of_numpy) and not label.is_moved)


def _is_never_moved(function: ast.Attribute, code: Code) -> bool:
    """Return whether the module that a method is called on was made on the CPU, and nothing moves it before."""
    values, call = values_of(code.names.project), code.file.parents[function]
    receiver = values.receiver(values.call_at(code.names, call)) if isinstance(call, ast.Call) else 0
    made = values.sources(receiver, code.names.path) if receiver else []
    if not made or not all(each.kind == "instance" or each.text.endswith("()") for each in made):
        return False
    way = [at for at, path in values.way_to(receiver) if not path]
    is_given = any(kind == TYPE for at in way for _, kind, _ in values.at(at).into.get(at, ()))
    moved = {label for at in way for label in values.fields(at)}
    return not is_given and moved.isdisjoint(_MOVES) and not any(move in each.text for each in made for move in _MOVES)


_MISSING = ("ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException")
# `torch.__version__`, `TORCH_VERSION`, `TORCH_2_4`, `is_torch_greater_or_equal`, `torch_version_ge`
_VERSION = re.compile(
    r"torch\.__version__|torch\w*version|torch_?\d|torch_(ge|gt|le|lt|greater|less|at_least|min)", re.IGNORECASE
)


def guarded(file: PythonFile, use: ast.expr, name: str, release: str) -> bool:
    """Return whether an expression of a file is guarded, which uses `name`, the last part of an API that came with a
    release of PyTorch: by a `hasattr` of it, a comparison of versions, a call that asks for that release, or a `try`
    that goes on without it; around the use, or around the import of the name. Without a release: by `hasattr` alone."""
    found = file.scope_of(use).lookup(use.id) if isinstance(use, ast.Name) else None
    imports = [each.statement for each in found[1] if isinstance(each, Imported)] if found is not None else []
    return any(_is_under_guard(file, each, name, release) for each in (use, *imports))


def _is_under_guard(file: PythonFile, use: ast.expr | ast.stmt, name: str, release: str) -> bool:
    return any(_guards(above, below, name, release) for above, below in file.steps(use))


def _guards(node: ast.AST, below: ast.AST, name: str, release: str) -> bool:
    """Return whether the part `below` of a node runs only where the node has made sure of `name`."""
    if isinstance(node, ast.Try):
        return bool(release) and below in node.body and any(map(_goes_on, node.handlers))
    tests: Sequence[ast.expr] = ()
    if isinstance(node, (ast.If, ast.IfExp)) and below is not node.test:
        tests = [node.test]
    elif isinstance(node, ast.BoolOp):
        tests = node.values[: node.values.index(below)]  # type: ignore[arg-type]
    parts = [part for test in tests for part in ast.walk(test)]
    return any(_tests_for(part, name) or (bool(release) and _is_about(part, release)) for part in parts)


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches what a missing name raises, and raises nothing itself."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = [getattr(each, "id", "") for each in caught]
    catches = handler.type is None or any(each in _MISSING for each in names)
    return catches and not any(isinstance(node, ast.Raise) for each in handler.body for node in ast.walk(each))


def _tests_for(node: ast.AST, name: str) -> bool:
    """`hasattr(torch, "compile")`"""
    return (
        isinstance(node, ast.Call) and dotted_name(node.func) == "hasattr" and name in map(string_value, node.args[1:2])
    )


def _is_about(node: ast.AST, release: str) -> bool:
    """Return whether code has the version of PyTorch, or is a call that is given the number of a release, with or
    without its last part: "2.9" of "2.9.0"."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _VERSION.search(ast.unparse(node)) is not None
    numbers = (release, release.rpartition(".")[0])
    return isinstance(node, ast.Call) and any(string_value(each) in numbers for each in node.args)


def is_on_cpu(call: ast.Call) -> bool:
    """Return whether, by the text of a call, what it gives is on the CPU."""
    device = argument_of(call, "device")
    if device is None and call.args and isinstance(call.func, ast.Attribute) and call.func.attr == "to":
        device = call.args[0]
    return isinstance(device, ast.Constant) and device.value == "cpu"


def contracts(equation: ast.expr | None) -> bool:
    """Return whether an equation of einsum multiplies matrices: it sums over an index."""
    text = string_value(equation) if equation is not None else None
    before, arrow, after = (text or "").replace(" ", "").partition("->")
    return bool(text) and "," in before and (not arrow or bool(set(before) - set(after) - {",", "."}))


def is_mentioned_near(code: Code, words: str) -> bool:
    """Return whether a file that puts something on a device, or is loaded with it, has some words; or none does."""
    project, path = code.names.project, code.names.path
    if re.search(words, code.text) or not _USES_DEVICE.search(code.text):
        return True
    seen, paths = {path}, [path]
    while paths:
        one = paths.pop()
        facts = project.facts(one, path)
        if facts is not None and one != path and re.search(words, " ".join(facts.names | facts.texts)):
            return True
        near = project.importing(one) | (project.imported_paths(facts, one) if facts is not None else frozenset())
        paths += near - seen
        seen |= near
    return False


class ShownArguments(Mapping[str, Any]):
    """The arguments of a call: `known` ones, and `pending` ones that are found when a condition needs them, of
    which one that the text does not show is not there."""

    def __init__(self, pending: dict[str, Callable[[], Any]]) -> None:
        self.pending = pending
        self.known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.known:
            value = self.pending[name]()
            if value is None:
                del self.pending[name]
                raise KeyError(name)
            self.known[name] = value
        return self.known[name]

    def __iter__(self) -> Iterator[str]:
        return (
            name for name in [*self.known, *(each for each in self.pending if each not in self.known)] if name in self
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)
