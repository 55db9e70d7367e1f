"""The branches of a program that already has one for the NPU: its other branches never run there."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Sequence, Set

from gpu2npu.engine.elsewhere.values import compared_with_cuda
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.nodes import ByKind
from gpu2npu.python.tree.syntax import dotted_name, last_name, string_value
from gpu2npu.records import Bounds

_NPU, _OF_GPUS = "npu", ("cuda", "gpu")
_OWN = frozenset({_NPU, "hccl"})
_IS_HCCL = re.compile(r"(^|_)(is|has|uses?)_(.*_)?hccl(_|$)|^_*hccl$")  # not `hccl_timeout`, which CUDA's run has too
_BESIDE = (ast.IfExp, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Try, ast.Match, ast.If)
# Words in the names of files for other devices, and those in their place in the names of files for NPUs.
_DEVICES = ("cuda", "gpu", "hpu", "mps", "rocm", "tpu", "xpu")
_COUNTERPARTS = {**dict.fromkeys(_DEVICES, ("npu", "ascend")), "nccl": ("hccl",)}
_TORCH_CUDA, _TORCH_NPU = "torch.cuda.", ("torch.npu.", "torch_npu.npu.")
# As a word, or between underscores: not as in `input`. In lower case, and with the letters first, it is found faster.
_SPELLED = re.compile(r"(?:npu(?<![^\W_]npu)|hccl(?<![^\W_]hccl))(?![^\W_])")


def has_npu_file(path: str, files: Set[str]) -> bool:
    """Return whether a file, by its name for another device, has one for NPUs beside it: `platform_cuda.py` beside
    `platform_npu.py`."""
    folder, name = posixpath.split(path)
    words = name.removesuffix(".py").split("_")
    return any(
        posixpath.join(folder, f"{'_'.join([*words[:index], other, *words[index + 1 :]])}.py") in files
        for index, word in enumerate(words)
        for other in _COUNTERPARTS.get(word, ())
    )


def mentions_npu(text: str) -> bool:
    """Return whether a text may name the NPU; a file that does not has no branches for it."""
    return _SPELLED.search(text.lower()) is not None


def other_branches(file: PythonFile, kinds: ByKind) -> list[Bounds]:
    """The places that run on no NPU, since a condition beside them is for it: the other branches of an `if` and their
    conditions, what follows `if is_npu_available(): return ...` or runs where `import torch_npu` fails, what is listed
    beside a name of the NPU's, and calls for CUDA whose counterpart for the NPU stands beside them."""
    beside = (place for kind in _BESIDE for node in kinds.get(kind, ()) for place in _beside(node, file))
    return sorted([*beside, *compared_with_cuda(file, kinds)])


def _beside(node: ast.AST, file: PythonFile) -> Iterator[Bounds]:
    if isinstance(node, ast.IfExp):
        tested = tests_for_npu(node.test)
        if tested is not None:
            yield file.bounds(node.orelse if tested else node.body)
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):  # in (DistributedType.MULTI_GPU, DistributedType.MULTI_NPU)
        if any(isinstance(each, ast.Attribute) and _is_named(each) for each in node.elts):
            yield from (file.bounds(each) for each in node.elts)
    elif isinstance(node, ast.Dict):  # {"cuda": torch.cuda, "npu": torch.npu}, {"GPU": 1, "NPU": 2}
        values = {(string_value(key) or "").lower(): value for key, value in zip(node.keys, node.values, strict=True)}
        if _NPU in values:
            yield from (file.bounds(values[each]) for each in _OF_GPUS if each in values)
    elif isinstance(node, ast.Try) and _looks_up_device(node.body):
        yield from (place for handler in node.handlers for place in _bounds(handler.body, file))
    elif isinstance(node, ast.Try) and _imports_plugin(node.body):
        yield from (place for handler in node.handlers for place in _bounds(handler.body, file))
        if any(isinstance(each, ast.Return) for each in node.body + node.orelse):
            block = file.block(node)
            yield from _bounds(block[block.index(node) + 1 :], file)
    elif isinstance(node, ast.Match):  # case "npu": ... case "cuda": ...
        own_cases = [case for case in node.cases if _is_for_npu(case)]
        for case in node.cases if own_cases else ():
            if case not in own_cases:
                yield file.bounds(case.pattern)
                yield from _bounds(case.body, file)
    elif isinstance(node, ast.If) and not _is_elif(node, file):
        chain = _chain(node)
        own = next((branch for branch in chain if tests_for_npu(branch.test)), None)
        for branch in chain:
            if own is not None and branch is not own:
                yield file.bounds(branch.test)
                yield from _bounds(branch.body, file)
            elif tests_for_npu(branch.test) is False:
                yield from _bounds(branch.body, file)
        if own is not None:
            rest = chain[-1].orelse
            if not rest and len(chain) == 1 and isinstance(node.body[-1], ast.Return):
                block = file.block(node)
                rest = list(block[block.index(node) + 1 :])
            yield from _bounds(rest, file)
            yield from _counterparts(node, own, file)


