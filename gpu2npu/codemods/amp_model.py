"""`-a MODEL`: the training loop of a model becomes one of automatic mixed precision.

The forward pass and the loss run under autocast, gradients are scaled for the backward pass, and the optimizer steps
through the scaler, which unscales them before they are clipped. What the program does each N batches it still does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from gpu2npu.codemods.choice import Codemod, CodemodChoice, Option
from gpu2npu.codemods.places import NPU, Step, by_file, inserted, is_skipped, of_rule, replaced, reported
from gpu2npu.codemods.program.entries import Entry, calls_in, find_entries
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.program.model_uses import ModelUses
from gpu2npu.codemods.spellings import first_code, line_end, spelling, top_imports
from gpu2npu.python.meaning.types import ValueTypes
from gpu2npu.python.text.blocks import begins_line, is_elif, lines_of, same_line, start_of
from gpu2npu.python.text.templates import code, followed, lines_above, lines_at, lines_instead, plain
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import elements, last_name
from gpu2npu.records import Edit, FileRewrite, FindingKind, NewText

RULE = "amp-model"
_MESSAGE = "The model is trained with automatic mixed precision."
_MIXED = frozenset({"autocast", "GradScaler", "autocast_mode"})
_OPTIMIZER = re.compile(r"torch\.optim\.(?!lr_scheduler|swa_utils)")
_CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"})
_BY_HAND = (
    "{reason}: write `with torch.npu.amp.autocast():` around the forward pass and the loss, "
    "`scaler.scale(loss).backward()`, `scaler.unscale_(optimizer)` before gradients are clipped, and "
    "`scaler.step(optimizer)` and `scaler.update()`, with one `scaler = torch.npu.amp.GradScaler()` above the loop."
)
CODEMOD = Codemod(
    "amp_model",
    option=Option(
        ("-a", "--amp_model", "--amp-model"),
        "Train the model in the variable MODEL, such as net or self.model, with automatic mixed precision.",
        "MODEL",
    ),
    missing="No loop that trains the model '{given}' was found; give -a/--amp_model the variable that is called in "
    "the forward pass, such as net or self.model.",
    precedence=20,
)


class Backward(Struct, frozen=True, eq=False):
    """`loss.backward()` in a block: the statements of its forward pass, and the steps of the optimizer after it."""

    file: ParsedFile
    call: ast.Call
    forward: tuple[ast.stmt, ...]
    steps: tuple[ast.Call, ...]
    clips: tuple[ast.Call, ...]


def amp_model(program: TrainingProgram, choice: CodemodChoice) -> dict[str, FileRewrite] | None:
    """Rewrite the loop that trains the model of the option; None if there is none."""
    training = {file.path for file in program.with_word(rb"\.backward\b", b".backward")}
    entries = find_entries(program, training)
    found = list(_backwards(program, entries, choice.options["amp_model"]))
    if not found:
        return None
    steps: list[Step] = []
    for backward in found:
        of_file = [other.call for other in found if other.file is backward.file]
        steps += _rewritten(backward, of_file)
    return of_rule(RULE, by_file(steps))


def _backwards(program: TrainingProgram, entries: Iterable[Entry], target: str) -> Iterator[Backward]:
    """The backward passes of the model, each once."""
    seen: set[ast.Call] = set()
    for entry in entries:
        calls = list(model_calls(program, entry, target))
        for file, call in entry.running(_backward_calls):
            if call in seen:
                continue
            forward = forward_of(file, call, [node for other, node in calls if other is file])
            if forward:
                seen.add(call)
                yield Backward(file, call, forward, *steps_after(file, call))


def _backward_calls(file: ParsedFile) -> list[ast.Call]:
    return [
        call for call in file.nodes(ast.Call) if isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
    ]


def model_calls(program: TrainingProgram, entry: Entry, target: str) -> Iterator[tuple[ParsedFile, ast.Call]]:
    """The calls of the model, wherever the program has it: `model(x)`."""
    uses = ModelUses(program, entry.files)
    for file in entry.files.values():
        assigns: list[ast.Assign | ast.AnnAssign] = [*file.nodes(ast.Assign), *file.nodes(ast.AnnAssign)]
        for assign in sorted(assigns, key=file.bounds):
            targets = assign.targets if isinstance(assign, ast.Assign) else [assign.target]
            if target not in {file.code(part) for each in targets for part in (each, *elements(each))}:
                continue
            for other, use in uses.of(file, assign, target):
                call = other.call_of(use)
                if call is not None:
                    yield other, call


def forward_of(file: ParsedFile, backward: ast.Call, calls: list[ast.Call]) -> tuple[ast.stmt, ...]:
    """The statements from the first that calls the model to the last above `backward`, or above the `if` around it, but
    for `optimizer.zero_grad()` at their end."""
    holding = {part for call in calls for part in file.above(call)}
    statement = file.statement(backward)
    while True:
        block, index = _in_block(file, statement)
        while index and isinstance(last := block[index - 1], ast.Expr) and last_name(last.value) == "zero_grad":
            index -= 1
        for position, other in enumerate(block[:index]):
            if other in holding:
                return tuple(block[position:index])
        owner = file.parents[block[index]]
        if not isinstance(owner, ast.If) or block is not owner.body:
            return ()
        statement = owner


def _in_block(file: ParsedFile, statement: ast.stmt) -> tuple[Sequence[ast.stmt], int]:
    """The statements of the block that a statement is in, and its index; an `elif` is in the block of its `if`."""
    while is_elif(file, statement):
        statement = file.statement(file.parents[statement])
    block = file.block(statement)
    return block, next(index for index, part in enumerate(block) if part is statement)


def steps_after(file: ParsedFile, backward: ast.Call) -> tuple[tuple[ast.Call, ...], tuple[ast.Call, ...]]:
    """The steps of an optimizer below the backward pass in its block, and the clipping of gradients before them."""
    block, index = _in_block(file, file.statement(backward))
    calls = [call for call in calls_in(*block[index + 1 :]) if isinstance(call.func, ast.Attribute)]
    steps = tuple(call for call in calls if _is_step(file, call))
    clips = tuple(call for call in calls if last_name(call.func) in _CLIPS)
    return steps, clips


def _is_step(file: ParsedFile, call: ast.Call) -> bool:
    """`optimizer.step()`, not that of a scheduler or of a profiler; a name decides only where nothing else does."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr != "step":
        return False
    owner = call.func.value
    name = file.code(owner).lower()
    is_named = "opt" in name or name.split(".")[-1] in {"optim", "sgd", "adam"}
    made = (each for each in ValueTypes(file.names).of(owner, file.scope_of(owner)) if isinstance(each, str))
    return is_named or any(_OPTIMIZER.match(each) for each in made)


