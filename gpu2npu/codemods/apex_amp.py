"""apex's amp becomes PyTorch's: `amp.initialize`, `amp.scale_loss`, `amp.master_params` and `amp.state_dict`.

A file is rewritten where all of it is seen: one `initialize` with a level that is written out, and backward passes
below the calls of the model. What apex's O1 and O2 do is what autocast and a GradScaler do: weights and optimizer are
float32, and the scale is 65536 at first, halved on an overflow and doubled after 2000 steps without one
(apex/amp/frontend.py and scaler.py, torch/amp/grad_scaler.py). Everything else is reported, with its lines.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct

from gpu2npu.codemods.amp_model import (
    Backward,
    clipping_obstacle,
    forward_of,
    make_scaler,
    model_calls,
    scaled_steps,
    scaler_name,
    steps_after,
)
from gpu2npu.codemods.choice import Codemod, CodemodChoice
from gpu2npu.codemods.places import NPU, Step, by_file, inserted, is_skipped, of_rule, replaced, reported, span_removed
from gpu2npu.codemods.program.entries import find_entries
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.spellings import line_end, spelling
from gpu2npu.python.project.imports import files_naming
from gpu2npu.python.text.blocks import begins_line, line_start
from gpu2npu.python.text.offsets import indentation
from gpu2npu.python.text.templates import code, lines_at
from gpu2npu.python.tree.place import function_above
from gpu2npu.python.tree.syntax import Import, argument_of, elements, string_value
from gpu2npu.records import FileRewrite, FindingKind

RULE = "apex-amp"
_AMP = "apex.amp"
_MESSAGE = "PyTorch has automatic mixed precision itself; torch_npu has it as torch.npu.amp."
_STATE = "The state is that of PyTorch's scaler: one that apex wrote is not read."
_STATIC = "apex leaves a loss scale that is a number as it is; PyTorch's scaler halves it where a gradient overflows."
_LEVELS = frozenset({"O1", "O2"})
_KNOWN = frozenset({"opt_level", "loss_scale", "keep_batchnorm_fp32", "verbosity", "enabled"})
_BY_HAND = (
    "{reason}: write `with torch.npu.amp.autocast():` around the forward pass and the loss, `scaler = "
    "torch.npu.amp.GradScaler()` for this, `scaler.scale(loss).backward()`, and `scaler.step(optimizer)` and "
    "`scaler.update()` for the step{lines}."
)
CODEMOD = Codemod("apex_amp", rule="apex-amp", names=frozenset({_AMP}), precedence=30)


class _Uses(Struct, frozen=True, eq=False):
    """The uses of apex's amp in a file, by the name below `apex.amp`, and the imports of it."""

    file: ParsedFile
    calls: dict[str, list[ast.Call]]
    imports: list[Import]
    others: list[ast.AST]

    @classmethod
    def of(cls, file: ParsedFile) -> _Uses:
        """Find them; what is not a call of a function of `apex.amp` is among the others."""
        uses = cls(file, {}, [], [])
        for node, _ in file.uses:
            whole: ast.AST = node
            while isinstance(parent := file.parents[whole], ast.Attribute):
                if (file.qualified(whole) or "") == _AMP:
                    break
                whole = parent
            inner = file.parents[whole] if isinstance(file.parents[whole], ast.Attribute) else whole
            name = file.qualified(inner) or ""
            if name.startswith(f"{_AMP}.") or name == _AMP:
                call = file.call_of(inner)
                if call is None:
                    uses.others.append(inner)
                else:
                    uses.calls.setdefault(name.removeprefix(f"{_AMP}."), []).append(call)
        statements: list[Import] = [*file.nodes(ast.ImportFrom), *file.nodes(ast.Import)]
        for statement in statements:
            names = [f"{getattr(statement, 'module', None) or ''}.{each.name}".strip(".") for each in statement.names]
            if any(f"{name}.".startswith(f"{_AMP}.") for name in names):
                uses.imports.append(statement)
                uses.others.extend([statement] if len(names) > 1 else [])
        return uses

    def made(self) -> ast.Assign | None:
        """`net, optimizer = amp.initialize(net, optimizer, ...)`, if it is the only one and names are as before."""
        calls = self.calls.get("initialize", [])
        statement = self.file.parents[calls[0]] if len(calls) == 1 else None
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        given = list(map(self.file.code, calls[0].args))
        return statement if _names(self.file, statement) == given else None