def _is_for_npu(case: ast.match_case) -> bool:
    """Return whether a case takes whatever is "npu": `case "npu" | "xpu":`, but not `case "npu" if is_wide:`."""
    patterns = case.pattern.patterns if isinstance(case.pattern, ast.MatchOr) else [case.pattern]
    values = (each.value for each in patterns if isinstance(each, ast.MatchValue))
    return case.guard is None and any(string_value(value) == _NPU for value in values)


def _looks_up_device(body: Sequence[ast.stmt]) -> bool:
    """`return getattr(torch, name)`, which finds torch.npu."""
    last = body[-1].value if isinstance(body[-1], (ast.Return, ast.Assign)) else None
    if not isinstance(last, ast.Call) or dotted_name(last.func) != "getattr" or len(last.args) < 2:
        return False
    return dotted_name(last.args[0]) == "torch" and string_value(last.args[1]) is None


def _imports_plugin(body: Sequence[ast.stmt]) -> bool:
    """`import torch_npu`, which fails where there is no NPU."""
    names = (alias.name for each in body if isinstance(each, ast.Import) for alias in each.names)
    return any(name.partition(".")[0] == "torch_npu" for name in names)


def _counterparts(node: ast.If, own: ast.If, file: PythonFile) -> Iterator[Bounds]:
    """`torch.cuda.empty_cache()` beside `if device == "npu": torch.npu.empty_cache()`"""
    called = {_called(statement) for statement in own.body}
    for statement in file.block(node):
        name = _called(statement) or ""
        if name.startswith(_TORCH_CUDA) and {name.replace(_TORCH_CUDA, each) for each in _TORCH_NPU} & called:
            yield file.bounds(statement)


def _called(statement: ast.stmt) -> str | None:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return dotted_name(call.func) if isinstance(call, ast.Call) else None


def _is_elif(node: ast.If, file: PythonFile) -> bool:
    above = file.parents[node]
    return isinstance(above, ast.If) and above.orelse == [node]


def _chain(node: ast.If) -> list[ast.If]:
    """An `if` with its `elif`s."""
    chain = [node]
    while len(chain[-1].orelse) == 1 and isinstance(chain[-1].orelse[0], ast.If):
        chain.append(chain[-1].orelse[0])
    return chain


def _bounds(body: Sequence[ast.stmt], file: PythonFile) -> Iterator[Bounds]:
    if body:
        yield file.bounds(body[0])[0], file.bounds(body[-1])[1]


def tests_for_npu(test: ast.expr) -> bool | None:
    """Return True if a condition holds on an NPU alone, False if everywhere else, None if it does not ask."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        tested = tests_for_npu(test.operand)
        return None if tested is None else not tested
    if isinstance(test, ast.BoolOp):  # hasattr(torch, "npu") and torch.npu.is_available()
        every = {tests_for_npu(value) for value in test.values}
        return True if isinstance(test.op, ast.And) and every == {True} else None
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        sides = {string_value(test.left), string_value(test.comparators[0])}
        if not _OWN.isdisjoint(sides):
            return {ast.Eq: True, ast.In: True, ast.NotEq: False, ast.NotIn: False}.get(type(test.ops[0]))
        if _is_member(test.left) or _is_member(test.comparators[0]):  # kind == DeviceType.NPU
            return {ast.Eq: True, ast.Is: True, ast.NotEq: False, ast.IsNot: False}.get(type(test.ops[0]))
        return None
    if isinstance(test, ast.Call):
        return True if _is_named(test.func) or _is_given(test) else None
    return True if isinstance(test, (ast.Name, ast.Attribute)) and _is_named(test) else None


def _is_named(node: ast.expr) -> bool:
    """Return whether a name mentions the NPU: `is_npu_available`, `torch.npu.is_available`, `x.is_npu`."""
    name = (last_name(node) or "").lower()
    named = _NPU in name.split("_") or _IS_HCCL.search(name) is not None
    return named or (isinstance(node, ast.Attribute) and last_name(node.value) == _NPU)


def _is_member(node: ast.expr) -> bool:
    """Return whether a name is the NPU's among others of its kind: `DeviceType.NPU`."""
    return isinstance(node, ast.Attribute) and node.attr in ("NPU", "HCCL")


def _is_given(call: ast.Call) -> bool:
    """Return whether a call asks for it by an argument: `hasattr(torch, "npu")`, `device.startswith("npu")`."""
    tested = last_name(call.func) in ("hasattr", "startswith", "is_available")
    return tested and any(string_value(argument) == _NPU for argument in call.args)