def _rewritten(found: Backward, of_file: Iterable[ast.Call]) -> Iterator[Step]:
    file, call = found.file, found.call
    reason = _obstacle(found)
    if reason is not None:
        yield reported(file, call, "backward", _BY_HAND.format(reason=reason), FindingKind.REVIEW)
        return
    if is_skipped(file, call):
        return
    assert isinstance(call.func, ast.Attribute)
    torch = spelling(file, "torch")
    yield from ((file, edit) for edit in torch.edits)
    yield from _split_lines(found)
    scaler = scaler_name(file)
    yield make_scaler(file, code("{scaler} = {torch}.npu.amp.GradScaler()", scaler=scaler, torch=torch.name), of_file)
    loss = call.func.value
    yield replaced(file, loss, code("{scaler}.scale({loss})", scaler=scaler, loss=file.bounds(loss)), _MESSAGE)
    yield from scaled_steps(found, scaler, torch.name)


def scaled_steps(found: Backward, scaler: str, torch: str) -> Iterator[Step]:
    """The forward pass under autocast; the optimizer steps through the scaler, which unscales before clipping."""
    file = found.file
    yield from _autocast(file, found.forward, code("with {torch}.npu.amp.autocast():", torch=torch))
    for step in found.steps:
        assert isinstance(step.func, ast.Attribute)
        at = file.bounds(step)[0]
        made = code("{scaler}.step({optimizer})", scaler=scaler, optimizer=file.bounds(step.func.value))
        yield replaced(file, step, lines_instead(file, at, made, code("{scaler}.update()", scaler=scaler)), _MESSAGE)
        clipping = _clipping(found, step)
        if clipping:
            at = file.bounds(clipping[0])[0]
            line = code("{scaler}.unscale_({optimizer})", scaler=scaler, optimizer=file.code(step.func.value))
            yield inserted(file, at, lines_above(file, at, [line]), _MESSAGE)


def _clipping(found: Backward, step: ast.Call) -> list[ast.stmt]:
    """The statements above a step of the optimizer, in its block, that clip gradients."""
    block, index = _in_block(found.file, found.file.statement(step))
    return [each for each in block[:index] if not set(found.clips).isdisjoint(calls_in(each))]


