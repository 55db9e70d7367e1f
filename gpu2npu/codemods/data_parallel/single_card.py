"""A script for one card becomes one for many: its model is wrapped where it is ready, before an optimizer has it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.codemods.choice import CodemodError
from gpu2npu.codemods.data_parallel.wrapping import DISTRIBUTED
from gpu2npu.codemods.places import NPU, GroupEdit, Step
from gpu2npu.codemods.program.entries import Entry, calls_in, entry_of
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.program.group_condition import group_place
from gpu2npu.codemods.program.model_uses import ModelUses
from gpu2npu.codemods.spellings import RULE, spelling
from gpu2npu.engine.other_devices.choices import is_move
from gpu2npu.python.text.blocks import begins_line, is_elif, line_below, same_line
from gpu2npu.python.text.offsets import indentation
from gpu2npu.python.text.templates import code, lines_at
from gpu2npu.python.tree.place import function_above
from gpu2npu.python.tree.syntax import elements

_MESSAGE = "Every process trains the model on its own card, and gradients are averaged over all."


def single_card_entry(program: TrainingProgram, main: str, target: str) -> Entry:
    """The program to rewrite. Raises CodemodError if it cannot be."""
    entry = entry_of(program, main)
    if entry is None:
        raise CodemodError(f"The entry file '{main}' cannot be parsed.")
    group = group_place(entry)
    if group is not None:
        raise CodemodError(f"'{main}' makes its process group itself ({group}): migrate it without 'distributed'.")
    if not any(True for _ in _assignments(entry.file, target)):
        raise CodemodError(f"'{main}' never assigns the target model '{target}'; give its name with -t/--target_model.")
    return entry


def wrap_target(program: TrainingProgram, entry: Entry, target: str) -> Iterator[Step]:
    """Wrap the model of the entry file."""
    yield from wrap_below(program, entry, entry.file, _place(entry.file, target), target)


def wrap_below(
    program: TrainingProgram, entry: Entry, file: ParsedFile, placed: ast.stmt, target: str
) -> Iterator[Step]:
    """Wrap a model in DistributedDataParallel below a statement. What is read from the model itself, such as its state
    dict, goes to its `.module`."""
    offset, indent = line_below(file, placed), indentation(file.text, file.bounds(placed)[0])
    ddp, torch = spelling(file, DISTRIBUTED), spelling(file, "torch")
    name, edits = ddp.name, (*ddp.edits, *torch.edits)
    if ddp.edits and torch.name == "torch":  # spelled out: no import for one use
        name, edits = DISTRIBUTED, torch.edits
    yield from ((file, edit) for edit in edits)
    moved = code("{model}" if _is_moved(file, target, offset) else "{model}.npu()", model=target)
    template = "{model} = {ddp}({moved}, device_ids=[{torch}.npu.current_device()])"
    line = code(template, model=target, ddp=name, moved=moved, torch=torch.name)
    yield file, GroupEdit((offset, offset), lines_at(file, offset, indent, [line]), RULE, _MESSAGE, needs=NPU)
    yield from ModelUses(program, entry.files).through_module(file, placed, target)


def _place(file: ParsedFile, target: str) -> ast.stmt:
    """The statement to wrap the model below: the last that makes it or moves it before an optimizer gets it."""
    first = next(_assignments(file, target))
    function = function_above(file, first)
    moves = (call for call in file.nodes(ast.Call) if _moves(file, call, target))
    ready = [node for node in (*_assignments(file, target), *moves) if function_above(file, node) is function]
    optimizer = next(
        (
            call
            for call in file.nodes(ast.Call)
            if function_above(file, call) is function and _takes_parameters(file, call, target)
        ),
        None,
    )
    if optimizer is not None:
        start, _ = file.bounds(optimizer)
        ready = [node for node in ready if file.bounds(node)[0] < start] or ready
    last = max(ready, key=lambda node: file.bounds(node)[1])
    return _shared_block(file, last, first if optimizer is None else optimizer)


def last_move(file: ParsedFile, statement: ast.stmt, target: str) -> ast.stmt:
    """The last statement of its block that moves the model to a device; the statement itself if none below it does."""
    block = file.block(statement)
    index = next(index for index, part in enumerate(block) if part is statement)
    moving = [part for part in block[index:] if any(_moves(file, call, target) for call in calls_in(part))]
    return moving[-1] if moving else statement


def _shared_block(file: ParsedFile, node: ast.AST, other: ast.AST) -> ast.stmt:
    """The statement that holds a node in the innermost block that holds another too, in lines of its own."""
    holding = {file.statement(other), *file.above(other)}
    statement = file.statement(node)
    while not _is_in_block(file, statement, holding):
        statement = file.statement(file.parents[statement])
    return same_line(file, statement)[-1]


def _is_in_block(file: ParsedFile, statement: ast.stmt, holding: set[ast.AST]) -> bool:
    if is_elif(file, statement) or not begins_line(file, same_line(file, statement)[0]):
        return False
    return any(part in holding for part in file.block(statement))


def _assignments(file: ParsedFile, target: str) -> Iterator[ast.Assign | ast.AnnAssign]:
    nodes: list[ast.Assign | ast.AnnAssign] = [*file.nodes(ast.Assign), *file.nodes(ast.AnnAssign)]
    found = [node for node in nodes if _assigns(file, node, target)]
    yield from sorted(found, key=file.bounds)


def _assigns(file: ParsedFile, node: ast.AST, target: str) -> bool:
    """Return whether a statement makes the model: `model = Net()`, `model, optimizer = build()`."""
    if isinstance(node, ast.AnnAssign):
        return node.value is not None and file.code(node.target) == target
    if not isinstance(node, ast.Assign):
        return False
    return any(file.code(part) == target for given in node.targets for part in (given, *elements(given)))


def _moves(file: ParsedFile, node: ast.AST, target: str) -> bool:
    return (
        is_move(file.names, node)
        and isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and file.code(node.func.value) == target
    )


def _is_moved(file: ParsedFile, target: str, before: int) -> bool:
    """Return whether the model is on its device when it is wrapped."""
    return any(
        _moves(file, call, target) or _assigns(file, file.parents[call], target)
        for call in file.nodes(ast.Call)
        if is_move(file.names, call) and file.bounds(call)[1] <= before
    )


def _takes_parameters(file: ParsedFile, node: ast.Call, target: str) -> bool:
    """`optim.SGD(model.parameters(), ...)`: the first use of the parameters."""
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in {"parameters", "named_parameters"}
        and file.code(node.func.value) == target
        and _is_given(file, node)
    )


def _is_given(file: ParsedFile, node: ast.AST) -> bool:
    """Return whether a node is an argument of a call, or inside one."""
    return any(isinstance(above, ast.Call) and above.func is not below for above, below in file.steps(node))
