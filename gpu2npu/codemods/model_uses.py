"""What a program does with its model after it is wrapped: followed through arguments and attributes by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from gpu2npu.codemods.entry import Entry, nodes_of
from gpu2npu.codemods.places import Step, above, inserted
from gpu2npu.codemods.program import ParsedFile, Program
from gpu2npu.engine.scopes import every_param
from gpu2npu.engine.tree import last_name

_MESSAGE = "The wrapped model has this in its module."
# What DistributedDataParallel has itself, with the same meaning. State dicts are asked of the module: so their keys are
# those of the script for one card, and checkpoints load in both.
DISTRIBUTED_HAS = frozenset(
    {
        "add_module", "apply", "bfloat16", "buffers", "children", "compile", "cpu", "cuda", "double", "eval", "float",
        "forward", "get_buffer", "get_parameter", "get_submodule", "half", "join", "modules", "module", "named_buffers",
        "named_children", "named_modules", "named_parameters", "no_sync", "parameters", "register_backward_hook",
        "register_comm_hook", "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
        "requires_grad_", "share_memory", "to", "train", "training", "type", "zero_grad",
    }
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Alias:
    """An expression, `model` or `self.model`, that means the wrapped model in a function, class or file."""

    file: ParsedFile
    where: cst.CSTNode
    code: str


class ModelUses:
    """Finds the uses of a model in one program."""

    def __init__(self, program: Program, entry: Entry) -> None:
        self.program = program
        self.entry = entry
        self.seen: set[tuple[int, str]] = set()

    def through_module(self, file: ParsedFile, wrap: cst.CSTNode, target: str) -> Iterator[Step]:
        """`model.state_dict()` -> `model.module.state_dict()` in what runs after the statement `wrap`."""
        _, end = file.positions.of(wrap)
        for other, use in self.of(file, wrap, target, end):
            if _needs_module(other, use):
                yield inserted(other, other.positions.of(use)[1], ".module", _MESSAGE)

    def of(
        self, file: ParsedFile, made: cst.CSTNode, target: str, after: int = 0
    ) -> Iterator[tuple[ParsedFile, cst.CSTNode]]:
        """Every use of the model that a statement assigns to `target`, but those above `after` in its function."""
        pending = [_Alias(file, _where(file, made, target), target)]
        while pending:
            alias = pending.pop()
            if (id(alias.where), alias.code) in self.seen:
                continue
            self.seen.add((id(alias.where), alias.code))
            for use in self._uses(alias):
                if alias.file is file and _same_function(file, use, made) and file.positions.of(use)[0] < after:
                    continue
                yield alias.file, use
                pending += self._handed_on(alias.file, use)

    def _uses(self, alias: _Alias) -> Iterator[cst.CSTNode]:
        kind = cst.Attribute if "." in alias.code else cst.Name
        for node in nodes_of(alias.file, kind):
            parent = alias.file.parents[id(node)]
            if isinstance(parent, (cst.Attribute, cst.Arg)) and parent.value is not node:  # x.model, f(model=x)
                continue
            if isinstance(parent, (cst.Param, cst.AssignTarget)) or alias.file.code(node) != alias.code:
                continue
            if alias.where in list(above(alias.file, node)) and self._is_bound_there(alias, node):
                yield node

    def _is_bound_there(self, alias: _Alias, node: cst.CSTNode) -> bool:
        """Whether a name is the one of the alias's function, and not of one inside it."""
        if not isinstance(node, cst.Name):
            return True
        found = alias.file.scope_of(node).lookup(node.value)
        return found is not None and found[0].node is alias.where

    def _handed_on(self, file: ParsedFile, use: cst.CSTNode) -> Iterator[_Alias]:
        parent = file.parents[id(use)]
        if isinstance(parent, cst.Assign):  # self.model = model
            for target in parent.targets:
                code = file.code(target.target)
                if isinstance(target.target, (cst.Name, cst.Attribute)):
                    yield _Alias(file, _where(file, target.target, code), code)
        call = file.parents.get(id(parent))
        if isinstance(parent, cst.Arg) and isinstance(call, cst.Call):
            yield from self._parameters(file, call, parent)

    def _parameters(self, file: ParsedFile, call: cst.Call, arg: cst.Arg) -> Iterator[_Alias]:
        for other, function, is_method in self._called(file, call):
            parameters = [param.name.value for param in every_param(function.params)][is_method:]
            position = list(call.args).index(arg)
            if arg.keyword is not None:
                names = [name for name in parameters if name == arg.keyword.value]
            else:
                names = parameters[position : position + 1]
            yield from (_Alias(other, function, name) for name in names)

    def _called(self, file: ParsedFile, call: cst.Call) -> Iterator[tuple[ParsedFile, cst.FunctionDef, bool]]:
        """The functions of the program that a call may mean; a class stands for its `__init__`."""
        name = last_name(call.func)
        found = file.names.definition(call.func, file.scope_of(call))
        for other in self.entry.files.values():
            for node in nodes_of(other, cst.FunctionDef):
                assert isinstance(node, cst.FunctionDef)
                owner = next((part for part in above(other, node) if isinstance(part, cst.ClassDef)), None)
                if found is not None:
                    wanted = found[1].node
                    if node is wanted or (owner is wanted and node.name.value == "__init__"):
                        yield other, node, owner is not None
                elif isinstance(call.func, cst.Attribute) and owner is not None and node.name.value == name:
                    yield other, node, True


def _where(file: ParsedFile, node: cst.CSTNode, code: str) -> cst.CSTNode:
    """Where a name assigned at a node has this meaning: its function, the file, the class for an attribute of self."""
    if code.startswith("self."):
        owner = next((part for part in above(file, node) if isinstance(part, cst.ClassDef)), None)
        return owner or file.module
    found = file.scope_of(node).lookup(code)
    return found[0].node if found is not None else file.module


def _same_function(file: ParsedFile, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    functions = [
        next((part for part in above(file, node) if isinstance(part, cst.FunctionDef)), None) for node in (one, other)
    ]
    return functions[0] is functions[1]


def _needs_module(file: ParsedFile, use: cst.CSTNode) -> bool:
    """`model.state_dict`, or `torch.save(model, path)`."""
    parent = file.parents[id(use)]
    if isinstance(parent, cst.Attribute):
        return parent.attr.value not in DISTRIBUTED_HAS and not parent.attr.value.startswith("__")
    call = file.parents.get(id(parent))
    return isinstance(parent, cst.Arg) and isinstance(call, cst.Call) and file.code(call.func) == "torch.save"
