"""The uses that a program makes of its model once it is wrapped, followed through arguments and attributes by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gpu2npu.codemods.entry import Entry
from gpu2npu.codemods.places import Step, inserted
from gpu2npu.codemods.program import ParsedFile, TrainingProgram
from gpu2npu.python.tree.place import function_above
from gpu2npu.python.tree.syntax import (
    Function,
    argument_keyword,
    argument_value,
    arguments,
    elements,
    last_name,
    parameters,
)

_MESSAGE = "The wrapped model has this in its module."
# Members of DistributedDataParallel with the same meaning. State dicts are read from the module, so their keys are
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


class _Alias(Struct, frozen=True, eq=False):
    """An expression, `model` or `self.model`, that means the wrapped model in a function, class or file."""

    file: ParsedFile
    where: ast.AST
    code: str


class ModelUses:
    """Finds the uses of a model in one program."""

    def __init__(self, program: TrainingProgram, entry: Entry) -> None:
        self.program = program
        self.entry = entry
        self.seen: set[tuple[ast.AST, str]] = set()

    def through_module(self, file: ParsedFile, wrap: ast.AST, target: str) -> Iterator[Step]:
        """`model.state_dict()` -> `model.module.state_dict()` in what runs after the statement `wrap`."""
        _, end = file.bounds(wrap)
        for other, use in self.of(file, wrap, target, end):
            if _needs_module(other, use):
                yield inserted(other, other.bounds(use)[1], ".module", _MESSAGE)

    def of(self, file: ParsedFile, made: ast.AST, target: str, after: int = 0) -> Iterator[tuple[ParsedFile, ast.expr]]:
        """Every use of the model that a statement assigns to `target`, but those above `after` in its function."""
        home = function_above(file, made)
        pending = [_Alias(file, _where(file, made, target), target)]
        while pending:
            alias = pending.pop()
            if (alias.where, alias.code) in self.seen:
                continue
            self.seen.add((alias.where, alias.code))
            for use in self._uses(alias):
                before = alias.file is file and file.bounds(use)[0] < after
                if before and function_above(file, use) is home:
                    continue
                yield alias.file, use
                pending += self._handed_on(alias.file, use)

    def _uses(self, alias: _Alias) -> Iterator[ast.expr]:
        file = alias.file
        kind: type[ast.Attribute | ast.Name] = ast.Attribute if "." in alias.code else ast.Name
        last = alias.code.rpartition(".")[2]
        for node in file.nodes(kind):
            if last_name(node) != last or file.code(node) != alias.code:
                continue
            parent = file.parents[node]
            if isinstance(parent, ast.Assign) and node in parent.targets:
                continue
            if alias.where in file.above(node) and self._is_bound_there(alias, node):
                yield node

    def _is_bound_there(self, alias: _Alias, node: ast.expr) -> bool:
        """Return whether a name is the one of the alias's function, and not of one inside it."""
        if not isinstance(node, ast.Name):
            return True
        found = alias.file.scope_of(node).lookup(node.id)
        return found is not None and found[0].node is alias.where

    def _handed_on(self, file: ParsedFile, use: ast.expr) -> Iterator[_Alias]:
        parent = file.parents[use]
        if isinstance(parent, ast.Assign):  # self.model = model
            yield from _assigned(file, parent)
        elif isinstance(parent, ast.Return):
            yield from self._results(file, parent)
        elif isinstance(parent, ast.Tuple) and isinstance(above := file.parents[parent], ast.Return):
            yield from self._results(file, above, parent.elts.index(use))
        call = file.parents[parent] if isinstance(parent, ast.keyword) else parent
        if isinstance(call, ast.Call) and call.func is not use:
            yield from self._parameters(file, call, use)

    def _parameters(self, file: ParsedFile, call: ast.Call, use: ast.expr) -> Iterator[_Alias]:
        given = arguments(call)
        position = next(index for index, each in enumerate(given) if argument_value(each) is use)
        keyword = argument_keyword(given[position])
        for other, function, is_method in self._called(file, call):
            names = [parameter.arg for parameter in parameters(function)][is_method:]
            names = names[position : position + 1] if keyword is None else [name for name in names if name == keyword]
            yield from (_Alias(other, function, name) for name in names)

    def _results(self, file: ParsedFile, end: ast.Return, index: int | None = None) -> Iterator[_Alias]:
        """The names that callers give to what a function returns, or to the element `index` of it."""
        function = function_above(file, end)
        if function is None or (function, str(index)) in self.seen:
            return
        self.seen.add((function, str(index)))
        for other, call in self._calls(function):
            parent = other.parents[call]
            if isinstance(parent, ast.Assign):
                yield from _assigned(other, parent, index)
            elif isinstance(parent, ast.Return):
                yield from self._results(other, parent, index)

    def _calls(self, function: Function) -> Iterator[tuple[ParsedFile, ast.Call]]:
        """The calls of the program that may be of a function, by its own name."""
        for other in self.entry.files.values():
            for call in other.nodes(ast.Call):
                if last_name(call.func) == function.name and any(
                    node is function for _, node, _ in self._called(other, call)
                ):
                    yield other, call

    def _called(self, file: ParsedFile, call: ast.Call) -> Iterator[tuple[ParsedFile, Function, bool]]:
        """The functions of the program that a call may mean; a class stands for its `__init__`."""
        name = last_name(call.func)
        found = file.names.definition(call.func, file.scope_of(call))
        for other in self.entry.files.values():
            for node, owner in self.program.of_file(_functions, other):
                if found is not None:
                    wanted = found.bound.node
                    if node is wanted or (owner is wanted and node.name == "__init__"):
                        yield other, node, owner is not None
                elif isinstance(call.func, ast.Attribute) and owner is not None and node.name == name:
                    yield other, node, True


def _functions(file: ParsedFile) -> list[tuple[Function, ast.ClassDef | None]]:
    """The functions of a file, each with the class that it is in."""
    return [
        (node, next((part for part in file.above(node) if isinstance(part, ast.ClassDef)), None))
        for node in file.functions
    ]


def _where(file: ParsedFile, node: ast.AST, code: str) -> ast.AST:
    """Return the node in which a name holds: its function, the file, or the class for an attribute of `self`."""
    if code.startswith("self."):
        owner = next((part for part in file.above(node) if isinstance(part, ast.ClassDef)), None)
        return owner or file.tree
    found = file.scope_of(node).lookup(code)
    return found[0].node if found is not None else file.tree


def _assigned(file: ParsedFile, assignment: ast.Assign, index: int | None = None) -> Iterator[_Alias]:
    """The names that a value, or its element `index`, is assigned to."""
    for whole in assignment.targets:
        named = (whole,) if index is None else elements(whole)
        place = index or 0
        target = (
            named[place] if place < len(named) and not any(isinstance(each, ast.Starred) for each in named) else None
        )
        if isinstance(target, (ast.Name, ast.Attribute)):
            code = file.code(target)
            yield _Alias(file, _where(file, target, code), code)


def _needs_module(file: ParsedFile, use: ast.expr) -> bool:
    """`model.state_dict`, or `torch.save(model, path)`."""
    parent = file.parents[use]
    if isinstance(parent, ast.Attribute):
        return parent.attr not in DISTRIBUTED_HAS and not parent.attr.startswith("__")
    call = file.parents[parent] if isinstance(parent, ast.keyword) else parent
    return isinstance(call, ast.Call) and call.func is not use and file.code(call.func) == "torch.save"
