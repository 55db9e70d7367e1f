"""The uses that a program makes of its model once it is wrapped, wherever its value goes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpu2npu.codemods.places import Step, inserted
from gpu2npu.codemods.program.entries import RETURNING_SELF, Entry, dataflow_in
from gpu2npu.codemods.program.files import MEMBERS, ParsedFile, TrainingProgram
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.text.templates import code
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import AnyPlace, CallPlace, Place, function_above
from gpu2npu.python.tree.syntax import FUNCTIONS, dotted_name, last_name, string_value

_MESSAGE = "The wrapped model has this in its module."
# Members of DistributedDataParallel with the same meaning. State dicts are read from the module, so their keys are
# those of the script for one card, and checkpoints load in both.
DISTRIBUTED_HAS = frozenset(MEMBERS["distributed_has"])
# Code that takes the wrapper off, if there is one: what it gives has no `.module`.
_UNWRAPS = re.compile(r"(?:has|get)attr\([^()]*,\s*['\"]module['\"]|isinstance\([^()]*(?:DataParallel|DDP)")
# What `.module` is given by, and what it depends on.
_GIVING, _CONDITIONS = (ast.Assign, ast.IfExp, ast.Return), (ast.If, ast.IfExp, ast.While)


class ModelUses:
    """Finds the uses of a model in one program."""

    def __init__(self, program: TrainingProgram, entry: Entry) -> None:
        self.flow = program.once((Dataflow, *entry.files), lambda: dataflow_in(program, entry.files))
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

    def _unwraps(self, call: CallPlace) -> bool:
        """Return whether a call may give the model without its wrapper."""
        functions = (each for each in self.flow.targets(call) if isinstance(each.node, FUNCTIONS))
        return any(_UNWRAPS.search(each.code) or (".module" in each.code and _gives_module(each)) for each in functions)


def _gives_module(function: AnyPlace) -> bool:
    """Return whether a function gives or assigns `.module` on a condition: `net.module if is_parallel(net) else net`"""
    file, taken = function.file, {each.arg for each in walk(function.node) if isinstance(each, ast.arg)}
    read = [each for each in walk(function.node) if isinstance(each, ast.Attribute) and each.attr == "module"]
    of_model = (each for each in read if dotted_name(each.value) in taken)
    given = (each for each in of_model if isinstance(file.parents[each], _GIVING))
    return any(isinstance(above, _CONDITIONS) for each in given for above in file.within(each))


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
