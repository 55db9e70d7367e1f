"""Programs that already have a branch for the NPU, by a condition or by compared values: others never run there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from gpu2npu.engine.other_devices.choices import bounds_of, guarded_code, names_device
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.flow.value_calls import ValueOrigin
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.nodes import ByKind, walk
from gpu2npu.python.tree.scopes import value_of
from gpu2npu.python.tree.syntax import blocks, dotted_name, elements, is_self, last_name, string_value
from gpu2npu.records import Bounds

_NPU, _OF_GPUS = "npu", ("cuda", "gpu")
_OWN, _CUDAS = frozenset({_NPU, "hccl"}), frozenset({"cuda", "nccl"})
_IS_HCCL = re.compile(r"(^|_)(is|has|uses?)_(.*_)?hccl(_|$)|^_*hccl$")  # not `hccl_timeout`, which CUDA's run has too
_WITH_OTHERS = (ast.IfExp, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Call, ast.BoolOp, ast.Try, ast.Match, ast.If)
_SKIPS = ("skipUnless", "skipIf", "skip")
_AVAILABLE = "torch.cuda.is_available"
_QUESTION = re.compile(r"(^|[._])(is|has)_")  # of the NPU, by any name: `is_npu_available`
_TORCH_CUDA, _TORCH_NPU = "torch.cuda.", ("torch.npu.", "torch_npu.npu.")
# As a word, or between underscores: not as in `input`. In lower case, and with the letters first, it is found faster.
_SPELLED = re.compile(r"(?:npu(?<![^\W_]npu)|hccl(?<![^\W_]hccl))(?![^\W_])")


def mentions_npu(text: str) -> bool:
    """Return whether a text may name the NPU; a file that does not has no branches for it."""
    return _SPELLED.search(text.lower()) is not None


def other_branches(names: Names, kinds: ByKind) -> list[Bounds]:
    """The places that run on no NPU, since a condition beside them is for it: the other branches of an `if` and their
    conditions, what follows `if is_npu_available(): return ...` or runs where `import torch_npu` fails, what is listed
    beside a name of the NPU's, and calls for CUDA whose counterpart for the NPU is beside them."""
    file = names.file
    nodes = (node for kind in _WITH_OTHERS for node in kinds.get(kind, ()))
    branches = (place for node in nodes for place in _other_parts(node, file, kinds))
    return sorted([*branches, *_printed_twice(file, kinds), *compared_with_cuda(names, kinds), *_skips(file, kinds)])


def _skips(file: PythonFile, kinds: ByKind) -> Iterator[Bounds]:
    """`skipUnless(torch.cuda.is_available(), "needs CUDA")`, or the condition of a `skip`, beside one for NPUs."""
    calls = [call for call in kinds.get(ast.Call, ()) if isinstance(call, ast.Call) and last_name(call.func) in _SKIPS]
    if any(isinstance(each, ast.expr) and _is_named(each) for call in calls for each in walk(*call.args[:1])):
        for call in calls:
            above = (each.test for each in file.above(call) if isinstance(each, ast.If))
            guard = call if call.args[1:] else next(above, None)
            if guard is not None and _names(guard, _CUDAS, (_TORCH_CUDA,)):
                yield file.bounds(guard)


def _printed_twice(file: PythonFile, kinds: ByKind) -> Iterator[Bounds]:
    """`print(torch.cuda.is_available())` beside the same of the NPU."""
    for parent in dict.fromkeys(file.parents[node] for node in kinds.get(ast.Expr, ())):
        for block in blocks(parent):
            alike: dict[str, list[ast.stmt]] = {}
            for statement in block:
                if name := _called(statement):
                    alike.setdefault(name, []).append(statement)
            for each in alike.values():
                yield from _reported_twice(each, file)


