"""A script for one card becomes one for many: its model is wrapped where it is ready, before an optimizer has it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gpu2npu.codemods.certainty import own_group
from gpu2npu.codemods.choice import CodemodError
from gpu2npu.codemods.entry import Entry, calls_in, entry_of, nodes_of
from gpu2npu.codemods.imports import spelling
from gpu2npu.codemods.model_uses import ModelUses
from gpu2npu.codemods.places import Step, above, inserted
from gpu2npu.codemods.program import ParsedFile, Program
from gpu2npu.codemods.wrapping import DISTRIBUTED, is_move

_MESSAGE = "Every process trains the model on its own card, and gradients are averaged over all."


def single_card_entry(program: Program, main: str, target: str) -> Entry:
    """The program to rewrite. Raises CodemodError if it cannot be."""
    if main not in program.sources:
        raise CodemodError(f"The entry file '{main}' is excluded from the migration.")
    entry = entry_of(program, main)
    if entry is None:
        raise CodemodError(f"The entry file '{main}' cannot be parsed.")
    group = own_group(entry)
    if group is not None:
        raise CodemodError(f"'{main}' sees to several processes itself ({group}): migrate it without 'distributed'.")
    if not any(True for _ in _assignments(entry.file, target)):
        raise CodemodError(f"'{main}' never assigns the target model '{target}'; give its name with -t/--target_model.")
    return entry


def wrap_target(program: Program, entry: Entry, target: str) -> Iterator[Step]:
    """Wrap the model of the entry file."""
    yield from wrap_below(program, entry, entry.file, _place(entry.file, target), target)


def wrap_below(program: Program, entry: Entry, file: ParsedFile, placed: cst.CSTNode, target: str) -> Iterator[Step]:
    """Wrap a model in DistributedDataParallel below a statement. What is asked of the model alone, such as its state
    dict, goes to its `.module`."""
    offset, indent = file.positions.of(placed)[1], _indentation(file, placed)
    ddp, torch = spelling(file, DISTRIBUTED), spelling(file, "torch")
    name, edits = ddp.name, (*ddp.edits, *torch.edits)
    if ddp.edits and torch.name == "torch":  # spelled out: no import for one use
        name, edits = DISTRIBUTED, torch.edits
    yield from ((file, edit) for edit in edits)
    move = "" if _is_moved(file, target, offset) else ".cuda()"
    newline = file.module.default_newline
    missing = "" if file.text[:offset].endswith(("\n", "\r")) else newline
    line = f"{indent}{target} = {name}({target}{move}, device_ids=[{torch.name}.cuda.current_device()]){newline}"
    yield inserted(file, offset, missing + line, _MESSAGE)
    yield from ModelUses(program, entry).through_module(file, placed, target)


def _place(file: ParsedFile, target: str) -> cst.CSTNode:
    """The statement to wrap the model below: the last that makes it or moves it before an optimizer gets it."""
    first = next(_assignments(file, target))
    function = _function(file, first)
    ready = [
        node
        for node in nodes_of(file, cst.CSTNode)
        if _function(file, node) is function and (_assigns(file, node, target) or _moves(file, node, target))
    ]
    optimizer = next(
        (
            node
            for node in nodes_of(file, cst.Call)
            if _function(file, node) is function and _takes_parameters(file, node, target)
        ),
        None,
    )
    if optimizer is not None:
        start, _ = file.positions.of(optimizer)
        ready = [node for node in ready if file.positions.of(node)[0] < start] or ready
    last = max(ready, key=lambda node: file.positions.of(node)[1])
    blocks = {id(node) for node in above(file, first if optimizer is None else optimizer)}
    return _statement_in(file, last, blocks)


def last_move(file: ParsedFile, statement: cst.CSTNode, target: str) -> cst.CSTNode:
    """The last statement of its block that moves the model to a device; the statement itself if none below it does."""
    block = file.parents[id(statement)]
    assert isinstance(block, (cst.IndentedBlock, cst.Module))
    following = block.body[list(block.body).index(statement) :]  # type: ignore[arg-type]
    moving = [part for part in following if any(_moves(file, node, target) for node in calls_in(part))]
    return moving[-1] if moving else statement


def _statement_in(file: ParsedFile, node: cst.CSTNode, blocks: set[int]) -> cst.CSTNode:
    """The statement that holds the node in the innermost of some blocks."""
    below = node
    for part in above(file, node):
        if id(part) in blocks and isinstance(part, (cst.IndentedBlock, cst.Module)):
            return below
        below = part
    return below


def _assignments(file: ParsedFile, target: str) -> Iterator[cst.CSTNode]:
    return (node for node in nodes_of(file, cst.CSTNode) if _assigns(file, node, target))


def _assigns(file: ParsedFile, node: cst.CSTNode, target: str) -> bool:
    """Whether a statement makes the model: `model = Net()`, `model, optimizer = build()`."""
    if isinstance(node, cst.AnnAssign):
        return node.value is not None and file.code(node.target) == target
    if not isinstance(node, cst.Assign):
        return False
    for part in node.targets:
        elements = part.target.elements if isinstance(part.target, (cst.Tuple, cst.List)) else ()
        if target in {file.code(part.target), *(file.code(element.value) for element in elements)}:
            return True
    return False


def _moves(file: ParsedFile, node: cst.CSTNode, target: str) -> bool:
    return (
        is_move(file, node)
        and isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and file.code(node.func.value) == target
    )


def _is_moved(file: ParsedFile, target: str, before: int) -> bool:
    """Whether the model is on its device when it is wrapped."""
    for node in nodes_of(file, cst.Call):
        if file.positions.of(node)[1] <= before and is_move(file, node):
            assigned = file.parents.get(id(node))
            if _moves(file, node, target) or (assigned is not None and _assigns(file, assigned, target)):
                return True
    return False


def _takes_parameters(file: ParsedFile, node: cst.CSTNode, target: str) -> bool:
    """`optim.SGD(model.parameters(), ...)`: the first use of the parameters."""
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in {"parameters", "named_parameters"}
        and file.code(node.func.value) == target
        and any(isinstance(part, cst.Arg) for part in above(file, node))
    )


def _function(file: ParsedFile, node: cst.CSTNode) -> cst.CSTNode | None:
    return next((part for part in above(file, node) if isinstance(part, cst.FunctionDef)), None)


def _indentation(file: ParsedFile, statement: cst.CSTNode) -> str:
    start, _ = file.positions.of(statement)
    line = max(first for first in file.positions.line_starts if first <= start)
    return file.text[line:start]
