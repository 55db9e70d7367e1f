"""The places where a program wraps a model in DataParallel, and the same in DistributedDataParallel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from gpu2npu.codemods.entry import nodes_of
from gpu2npu.codemods.imports import RULE, Spelling, spelling
from gpu2npu.codemods.places import Step, above, is_skipped, joined, replaced
from gpu2npu.codemods.program import ParsedFile, Program
from gpu2npu.codemods.spelling import WORD, is_data_parallel, spell_distributed
from gpu2npu.engine.edits import splice
from gpu2npu.records import StructuralEdit

DISTRIBUTED = "torch.nn.parallel.DistributedDataParallel"
_DEVICE = re.compile(r"cuda|dev|gpu|rank", re.IGNORECASE)
_MESSAGE = "An NPU has no DataParallel; DistributedDataParallel has one process for each card."


@dataclass(frozen=True, eq=False)
class Wrap:
    """`nn.DataParallel(m, ...)`: the call, its argument for the module, and the `whole` with the `.cuda()` or
    `.to(device)` behind it, which is the call itself if there is none."""

    file: ParsedFile
    call: cst.Call
    module: cst.Arg
    whole: cst.Call

    @property
    def module_code(self) -> str:
        return self.file.code(self.module.value)

    @property
    def dim(self) -> cst.BaseExpression | None:
        return argument(self.call, 3, "dim")


def find_wraps(program: Program) -> Iterator[Wrap]:
    """The calls of DataParallel in a project, but those that a comment keeps."""
    for file in program.with_word(WORD):
        for call in nodes_of(file, cst.Call):
            assert isinstance(call, cst.Call)
            if is_data_parallel(file, call.func) and not is_skipped(file, call):
                module = next((arg for arg in call.args if _is_module(arg, call)), None)
                if module is not None:
                    yield Wrap(file, call, module, _with_move(file, call))


def _is_module(arg: cst.Arg, call: cst.Call) -> bool:
    return not arg.star and (arg.keyword.value == "module" if arg.keyword is not None else arg is call.args[0])


def argument(call: cst.Call, index: int, name: str) -> cst.BaseExpression | None:
    """The argument of a call that is passed at a position or by name."""
    for position, arg in enumerate(call.args):
        if not arg.star and (arg.keyword.value == name if arg.keyword is not None else position == index):
            return arg.value
    return None


def target_of(wrap: Wrap) -> cst.BaseExpression | None:
    """What the wrapped module is assigned to."""
    assigned = next((node for node in above(wrap.file, wrap.whole) if isinstance(node, cst.BaseSmallStatement)), None)
    if isinstance(assigned, cst.Assign) and assigned.value is wrap.whole and len(assigned.targets) == 1:
        return assigned.targets[0].target
    return None


def _with_move(file: ParsedFile, call: cst.Call) -> cst.Call:
    attribute = file.parents.get(id(call))
    moved = file.parents.get(id(attribute))
    if isinstance(attribute, cst.Attribute) and isinstance(moved, cst.Call) and is_move(file, moved):
        return moved
    return call


def is_move(file: ParsedFile, node: cst.CSTNode) -> bool:
    """`x.cuda(...)`, or `x.to(...)` with what looks like a device."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    name = node.func.attr.value
    return name == "cuda" or (name == "to" and any(_DEVICE.search(file.code(arg.value)) for arg in node.args))


def distributed(wrap: Wrap, stays: bool, twice: bool, others: Iterable[StructuralEdit]) -> Iterator[Step]:
    """The wrap in DistributedDataParallel, with other edits of the code inside it. The module is on its device before
    it is wrapped, whatever comes after."""
    file = wrap.file
    ddp, torch = spell_distributed(file, wrap.call.func, stays), spelling(file, "torch")
    yield from ((file, edit) for edit in (*ddp.edits, *torch.edits))
    others = list(others)
    buffers = ", broadcast_buffers=False" if twice else ""
    tail = f"{_move(wrap, others)}, device_ids=[{torch.name}.cuda.current_device()]{buffers})"
    start, end = file.positions.of(wrap.call.func)
    module_start, module_end = file.positions.of(wrap.module.value)
    edits = [
        StructuralEdit(start, end, ddp.name, RULE, _MESSAGE),
        StructuralEdit(module_end, file.positions.of(wrap.whole)[1], tail, RULE, _MESSAGE),
        *(edit for edit in others if module_start <= edit.start and edit.end <= module_end),
    ]
    if _needs_parentheses(wrap) and tail.startswith("."):
        edits.append(StructuralEdit(module_start, module_start, "(", RULE, _MESSAGE))
        edits.append(StructuralEdit(module_end, module_end, ")", RULE, _MESSAGE))
    yield joined(file, wrap.whole, edits, _MESSAGE)


def kept_name(wrap: Wrap) -> Iterator[Step]:
    """A part that was wrapped stays under the name `module`, for the sake of checkpoints, while the whole model is
    wrapped in DistributedDataParallel."""
    file = wrap.file
    function = wrap.call.func
    if (
        isinstance(function, cst.Attribute)
        and file.names.qualified(function.value, file.scope_of(function)) == "torch.nn"
    ):
        sequential = Spelling(f"{file.code(function.value)}.Sequential")
    else:
        sequential = spelling(file, "torch.nn.Sequential")
    ordered = spelling(file, "collections.OrderedDict")
    yield from ((file, edit) for edit in (*sequential.edits, *ordered.edits))
    text = f"{sequential.name}({ordered.name}(module={wrap.module_code}))"
    yield replaced(file, wrap.whole, text, "The whole model is wrapped; this keeps the names in its state dict.")


def _needs_parentheses(wrap: Wrap) -> bool:
    module = wrap.module.value
    return not (isinstance(module, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or module.lpar)


def _move(wrap: Wrap, others: Iterable[StructuralEdit]) -> str:
    """What puts the module on the card of this process before it is wrapped."""
    if wrap.whole is not wrap.call:
        start, end = wrap.file.positions.of(wrap.call)[1], wrap.file.positions.of(wrap.whole)[1]
        inside = [(edit.start - start, edit.end - start, edit.text) for edit in others if start <= edit.start < end]
        return splice(wrap.file.text[start:end], inside)
    return "" if _is_on_device(wrap) else ".cuda()"


def _is_on_device(wrap: Wrap) -> bool:
    """Whether the module is moved to a device in the wrap itself, or by a statement that always runs before it."""
    file = wrap.file
    if is_move(file, wrap.module.value):
        return True
    around = {id(node) for node in above(file, wrap.call)}
    start, _ = file.positions.of(wrap.call)
    for node in nodes_of(file, cst.Call):
        if file.positions.of(node)[1] <= start and is_move(file, node) and _moves(file, node, wrap.module_code):
            statement = next(iter(part for part in above(file, node) if isinstance(part, cst.BaseStatement)), None)
            if statement is not None and id(file.parents[id(statement)]) in around:
                return True
    return False


def _moves(file: ParsedFile, move: cst.CSTNode, module: str) -> bool:
    """Whether `m.cuda()`, or `m = f(x).cuda()`, moves the module."""
    assert isinstance(move, cst.Call)
    assert isinstance(move.func, cst.Attribute)
    if file.code(move.func.value) == module:
        return True
    assignment = file.parents.get(id(move))
    return isinstance(assignment, cst.Assign) and any(
        file.code(target.target) == module for target in assignment.targets
    )