def _other_parts(node: ast.AST, file: PythonFile, kinds: ByKind) -> Iterator[Bounds]:
    if isinstance(node, (ast.If, ast.IfExp)):
        yield from _of_choice(node, file, kinds)
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):  # in (DistributedType.MULTI_GPU, DistributedType.MULTI_NPU)
        if any(isinstance(each, ast.Attribute) and _is_named(each) for each in node.elts):
            yield from (file.bounds(each) for each in node.elts)
        yield from _reported_twice(node.elts, file)
        pairs = [(each.elts[0], each) for each in node.elts if isinstance(each, (ast.List, ast.Tuple)) and each.elts]
        # [("cuda", a), ("npu", b)]
        yield from _keyed_siblings([(string_value(key), pair) for key, pair in pairs], file)
    elif isinstance(node, ast.Dict):  # {"cuda": torch.cuda, "npu": torch.npu}, {"GPU": 1, "NPU": 2}
        yield from _keyed_siblings(list(zip(map(string_value, node.keys), node.values, strict=True)), file)
        yield from _reported_twice(node.values, file)
    elif isinstance(node, ast.Call):  # dict(cuda=torch.cuda, npu=torch.npu)
        yield from _keyed_siblings([(each.arg, each) for each in node.keywords], file)
        yield from _reported_twice([*node.args, *(each.value for each in node.keywords)], file)
    elif isinstance(node, ast.BoolOp):  # torch.cuda.is_available() or is_npu_available()
        yield from _reported_twice(node.values, file)
        parts = [part for each in node.values for part in (each.values if isinstance(each, ast.BoolOp) else [each])]
        if isinstance(node.op, ast.Or) and any(map(tests_for_npu, parts)):  # then what asks for CUDA may be false
            calls = ((each, last_name(each.func) or "") for each in node.values if isinstance(each, ast.Call))
            yield from (file.bounds(call) for call, name in calls if not set(_OF_GPUS).isdisjoint(name.split("_")))
    elif isinstance(node, ast.Try) and _looks_up_device(node.body):
        yield from (place for handler in node.handlers for place in bounds_of(handler.body, file))
    elif isinstance(node, ast.Try) and imports_plugin(node.body):
        yield from (place for handler in node.handlers for place in bounds_of(handler.body, file))
        if any(isinstance(each, ast.Return) for each in node.body + node.orelse):
            block = file.block(node)
            yield from bounds_of(block[block.index(node) + 1 :], file)
    elif isinstance(node, ast.Match):  # case "npu": ... case "cuda": ...
        npu_cases = [case for case in node.cases if _is_for_npu(case)]
        for case in node.cases if npu_cases else ():
            if case not in npu_cases:
                yield file.bounds(case.pattern)
                yield from bounds_of(case.body, file)


def _of_choice(node: ast.If | ast.IfExp, file: PythonFile, kinds: ByKind) -> Iterator[Bounds]:
    """Yield the tests and branches of an `if` with its `elif`s, or of `a if b else c if d else e`, that are beside the
    branch for the NPU: what only an NPU passes, or what gives the NPU's name where another gives CUDA's."""
    above = file.parents[node]
    if isinstance(above, (ast.If, ast.IfExp)) and type(above) is type(node) and above.orelse in (node, [node]):
        return
    chain = _chain(node)
    rest = _statements(chain[-1].orelse)
    own = next((branch for branch in chain if tests_for_npu(branch.test)), None)
    bodies = [_statements(branch.body) for branch in chain]
    if isinstance(node, ast.If) and not rest and len(chain) == 1 and isinstance(node.body[-1], ast.Return):
        block = file.block(node)
        rest = block[block.index(node) + 1 :]
    values = [(body, value) for body in (*bodies, rest) if (value := _value_given(body)) is not None]
    values += [(rest, each.value) for each in walk(*rest) if isinstance(each, ast.Return) and each.value is not None]
    of_cuda = {_shape(value) for _, value in values if _names(value, _CUDAS, (_TORCH_CUDA,))}
    given = [body for body, value in values if _names(value, _OWN, _TORCH_NPU) and _shape(value) in of_cuda]
    is_apart = own is not None or bool(given)
    for branch, body in zip(chain, bodies, strict=True):
        if is_apart and branch is not own:
            yield from _tested_places(branch.test, file, kinds)
        if branch is not own and body not in given and (is_apart or tests_for_npu(branch.test) is False):
            yield from bounds_of(body, file)
    if is_apart and rest not in given:
        yield from bounds_of(rest, file)
    if isinstance(own, ast.If) and isinstance(node, ast.If):
        yield from _calls_for_cuda(node, own, file)


def _statements(body: Sequence[ast.stmt] | ast.expr) -> Sequence[ast.stmt | ast.expr]:
    return [body] if isinstance(body, ast.expr) else body


