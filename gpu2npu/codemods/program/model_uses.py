"""The uses that a program makes of its model once it is wrapped, wherever its value goes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from gpu2npu.codemods.places import Step, inserted
from gpu2npu.codemods.program.entries import RETURNING_SELF, dataflow_in
from gpu2npu.codemods.program.files import MEMBERS, ParsedFile, TrainingProgram
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.text.templates import code
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import AnyPlace, CallPlace, FunctionPlace, Place, argument, function_above, returned
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    argument_value,
    arguments,
    dotted_name,
    elements,
    last_name,
    parameters,
    string_value,
)

_MESSAGE = "The wrapped model has this in its module."
# Members of DistributedDataParallel with the same meaning. State dicts are read from the module, so their keys are
# those of the script for one card, and checkpoints load in both.
DISTRIBUTED_HAS = frozenset(MEMBERS["distributed_has"])
# Names of a wrapper's class, and of functions of libraries that test for one: `DDP`, `timm.utils.is_parallel`.
_WRAPPER = re.compile("parallel|ddp|wrap", re.IGNORECASE)
# What gives a value, and what it depends on there.
_GIVING, _CONDITIONS = (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Return), (ast.If, ast.IfExp, ast.While, ast.Try)


class ModelUses:
    """Finds the uses of a model in the files of one program."""

    def __init__(self, program: TrainingProgram, files: Mapping[str, ParsedFile]) -> None:
        self.flow = program.once((Dataflow, *files), lambda: dataflow_in(program, files))
        self.seen: set[ast.AST] = set()

    def through_module(self, file: ParsedFile, wrap: ast.AST, target: str) -> Iterator[Step]:
        """`model.state_dict()` -> `model.module.state_dict()` in what runs after the statement `wrap`."""
        _, end = file.bounds(wrap)
        for other, use in self.of(file, wrap, target, end):
            if _needs_module(other, use):
                yield inserted(other, other.bounds(use)[1], code(".module"), _MESSAGE)

    def of(self, file: ParsedFile, made: ast.AST, target: str, after: int = 0) -> Iterator[tuple[ParsedFile, ast.expr]]:
        """Every use of the model that a statement assigns to `target`, but those above `after` in its function."""
        home = function_above(file, made)
        pending: list[AnyPlace] = [Place(file, node) for node in _models(file, made, target)]
        reached: set[ast.AST] = set()
        while pending:
            start = pending.pop(0)
            for use in self.flow.same(start, self._unwraps) if start.node not in reached else ():
                node = use.node
                assert isinstance(node, ast.expr)
                reached.add(node)
                above = use.file is file and file.bounds(node)[0] < after and function_above(file, node) is home
                if node not in self.seen and not above:
                    self.seen.add(node)
                    yield use.file, node
                    pending += _passed_on(use)

    def tests_for_wrapper(self, tested: AnyPlace, model: str) -> bool:
        """Return whether code tests whether a model has a wrapper, itself or by a function of the program:
        `hasattr(model, "module")`, `type(model) is DDP`, `is_parallel(model)`."""
        return self._has_test(tested, model, frozenset())

    def _has_test(self, tested: AnyPlace, model: str, above: frozenset[ast.AST]) -> bool:
        calls = (tested.at(each) for each in walk(tested.node) if isinstance(each, ast.Call))
        return any(self._is_test(call, model, above) for call in calls)

    def _is_test(self, call: CallPlace, model: str, above: frozenset[ast.AST]) -> bool:
        """Return whether a call tests for the wrapper of a model; `above` are the functions that it is in."""
        file, name = call.file, last_name(call.node.func) or ""
        if model not in [file.code(argument_value(each)) for each in arguments(call.node)]:
            return False
        if name in ("hasattr", "getattr"):
            return "module" in map(string_value, call.node.args)
        classes = tested_classes(call)
        functions = [each.at(each.node) for each in self.flow.targets(call) if isinstance(each.node, FUNCTIONS)]
        if classes or not functions:
            names = [file.qualified(each) or file.code(each) for each in classes] or [name]
            return any(map(_WRAPPER.search, names))
        for function in (each for each in functions if each.node not in above):
            given = {each.arg: argument(call, function, each.arg) for each in parameters(function.node)}
            names = [each for each, place in given.items() if place is not None and place.code == model]
            within = above | {function.node}
            if any(self._has_test(each, name, within) for each in _results(function) for name in names):
                return True
        return False

    def _unwraps(self, call: CallPlace) -> bool:
        """Return whether a call may give the model without its wrapper."""
        functions = (each.at(each.node) for each in self.flow.targets(call) if isinstance(each.node, FUNCTIONS))
        return any(self._gives_module(each) for each in functions)

    def _gives_module(self, function: FunctionPlace) -> bool:
        """Return whether a function may give the `.module` of a model: `net.module if is_parallel(net) else net`,
        `getattr(net, "module", net)`."""
        own = {each.arg for each in parameters(function.node)}
        own |= {
            each.id for each in walk(function.node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        for read in walk(function.node):
            model = _model_of(read)
            if model.partition(".")[0] in own and _is_given(function, read):
                depends = (each for each in function.file.within(read) if isinstance(each, _CONDITIONS))
                if isinstance(read, ast.Call) or any(depends) or self.tests_for_wrapper(function, model):
                    return True
        return False


def tested_classes(call: CallPlace) -> list[ast.expr]:
    """The classes that `isinstance(model, classes)` or `type(model) in classes` names, one by one."""
    name, above = last_name(call.node.func), call.file.parents[call.node]
    listed = call.node.args[1:] if name == "isinstance" else []
    while name == "type" and isinstance(above, ast.Attribute):  # `type(model).__name__`
        above = call.file.parents[above]
    if name == "type" and isinstance(above, ast.Compare):
        listed = [each for each in (above.left, *above.comparators) if call.node not in walk(each)]
    return [part for each in listed for part in elements(each) or [each]]


def _results(function: FunctionPlace) -> Iterator[AnyPlace]:
    """The values that a function returns, and the tests above `return True`."""
    for result in returned(function):
        yield result
        if isinstance(result.node, ast.Constant):
            above = function.file.within(result.node)
            yield from (function.at(each.test) for each in above if isinstance(each, (ast.If, ast.IfExp)))


def _model_of(node: ast.AST) -> str:
    """`net` of `net.module`, `getattr(net, "module", net)` and `net._modules["module"]`; "" of other nodes."""
    owner: ast.AST = node
    if isinstance(node, ast.Attribute) and node.attr == "module" and isinstance(node.ctx, ast.Load):
        owner = node.value
    elif isinstance(node, ast.Subscript) and string_value(node.slice) == "module":
        owner = node.value.value if isinstance(node.value, ast.Attribute) and node.value.attr == "_modules" else node
    elif isinstance(node, ast.Call) and last_name(node.func) == "getattr" and len(node.args) > 1:
        owner = node.args[0] if string_value(node.args[1]) == "module" else node
    return (dotted_name(owner) or "") if owner is not node else ""


def _is_given(function: FunctionPlace, read: ast.AST) -> bool:
    """Return whether an expression is what a function assigns or returns, perhaps by `cast` or by itself."""
    for above in function.file.above(read):
        is_same = isinstance(above, ast.Call) and last_name(above.func) in ("cast", function.node.name)
        if not is_same and not isinstance(above, (ast.IfExp, ast.BoolOp)):
            return isinstance(above, _GIVING)
    return False


def _models(file: ParsedFile, made: ast.AST, target: str) -> Iterator[ast.AST]:
    """The expressions that have the model: what a statement assigns to a target, and the reads of this."""
    if isinstance(made, (ast.Assign, ast.AnnAssign)) and made.value is not None:
        targets = made.targets if isinstance(made, ast.Assign) else [made.target]
        if target in map(file.code, targets):
            yield made.value
    yield from file.reads(target, file.scope_of(made))


def _passed_on(use: AnyPlace) -> Iterator[AnyPlace]:
    """The calls that give the same model for a use: `model.cuda()`, `deepcopy(model)`."""
    parent = use.file.parents[use.node]
    if isinstance(parent, ast.Attribute) and parent.attr in RETURNING_SELF:
        moved = use.file.call_of(parent)
        if moved is not None and "cpu" not in map(string_value, moved.args):  # which is a copy: cpu_moves.py
            yield use.at(moved)
    elif (
        isinstance(parent, ast.Call) and parent.func is not use.node and last_name(parent.func) in {"copy", "deepcopy"}
    ):
        yield use.at(parent)


def _needs_module(file: ParsedFile, use: ast.expr) -> bool:
    """`model.state_dict`, or `torch.save(model, path)`."""
    parent = file.parents[use]
    if isinstance(parent, ast.Attribute):
        return parent.attr not in DISTRIBUTED_HAS and not parent.attr.startswith("__")
    call = file.parents[parent] if isinstance(parent, ast.keyword) else parent
    return isinstance(call, ast.Call) and call.func is not use and file.code(call.func) == "torch.save"
