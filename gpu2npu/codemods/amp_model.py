"""`-a MODEL`: the training loop of a model becomes one of automatic mixed precision.

The forward pass and the loss run under autocast, gradients are scaled for the backward pass, and the optimizer steps
through the scaler, which unscales them before they are clipped. What the program does each N batches it still does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from gpu2npu.codemods.choice import CodemodChoice, CodemodError
from gpu2npu.codemods.entry import Entry, calls_in, find_entries, nodes_of
from gpu2npu.codemods.imports import line_end, spelling
from gpu2npu.codemods.model_uses import ModelUses
from gpu2npu.codemods.places import Step, above, by_file, inserted, is_skipped, of_rule, replaced, reported
from gpu2npu.codemods.program import ParsedFile, Program
from gpu2npu.codemods.rewriting import indentation, lines_to_indent
from gpu2npu.engine.tree import last_name
from gpu2npu.records import FileRewrite, FindingKind

RULE = "amp-model"
_MESSAGE = "The model is trained with automatic mixed precision."
_MIXED = frozenset({"autocast", "GradScaler", "autocast_mode"})
_CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"})
_BY_HAND = (
    "{reason}: write `with torch.npu.amp.autocast():` around the forward pass and the loss, "
    "`scaler.scale(loss).backward()`, `scaler.unscale_(optimizer)` before gradients are clipped, and "
    "`scaler.step(optimizer)` and `scaler.update()`, with one `scaler = torch.npu.amp.GradScaler()` above the loop."
)


@dataclass(frozen=True, eq=False)
class _Backward:
    """`loss.backward()` in a block: the statements of its forward pass, and the steps of the optimizer after it."""

    file: ParsedFile
    call: cst.Call
    forward: tuple[cst.CSTNode, ...]
    steps: tuple[cst.Call, ...]
    clips: tuple[cst.Call, ...]


def amp_model(program: Program, choice: CodemodChoice) -> dict[str, FileRewrite]:
    """Rewrite the loop that trains `choice.amp_model`. Raises CodemodError if there is none."""
    target = choice.amp_model
    if target is None:
        return {}
    training = {file.path for file in program.with_word(rb"\.backward\b")}
    entries = find_entries(program, training)
    found = list(_backwards(program, entries, target))
    if not found:
        raise CodemodError(
            f"No loop that trains the model '{target}' was found; give -a/--amp_model the variable that is called in "
            "the forward pass, such as net or self.model."
        )
    steps: list[Step] = []
    for backward in found:
        steps += _rewritten(backward)
    return of_rule(RULE, by_file(steps))


def _backwards(program: Program, entries: Iterable[Entry], target: str) -> Iterator[_Backward]:
    """The backward passes of the model, each once."""
    seen: set[int] = set()
    for entry in entries:
        calls = list(_model_calls(program, entry, target))
        for file, call in entry.running(cst.Call):
            assert isinstance(call, cst.Call)
            if id(call) in seen or not isinstance(call.func, cst.Attribute) or call.func.attr.value != "backward":
                continue
            forward = _forward(file, call, [node for other, node in calls if other is file])
            if forward:
                seen.add(id(call))
                yield _Backward(file, call, forward, *_after(file, call))


def _model_calls(program: Program, entry: Entry, target: str) -> Iterator[tuple[ParsedFile, cst.Call]]:
    """The calls of the model, wherever the program has it: `model(x)`."""
    uses = ModelUses(program, entry)
    for file in entry.files.values():
        for assign in nodes_of(file, cst.Assign, cst.AnnAssign):
            targets = [part.target for part in assign.targets] if isinstance(assign, cst.Assign) else [assign.target]
            if target not in map(file.code, targets):
                continue
            for other, use in uses.of(file, assign, target):
                call = other.parents[id(use)]
                if isinstance(call, cst.Call) and call.func is use:
                    yield other, call


def _forward(file: ParsedFile, backward: cst.Call, calls: list[cst.Call]) -> tuple[cst.CSTNode, ...]:
    """The statements from the first that calls the model to the last above `backward`, or above the `if` around it."""
    node: cst.CSTNode = backward
    while True:
        block, index = _in_block(file, node)
        for position, statement in enumerate(block[:index]):
            if any(statement in above(file, call) or statement is call for call in calls):
                return tuple(block[position:index])
        around = file.parents.get(id(file.parents[id(block[index])])) if block else None
        if not isinstance(around, cst.If):
            return ()
        node = around


def _in_block(file: ParsedFile, node: cst.CSTNode) -> tuple[list[cst.CSTNode], int]:
    """The statements of the innermost block around a node, and the index of the one that holds it."""
    below = node
    for part in above(file, node):
        if isinstance(part, (cst.IndentedBlock, cst.Module)):
            block: list[cst.CSTNode] = list(part.body)
            return block, next(index for index, statement in enumerate(block) if statement is below)
        below = part
    return [], 0


def _after(file: ParsedFile, backward: cst.Call) -> tuple[tuple[cst.Call, ...], tuple[cst.Call, ...]]:
    """The steps of an optimizer below the backward pass in its block, and the clipping of gradients before them."""
    block, index = _in_block(file, backward)
    calls = [call for part in block[index + 1 :] for call in calls_in(part) if isinstance(call.func, cst.Attribute)]
    steps = tuple(call for call in calls if _is_step(file, call))
    clips = tuple(call for call in calls if last_name(call.func) in _CLIPS)
    return steps, clips


def _is_step(file: ParsedFile, call: cst.Call) -> bool:
    """`optimizer.step()`, not that of a scheduler or of a profiler."""
    assert isinstance(call.func, cst.Attribute)
    owner = file.code(call.func.value).lower()
    return call.func.attr.value == "step" and ("opt" in owner or owner.split(".")[-1] in {"optim", "sgd", "adam"})


def _rewritten(found: _Backward) -> Iterator[Step]:
    file, call = found.file, found.call
    reason = _obstacle(found)
    if reason is not None:
        yield reported(file, call, "backward", _BY_HAND.format(reason=reason), FindingKind.REVIEW)
        return
    if is_skipped(file, call):
        return
    assert isinstance(call.func, cst.Attribute)
    torch = spelling(file, "torch")
    yield from ((file, edit) for edit in torch.edits)
    scaler = _scaler_name(file)
    yield _make_scaler(file, f"{scaler} = {torch.name}.cuda.amp.GradScaler()")
    yield from _autocast(file, found.forward, f"with {torch.name}.cuda.amp.autocast():")
    yield replaced(file, call.func.value, f"{scaler}.scale({file.code(call.func.value)})", _MESSAGE)
    for step in found.steps:
        assert isinstance(step.func, cst.Attribute)
        optimizer = file.code(step.func.value)
        at = file.positions.of(step)[0]
        below = f"{file.module.default_newline}{indentation(file, at)}{scaler}.update()"
        yield replaced(file, step, f"{scaler}.step({optimizer}){below}", _MESSAGE)
    if found.clips and found.steps:
        first = _statement(file, found.clips[0])
        at = file.positions.of(first)[0]
        optimizer = file.code(found.steps[0].func.value) if isinstance(found.steps[0].func, cst.Attribute) else ""
        line = f"{scaler}.unscale_({optimizer}){file.module.default_newline}{indentation(file, at)}"
        yield inserted(file, at, line, _MESSAGE)


def _obstacle(found: _Backward) -> str | None:
    """Why a loop is left to its author; None if it is rewritten."""
    file, call = found.file, found.call
    if any(last_name(node) in _MIXED for node in nodes_of(file, cst.Name, cst.Attribute)):
        return "This file has mixed precision of its own, which is kept"
    if not found.steps:
        return "No `optimizer.step()` was found below this backward pass in its block"
    if any(step.args for step in found.steps):
        return "The optimizer steps through a closure, which a GradScaler cannot do"
    if len({file.code(step.func) for step in found.steps}) > 1:
        return "Several optimizers step after this backward pass"
    if any(not _is_whole(file, node) for node in (call, *found.steps, *found.clips)):
        return "The result of a call is used here, or several statements share a line"
    if any(last_name(node.func) == "backward" for part in found.forward for node in calls_in(part)):
        return "There is more than one backward pass in this block"
    return None


def _is_whole(file: ParsedFile, call: cst.Call) -> bool:
    """Whether a call is all of a statement, on lines of its own; the value of a clipping may be used."""
    line = _statement(file, call)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return False
    statement = line.body[0]
    return isinstance(statement, cst.Expr) or (last_name(call.func) in _CLIPS and isinstance(statement, cst.Assign))


def _statement(file: ParsedFile, node: cst.CSTNode) -> cst.CSTNode:
    return next(part for part in above(file, node) if isinstance(part, cst.BaseStatement))


def _scaler_name(file: ParsedFile) -> str:
    taken = any("scaler" in scope.bindings for scope in file.names.scopes.by_node.values())
    return "grad_scaler" if taken else "scaler"


def _make_scaler(file: ParsedFile, line: str) -> Step:
    """Below the imports: every function of the file has it then."""
    newline = file.module.default_newline
    last = [
        part
        for statement in file.module.body
        if isinstance(statement, cst.SimpleStatementLine)
        for part in statement.body
        if isinstance(part, (cst.Import, cst.ImportFrom))
    ]
    at = line_end(file, last[-1]) if last else 0
    blank = "" if file.text[at : at + 1] in {"\n", "\r", ""} else newline
    return inserted(file, at, f"{newline}{line}{newline}{blank}", _MESSAGE)


def _autocast(file: ParsedFile, statements: tuple[cst.CSTNode, ...], head: str) -> Iterator[Step]:
    start = file.positions.of(statements[0])[0]
    deeper = file.module.default_indent
    yield inserted(file, start, f"{head}{file.module.default_newline}{indentation(file, start)}{deeper}", _MESSAGE)
    for line in lines_to_indent(file, statements):
        yield inserted(file, line, deeper, _MESSAGE)