def _value_given(body: Sequence[ast.stmt | ast.expr]) -> ast.expr | None:
    """The value that a branch is, or that is all it assigns or returns."""
    only = body[0] if len(body) == 1 else None
    value = only.value if isinstance(only, (ast.Assign, ast.AnnAssign, ast.Return)) else only
    return value if isinstance(value, ast.expr) else None


def _shape(value: ast.expr) -> str | None:
    """The last name of what is called; None for other values: `torch.device("cuda")` is chosen beside another."""
    return last_name(value.func) if isinstance(value, ast.Call) else None


def _names(value: ast.expr, devices: Set[str], modules: Sequence[str]) -> bool:
    """Return whether a value has a device's name, or its module of PyTorch's."""
    return any(names_device(each, devices) or f"{dotted_name(each)}." in modules for each in walk(value))


def _tested_places(test: ast.expr, file: PythonFile, kinds: ByKind) -> Iterator[Bounds]:
    """The bounds of a test for another device, with the question that a name in it is assigned, and what that name
    guards elsewhere: `has_cuda = torch.cuda.is_available()`."""
    yield file.bounds(test)
    for each in walk(test):
        bound = file.scope_of(each).bound(each) if isinstance(each, (ast.Name, ast.Attribute)) else []
        question = value_of(bound[0]) if len(bound) == 1 else None
        if question is not None and _AVAILABLE in {dotted_name(part) for part in walk(question)}:
            yield file.bounds(question)
            yield from guarded_code(question, True, file, kinds) or ()


def _keyed_siblings(keyed: Sequence[tuple[str | None, ast.AST]], file: PythonFile) -> Iterator[Bounds]:
    """The bounds of what is under a name of the GPU's, where one more is under the NPU's."""
    known = [((key or "").lower(), each) for key, each in keyed]
    if _NPU in dict(known):
        yield from (file.bounds(each) for key, each in known if key in _OF_GPUS)


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


def imports_plugin(body: Sequence[ast.stmt]) -> bool:
    """`import torch_npu`, which fails where there is no NPU."""
    names = (alias.name for each in body if isinstance(each, ast.Import) for alias in each.names)
    return any(name.partition(".")[0] == "torch_npu" for name in names)


def _calls_for_cuda(node: ast.If, own: ast.If, file: PythonFile) -> Iterator[Bounds]:
    """`torch.cuda.empty_cache()` beside `if device == "npu": torch.npu.empty_cache()`"""
    called = {_called(statement) for statement in own.body}
    for statement in file.block(node):
        name = _called(statement) or ""
        if name.startswith(_TORCH_CUDA) and {name.replace(_TORCH_CUDA, each) for each in _TORCH_NPU} & called:
            yield file.bounds(statement)


def _reported_twice(siblings: Sequence[ast.expr | ast.stmt], file: PythonFile) -> Iterator[Bounds]:
    """Yield what says of the GPU, among what is listed together, the same as another says of the NPU."""
    if len(siblings) < 2:
        return
    calls = [[node for node in walk(each) if isinstance(node, ast.Call)] for each in siblings]
    own = {dotted_name(call.func) or "" for each in calls for call in each if _is_named(call.func)}
    for each, inside in zip(siblings, calls, strict=True):
        for name in filter(None, (dotted_name(call.func) for call in inside)):
            others = {name.replace(_TORCH_CUDA, other) for other in _TORCH_NPU} if name.startswith(_TORCH_CUDA) else ()
            is_question = name == _AVAILABLE and any(_QUESTION.search(one) for one in own)
            if is_question or not own.isdisjoint(others):
                yield file.bounds(each)


def _called(statement: ast.stmt) -> str | None:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return dotted_name(call.func) if isinstance(call, ast.Call) else None


def _chain(node: ast.If | ast.IfExp) -> list[ast.If | ast.IfExp]:
    """An `if` with its `elif`s, or a conditional expression with those in its last part."""
    chain = [node]
    while True:
        after = _statements(chain[-1].orelse)
        further = after[0] if len(after) == 1 else None
        if not isinstance(further, (ast.If, ast.IfExp)) or type(further) is not type(node):
            return chain
        chain.append(further)