def apex_amp(program: TrainingProgram, choice: CodemodChoice) -> dict[str, FileRewrite]:
    """Rewrite each file whose loop of apex's mixed precision is seen whole, and report the others."""
    if not any(b"apex" in source for source in program.sources.values()):
        return {}
    files = list(program.parsed(files_naming(program, CODEMOD.names)))
    found = [uses for uses in map(_Uses.of, files) if uses.calls or uses.others]
    steps: list[Step] = []
    for uses in found:
        made = uses.made()
        backwards = list(_backwards(program, uses, made)) if made is not None else []
        reason = _obstacle(uses, made, backwards, len(found))
        if reason is None and made is not None:
            if not is_skipped(uses.file, made, RULE):
                steps += _rewritten(uses, made, backwards)
        else:
            steps += _reported(found, uses, reason or "")
    return of_rule(RULE, by_file(steps))


def _backwards(program: TrainingProgram, uses: _Uses, made: ast.Assign) -> Iterator[Backward]:
    """The backward passes of the model that apex made, in its own file, each once."""
    file, model = uses.file, _names(uses.file, made)[0]
    entries = find_entries(program, [file.path])
    calls = {call: None for entry in entries for other, call in model_calls(program, entry, model) if other is file}
    for scaled in uses.calls.get("scale_loss", []):
        forward = forward_of(file, scaled, list(calls))
        if forward:
            yield Backward(file, scaled, forward, *steps_after(file, scaled))


def _names(file: ParsedFile, made: ast.Assign) -> list[str]:
    """The variables in `model, optimizer = amp.initialize(...)`."""
    target = made.targets[0]
    return list(map(file.code, elements(target) or [target]))


def _obstacle(uses: _Uses, made: ast.Assign | None, backwards: Sequence[Backward], files: int) -> str | None:
    """Return the reason why a file is left to its author; None if it is rewritten."""
    file, scaled = uses.file, uses.calls.get("scale_loss", [])
    if files > 1 and (made is None or not scaled):
        return "apex's amp is used in several files"
    if made is None or not isinstance(made.value, ast.Call):
        return "No `model, optimizer = amp.initialize(model, optimizer, ...)` was found alone in this file"
    level = argument_of(made.value, "opt_level")
    if level is not None and string_value(level) not in _LEVELS:
        return "The level is not written as O1 or O2"
    if any(each.arg not in _KNOWN for each in made.value.keywords) or _scale(file, made.value) is None:
        return "An argument of amp.initialize has no counterpart"
    unknown = sorted(set(uses.calls) - {"initialize", "scale_loss", "master_params", "state_dict", "load_state_dict"})
    if unknown or uses.others:
        return f"amp.{unknown[0]} has no counterpart" if unknown else "apex's amp is passed on, or imported with others"
    if len(backwards) != len(scaled) or not scaled:
        return "No call of the model was found above a backward pass"
    if any(_is_chosen(file, node) for node in (made, *scaled)):
        return "Mixed precision is used under a condition"
    if any(_scaled_backward(file, call) is None for call in scaled):
        return "`with amp.scale_loss(loss, optimizer) as scaled:` holds more than the backward pass"
    if any(not each.steps or any(step.args or step.keywords for step in each.steps) for each in backwards):
        return "No plain `optimizer.step()` was found below a backward pass in its block"
    return next(filter(None, map(clipping_obstacle, backwards)), None)


def _scale(file: ParsedFile, call: ast.Call) -> str | None:
    """The arguments of the scaler for apex's `loss_scale`; None where it is not written out."""
    scale = argument_of(call, "loss_scale")
    if scale is None or string_value(scale) == "dynamic" or file.code(scale) == "None":
        return ""
    if not isinstance(scale, ast.Constant):
        return None
    try:
        number = float(scale.value if isinstance(scale.value, str) else file.code(scale))
    except ValueError:
        return None
    return "enabled=False" if number == 1 else f"init_scale={number}, growth_interval=2**31 - 1"


def _is_chosen(file: ParsedFile, node: ast.AST) -> bool:
    """Return whether a statement runs under a condition in its function."""
    return any(isinstance(each, ast.If) and "__name__" not in file.code(each.test) for each in file.within(node))