def clipping_obstacle(found: Backward) -> str | None:
    """The reason why clipping is left to the author: gradients are unscaled once for each step of the optimizer."""
    clipping = [each for step in found.steps for each in _clipping(found, step)]
    if set(found.clips) <= set(calls_in(*clipping)):
        return None
    return "Gradients are clipped in another block than that of the optimizer's step"


def _split_lines(found: Backward) -> Iterator[Step]:
    """`opt.zero_grad(); loss.backward(); opt.step()` becomes three lines, those of the forward pass further right."""
    file = found.file
    lines: dict[ast.stmt, list[ast.stmt]] = {}
    for call in (found.call, *found.steps, *found.clips):
        line = same_line(file, file.statement(call))
        lines[line[0]] = line
    for line in lines.values():
        indent = lines_above(file, file.bounds(line[0])[0], [plain("")])
        for first, second in pairwise(line):
            yield file, Edit((file.bounds(first)[1], start_of(file, second)), indent, RULE, _MESSAGE)


def _obstacle(found: Backward) -> str | None:
    """Return the reason why a loop is left to its author; None if it is rewritten."""
    file, call = found.file, found.call
    if _has_mixed_precision(file):
        return "This file has mixed precision of its own, which is kept"
    if not found.steps:
        return "No `optimizer.step()` was found below this backward pass in its block"
    if any(step.args or step.keywords for step in found.steps):
        return "The optimizer steps through a closure, which a GradScaler cannot do"
    if len({file.code(step.func) for step in found.steps}) > 1:
        return "Several optimizers step after this backward pass"
    if any(not _is_whole(file, node) for node in (call, *found.steps, *found.clips)):
        return "The result of a call is used here, or it shares a line with the head of its block"
    if _is_given_loss(found):
        return "The loss is passed to another object's backward pass"
    if any(last_name(node.func) == "backward" for node in calls_in(*found.forward)):
        return "There is more than one backward pass in this block"
    return clipping_obstacle(found)


def _is_given_loss(found: Backward) -> bool:
    """`accelerator.backward(loss)`, `torch.autograd.backward(loss)`, not `loss.backward(gradient)`."""
    file, call = found.file, found.call
    owner = call.func.value if call.args and isinstance(call.func, ast.Attribute) else None
    stored = {file.code(node) for node in walk(*found.forward) if isinstance(getattr(node, "ctx", None), ast.Store)}
    while isinstance(owner, ast.Attribute) and file.code(owner) not in stored:
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id not in stored


def _has_mixed_precision(file: ParsedFile) -> bool:
    imported = {name for alias in file.nodes(ast.alias) for name in (alias.name.rpartition(".")[2], alias.asname)}
    used = {last_name(node) for node in (*file.nodes(ast.Name), *file.nodes(ast.Attribute))}
    return not _MIXED.isdisjoint(imported | used)


def _is_whole(file: ParsedFile, call: ast.Call) -> bool:
    """Return whether a call is all of a statement, on lines of its block's own; a clipping's value may be used."""
    statement = file.statement(call)
    line = same_line(file, statement)
    if not begins_line(file, line[0]) or "#" in file.text[file.bounds(line[0])[0] : file.bounds(line[-1])[1]]:
        return False
    return isinstance(statement, ast.Expr) or (last_name(call.func) in _CLIPS and isinstance(statement, ast.Assign))


def scaler_name(file: ParsedFile) -> str:
    taken = any("scaler" in scope.bindings for scope in file.scopes.values())
    return "grad_scaler" if taken else "scaler"


def make_scaler(file: ParsedFile, line: NewText, uses: Iterable[ast.AST]) -> Step:
    """Below the imports that are above its uses: every function of the file has it then."""
    above = top_imports(file, min(file.bounds(use)[0] for use in uses))
    at = line_end(file, above[-1]) if above else first_code(file)
    blank = [] if file.text[at : at + 1] in {"\n", "\r", ""} else [plain("")]
    return inserted(file, at, lines_at(file, at, "", [plain(""), line, *blank]), _MESSAGE, NPU)


def _autocast(file: ParsedFile, statements: tuple[ast.stmt, ...], head: NewText) -> Iterator[Step]:
    whole = lines_of(file, statements)
    yield file, Edit(whole, followed(head, whole), RULE, _MESSAGE, needs=NPU, is_block=True)
