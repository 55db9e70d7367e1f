"""The places where a program wraps a model in DataParallel, and the same in DistributedDataParallel."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from gpu2npu.codemods.data_parallel.spelling import DATA_PARALLEL, is_data_parallel, spell_distributed
from gpu2npu.codemods.places import NPU, GroupEdit, Step, is_skipped, replaced
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.program.group_condition import in_group
from gpu2npu.codemods.spellings import RULE, Spelling, spelling
from gpu2npu.engine.other_devices.choices import is_move
from gpu2npu.python.project.imports import files_naming
from gpu2npu.python.text.concrete import argument_bounds, outer_bounds
from gpu2npu.python.text.offsets import indentation, newline_of
from gpu2npu.python.text.templates import Operand, code, followed, operand, plain
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import Place, function_above, same_name
from gpu2npu.python.tree.syntax import (
    WITHS,
    argument_of,
    argument_value,
    arguments,
    last_name,
)
from gpu2npu.records import Text

_WITHOUT_GRADIENTS = frozenset(
    {"torch.no_grad", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad", "torch.inference_mode"}
)
# Without one of these words no gradients are turned off.
_MAY_TURN_OFF = re.compile(r"\b(no_grad|inference_mode|set_grad_enabled)\b")

DISTRIBUTED = "torch.nn.parallel.DistributedDataParallel"
# Calls that put a model into a container, or into another model.
_STORING = frozenset({"add_module", "append", "extend", "insert", "register_module", "setattr", "setdefault", "update"})
# What a value is a part of, and what gives it to other code, or to another name.
_HOLDING = (ast.Tuple, ast.List, ast.Dict, ast.Starred, ast.IfExp, ast.BoolOp)
_LEAVING = (ast.Return, ast.Yield, ast.Assign, ast.AnnAssign, ast.NamedExpr)
_MESSAGE = "An NPU has no DataParallel; DistributedDataParallel has one process for each card."


class Wrap(Struct, frozen=True, eq=False):
    """`nn.DataParallel(m, ...)`: the call, its argument for the module, and the `whole` with the `.cuda()` or
    `.to(device)` behind it, which is the call itself if there is none."""

    file: ParsedFile
    call: ast.Call
    module: ast.expr
    whole: ast.Call

    @property
    def module_code(self) -> str:
        return self.file.code(self.module)

    @property
    def dim(self) -> ast.expr | None:
        return argument_of(self.call, "dim", 3)


def find_wraps(program: TrainingProgram) -> Iterator[Wrap]:
    """The calls of DataParallel in a project, but those that a comment keeps."""
    for file in program.parsed(files_naming(program, DATA_PARALLEL)):
        for call in file.nodes(ast.Call):
            if is_data_parallel(file, call.func) and not is_skipped(file, call):
                module = argument_of(call, "module", 0)
                if module is not None:
                    yield Wrap(file, call, module, _with_move(file, call))


def target_of(wrap: Wrap) -> ast.expr | None:
    """Return the expression that the wrapped module is assigned to, if it is just one."""
    assigned = wrap.file.statement(wrap.whole)
    if isinstance(assigned, ast.Assign) and assigned.value is wrap.whole and len(assigned.targets) == 1:
        return assigned.targets[0]
    return None


def escapes(wrap: Wrap) -> bool:
    """Return whether other code than the function of the wrap has the model: it is not a local one, or leaves it."""
    target, function = target_of(wrap), function_above(wrap.file, wrap.call)
    if function is None or not isinstance(target, ast.Name):
        return True
    names = (node for node in walk(*function.body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    above = [wrap.file.above(name) for name in names if name.id == target.id]
    return any(isinstance(next(each for each in nodes if not isinstance(each, _HOLDING)), _LEAVING) for nodes in above)


def is_without_gradients(file: ParsedFile, node: ast.AST) -> bool:
    """Return whether a node is under `with torch.no_grad():`, or in a function that it decorates."""
    held = (
        expression
        for part in file.above(node)
        for expression in (
            [item.context_expr for item in part.items]
            if isinstance(part, WITHS)
            else getattr(part, "decorator_list", [])
        )
    )
    return any(_turns_gradients_off(file, expression) for expression in held)


def _turns_gradients_off(file: ParsedFile, expression: ast.expr) -> bool:
    """Return whether it is `torch.no_grad()`, without its call too, or `torch.set_grad_enabled(False)`."""
    function = expression.func if isinstance(expression, ast.Call) else expression
    name = file.qualified(function)
    if name == "torch.set_grad_enabled" and isinstance(expression, ast.Call):
        return [file.code(each) for each in expression.args] == ["False"]
    return name in _WITHOUT_GRADIENTS


def is_only_called_without_gradients(wrap: Wrap) -> bool:
    """Return whether the model is a local variable that is only called where no gradients are computed."""
    file, target = wrap.file, target_of(wrap)
    if not isinstance(target, ast.Name) or not _MAY_TURN_OFF.search(file.text):
        return False
    name = Place(file, target)
    loads = [use for use in file.nodes(ast.Name) if use.id == target.id and isinstance(use.ctx, ast.Load)]
    uses = [use for use in loads if same_name(name, use) and wrap.call not in file.above(use)]
    calls = [above for use in uses if isinstance(above := file.parents[use], ast.Call) and above.func is use]
    others = [use for use in uses if not isinstance(above := file.parents[use], ast.Attribute) and above not in calls]
    is_shown = bool(calls) and not others and all(is_without_gradients(file, call) for call in calls)
    return is_shown and not escapes(wrap)


def is_stored(wrap: Wrap) -> bool:
    """Return whether the model is put where its uses are not followed: `self.nets[name] = net`, `nets.append(net)`."""
    file, target = wrap.file, target_of(wrap)
    if isinstance(target, ast.Subscript):
        return True
    function = function_above(file, wrap.call)
    if function is None or not isinstance(target, ast.Name):
        return False
    return any(_stores(file, node, target.id) for node in walk(*function.body))


def _stores(file: ParsedFile, node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Assign):
        return file.code(node.value) == name and any(isinstance(each, ast.Subscript) for each in node.targets)
    if not isinstance(node, ast.Call) or last_name(node.func) not in _STORING:
        return False
    return any(file.code(argument_value(given)) == name for given in arguments(node))


def _with_move(file: ParsedFile, call: ast.Call) -> ast.Call:
    attribute = file.parents[call]
    moved = file.call_of(attribute) if isinstance(attribute, ast.Attribute) else None
    return moved if moved is not None and is_move(file.names, moved) else call


def distributed(wrap: Wrap, stays: bool, twice: bool, single_process: Text | None) -> Iterator[Step]:
    """The wrap in DistributedDataParallel. The module is on its device before it is wrapped, whatever comes after.
    `single_process` is the model where there is no process group; None where the wrap is not come to without one."""
    file = wrap.file
    ddp, torch = spell_distributed(file, wrap.call.func, stays), spelling(file, "torch")
    yield from ((file, edit) for edit in (*ddp.edits, *torch.edits))
    options = "device_ids=[{torch}.npu.current_device()]" + (", broadcast_buffers=False" if twice else "")
    text = _respelled(wrap, ddp.name, code(options, torch=torch.name))
    either = None
    if single_process is not None:
        dist = spelling(file, "torch.distributed")
        yield from ((file, edit) for edit in dist.edits)
        is_loose = file.parents[wrap.whole] is file.statement(wrap.whole)  # model = ...
        template = "{made} if {group} else {other}" if is_loose else "({made} if {group} else {other})"
        either = code(template, made=text, group=in_group(dist.name), other=single_process)
    yield file, GroupEdit(file.bounds(wrap.whole), text, RULE, _MESSAGE, needs=NPU, single_process=either)


def retained_name(wrap: Wrap) -> Iterator[Step]:
    """A part that was wrapped stays under the name `module`, for the sake of checkpoints, while the whole model is
    wrapped in DistributedDataParallel."""
    file = wrap.file
    function = wrap.call.func
    if isinstance(function, ast.Attribute) and file.qualified(function.value) == "torch.nn":
        sequential = Spelling(f"{file.code(function.value)}.Sequential")
    else:
        sequential = spelling(file, "torch.nn.Sequential")
    ordered = spelling(file, "collections.OrderedDict")
    yield from ((file, edit) for edit in (*sequential.edits, *ordered.edits))
    names = {"sequential": sequential.name, "ordered": ordered.name}
    text = code("{sequential}({ordered}(module={module}))", **names, module=file.bounds(wrap.module))
    yield replaced(file, wrap.whole, text, "The whole model is wrapped; this keeps the names in its state dict.")


def _respelled(wrap: Wrap, name: str, options: Text) -> Text:
    """The call under another name, with options in place of all arguments but the module. What is between arguments
    stays, of those that go the comments before them."""
    file, given = wrap.file, arguments(wrap.call)
    spans = argument_bounds(file, wrap.call) or [file.bounds(each) for each in given]
    others = [each for each in given if argument_value(each) is not wrap.module]
    parts: list[Text] = [plain(name)]
    start, last = outer_bounds(file, wrap.call.func)[1], file.bounds(wrap.call)[1]
    is_comment = False
    for each, (begin, end) in zip(given, spans, strict=True):
        before = file.text[start:begin]
        if each not in others:
            module = operand(file, wrap.module)
            before = file.text[start : module.bounds[0]]
            parts += [plain(_below(wrap, before) if is_comment else before), _moved(wrap, module)]
            is_comment = False
        elif each is others[0]:
            parts += [plain(before), options]
        elif "#" in before:
            before = before.removeprefix(",") if is_comment else before
            parts, is_comment = [*parts, plain(before.rstrip())], True
        start = end
    parts += [] if others else [code(", {options}", options=options)]
    behind = file.text[start:last]
    return followed(*parts, plain(_below(wrap, behind) if is_comment else behind))


def _below(wrap: Wrap, text: str) -> str:
    """The text that follows a comment which ends a line, without the comma that was before it."""
    file, rest = wrap.file, text.removeprefix(",")
    if rest.lstrip(" ").startswith(("#", "\n", "\r")):
        return rest
    indent = indentation(file.text, file.bounds(file.statement(wrap.call))[0])
    return f"{newline_of(file.text)}{indent}{rest.lstrip(' ')}"


def _moved(wrap: Wrap, module: Operand) -> Text:
    """The module, on the card of this process before it is wrapped."""
    if wrap.whole is not wrap.call:
        model = code("{model}" if module.is_whole else "({model})", model=module.bounds)
        return followed(model, (wrap.file.bounds(wrap.call)[1], wrap.file.bounds(wrap.whole)[1]))
    return code("{model}" if _is_on_device(wrap) else "{model}.npu()", model=module)


def _is_on_device(wrap: Wrap) -> bool:
    """Return whether the module is moved to a device in the wrap, or by a statement that always runs before it."""
    file = wrap.file
    if is_move(file.names, wrap.module):
        return True
    above = {wrap.file.statement(wrap.call), *file.above(wrap.call)}
    start, _ = file.bounds(wrap.call)
    for node in file.nodes(ast.Call):
        if is_move(file.names, node) and file.bounds(node)[1] <= start and _moves(file, node, wrap.module_code):
            block = file.block(file.statement(node))
            if any(statement in above for statement in block):
                return True
    return False


def _moves(file: ParsedFile, move: ast.Call, module: str) -> bool:
    """Return whether `m.cuda()`, or `m = f(x).cuda()`, moves the module."""
    if isinstance(move.func, ast.Attribute) and file.code(move.func.value) == module:
        return True
    assignment = file.parents[move]
    return isinstance(assignment, ast.Assign) and any(file.code(target) == module for target in assignment.targets)