def _scaled_backward(file: ParsedFile, call: ast.Call) -> ast.Call | None:
    """`scaled_loss.backward()`, where it is all that a `with amp.scale_loss(...) as scaled_loss:` does."""
    statement = file.statement(call)
    if not isinstance(statement, ast.With) or len(statement.items) != 1 or len(statement.body) != 1:
        return None
    only, name = statement.body[0], statement.items[0].optional_vars
    backward = only.value if isinstance(only, ast.Expr) else None
    if not isinstance(backward, ast.Call) or not isinstance(backward.func, ast.Attribute) or len(call.args) != 2:
        return None
    is_of_it = name is not None and file.code(backward.func.value) == file.code(name)
    has_line = not call.keywords and "#" not in file.text[slice(*file.bounds(statement))] and begins_line(file, only)
    return backward if is_of_it and backward.func.attr == "backward" and has_line else None


def _rewritten(uses: _Uses, made: ast.Assign, backwards: Sequence[Backward]) -> Iterator[Step]:
    file = uses.file
    assert isinstance(made.value, ast.Call)
    torch, scaler = spelling(file, "torch"), scaler_name(file)
    yield from ((file, edit) for edit in torch.edits)
    scale = _scale(file, made.value) or ""
    line = code("{scaler} = {torch}.npu.amp.GradScaler({scale})", scaler=scaler, torch=torch.name, scale=scale)
    if scale.startswith("init_scale"):
        yield reported(file, made.value, "apex.amp.initialize", _STATIC, FindingKind.REVIEW)
    everywhere = [call for calls in uses.calls.values() for call in calls]
    if len({function_above(file, call) for call in everywhere}) == 1:
        yield replaced(file, made, line, _MESSAGE, NPU)
    else:
        yield make_scaler(file, line, everywhere)
        yield _removed(file, made)
    for found in backwards:
        yield from scaled_steps(found, scaler, torch.name)
        backward = _scaled_backward(file, found.call)
        assert backward is not None and isinstance(backward.func, ast.Attribute)
        whole = file.statement(found.call)
        start, given = file.bounds(whole)[0], file.text[slice(file.bounds(backward.func)[1], file.bounds(backward)[1])]
        template, loss = "{scaler}.scale({loss}).backward{given}", file.code(found.call.args[0])
        line = code(template, scaler=scaler, loss=loss, given=given)
        at = line_start(file, start)
        yield inserted(file, at, lines_at(file, at, indentation(file.text, start), [line]), _MESSAGE)
        yield span_removed(file, at, line_end(file, whole), _MESSAGE)
    for call in uses.calls.get("master_params", []):
        optimizer = file.code(call.args[0])
        template = "[p for g in {optimizer}.param_groups for p in g['params']]"
        yield replaced(file, call, code(template, optimizer=optimizer), _MESSAGE)
    for name in ("state_dict", "load_state_dict"):
        for call in uses.calls.get(name, []):
            yield replaced(file, call.func, code("{scaler}.{name}", scaler=scaler, name=name), _STATE)
    for statement in uses.imports:
        above = file.parents[statement]
        is_tried = isinstance(above, ast.Try) and len(above.body) == 1 and not above.orelse and not above.finalbody
        yield _removed(file, above if is_tried else statement)


def _removed(file: ParsedFile, statement: ast.AST) -> Step:
    """A statement taken out with its lines, or `pass` for the only one of a block."""
    assert isinstance(statement, ast.stmt)
    if len(file.block(statement)) == 1 or not begins_line(file, statement):
        return replaced(file, statement, code("pass"), _MESSAGE)
    return span_removed(file, line_start(file, file.bounds(statement)[0]), line_end(file, statement), _MESSAGE)


def _reported(found: Sequence[_Uses], uses: _Uses, reason: str) -> Iterator[Step]:
    """The call that makes mixed precision, or else the first use in a file, with the lines of the other uses."""
    file = uses.file
    lines = [
        f"{each.file.path}:{each.file.span(call).start_line}"
        for each in found
        for call in each.calls.get("scale_loss", [])
    ]
    places = uses.calls.get("initialize") or next(iter(uses.calls.values()), uses.others)
    where = f" ({', '.join(lines)})" if lines else ""
    yield reported(file, places[0], "apex.amp", _BY_HAND.format(reason=reason, lines=where), FindingKind.REVIEW)