def tests_for_npu(test: ast.expr) -> bool | None:
    """Return True if a condition holds on an NPU alone, False if everywhere else, None if it does not ask."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        tested = tests_for_npu(test.operand)
        return None if tested is None else not tested
    if isinstance(test, ast.BoolOp):  # hasattr(torch, "npu") and torch.npu.is_available()
        every = {tests_for_npu(value) for value in test.values}
        return True if isinstance(test.op, ast.And) and every == {True} else None
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        sides = {(string_value(each) or "").lower() for each in (test.left, test.comparators[0])}
        if not _OWN.isdisjoint(sides):
            return {ast.Eq: True, ast.In: True, ast.NotEq: False, ast.NotIn: False}.get(type(test.ops[0]))
        if _is_member(test.left) or _is_member(test.comparators[0]):  # kind == DeviceType.NPU
            return {ast.Eq: True, ast.Is: True, ast.NotEq: False, ast.IsNot: False}.get(type(test.ops[0]))
        return None
    if isinstance(test, ast.Call):
        each = [tests_for_npu(one.elt) for one in test.args if isinstance(one, ast.GeneratorExp)]  # all("NPU" in b ...)
        return True if each == [True] or _is_named(test.func) or _is_given(test) else None
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


_CUDA, _GPU = "cuda", "gpu"
_REPLACED: dict[str | None, str] = {_CUDA: _NPU, _GPU: _NPU, "nccl": "hccl"}
_SAME = frozenset({"lower", "strip", "casefold"})  # methods that leave a device the same
_HOLDS = {ast.Eq: True, ast.In: True, ast.NotEq: False, ast.NotIn: False}


_OF_TENSOR = re.compile(r"torch\..*device")


class _Comparison(NamedTuple):
    """`device == "cuda"` or `device.startswith("cuda")`, which holds for its text, or `device != "cuda"`"""

    node: ast.Compare | ast.Call
    side: ast.expr
    texts: frozenset[str]
    holds: bool


def compared_with_cuda(names: Names, kinds: ByKind) -> Iterator[Bounds]:
    """The comparisons with "cuda" of values that are compared with "npu" as well, and the code that then runs."""
    comparisons = [found for node in kinds.get(ast.Compare, ()) for found in _read(node)]
    comparisons += [found for node in kinds.get(ast.Call, ()) for found in _read_start(node)]
    apart = {origin for each in comparisons if _NPU in each.texts for origin in _origins(each.side, names)}
    for each in comparisons if apart else ():
        if each.texts in ({_CUDA}, {_GPU}) and (origins := _origins(each.side, names)) and origins <= apart:
            guarded = guarded_code(each.node, each.holds, names.file, kinds)
            if guarded is not None:
                yield names.file.bounds(each.node)
                yield from guarded


def _origins(side: ast.expr, names: Names) -> set[ValueOrigin]:
    """The sources of a value, but for texts that it may be too; each tensor has a device of its own."""
    values = values_of(names.project)
    place = values.place(names, side)
    with values.near(names.path):
        found = values.sources(place, names.path) if place else []
    others = [each for each in found if each.kind != "text"]
    return {each._replace(place=place) if _OF_TENSOR.match(each.text) else each for each in others or found}


def _read(node: ast.Compare) -> Iterator[_Comparison]:
    """`device == "cuda"`, `"cuda" in device`, `device in ("cuda", "npu")`"""
    if len(node.ops) != 1 or type(node.ops[0]) not in _HOLDS:
        return
    for given, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
        texts = {string_value(part) for part in (other, *elements(other))} - {None}
        if texts:
            yield _Comparison(node, _named(given), frozenset(filter(None, texts)), _HOLDS[type(node.ops[0])])


def _read_start(node: ast.Call) -> Iterator[_Comparison]:
    """`device.startswith("cuda")`, `device.startswith(("cuda", "npu"))`"""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "startswith" and len(node.args) == 1:
        texts = filter(None, map(string_value, (node.args[0], *elements(node.args[0]))))
        known = frozenset(text.removesuffix(":") for text in texts)
        yield _Comparison(node, _named(node.func.value), known, holds=True)


def _named(side: ast.expr) -> ast.expr:
    """The device whose text or type is compared: `device` of `str(device)`, `device.type` and `device.lower()`."""
    while True:
        if isinstance(side, ast.Call) and last_name(side.func) in _SAME and isinstance(side.func, ast.Attribute):
            side = side.func.value
        elif isinstance(side, ast.Call) and dotted_name(side.func) == "str" and len(side.args) == 1:
            side = side.args[0]
        elif isinstance(side, ast.Attribute) and side.attr == "type" and not is_self(side.value):
            side = side.value
        else:
            return side
