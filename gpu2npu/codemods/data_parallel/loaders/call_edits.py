"""The edits that make a DataLoader call share out its batches among the ranks."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from msgspec import Struct

from gpu2npu.codemods.data_parallel.loaders.dataset import can_be_moved, free_name, name_dataset
from gpu2npu.codemods.data_parallel.loaders.roles import Shared, new_parameter, where_there_is_a_group
from gpu2npu.codemods.places import Rewriting
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.program.group_condition import in_group, runs_without_group, world_size
from gpu2npu.codemods.program.loader_call import LoaderCall
from gpu2npu.codemods.spellings import spelling
from gpu2npu.python.text.blocks import line_start, line_statement, start_of
from gpu2npu.python.text.concrete import argument_bounds, outer_bounds
from gpu2npu.python.text.offsets import newline_of
from gpu2npu.python.text.templates import Operand, code, followed, lines_above, operand, plain
from gpu2npu.python.text.templates import call as new_call
from gpu2npu.python.tree.syntax import argument_value, arguments
from gpu2npu.records import Bounds, NewText, Text

SAMPLER = "torch.utils.data.DistributedSampler"
_SHARE = "Each rank takes its share of every batch of the training loader."
_LONG = 120  # characters in a line, beyond which the sampler gets one of its own


class _Terms(Struct, frozen=True):
    """The texts that a rewritten call is made of; `shuffle` is what stays of it in the call, if anything."""

    ranks: NewText
    sampler: Text
    shuffle: Text | None


def shard(program: TrainingProgram, call: LoaderCall, shared: Shared | None, rewriting: Rewriting) -> None:
    """Divide the batch size by the number of ranks, and give the loader a sampler, which takes over `shuffle`; where
    the code also runs without a process group, if there is one."""
    file = call.place.file
    dist, sampler = spelling(file, "torch.distributed"), spelling(file, SAMPLER)
    rewriting.add(file, (*dist.edits, *sampler.edits))
    divisor = ranks = code("{dist}.get_world_size()", dist=dist.name)
    if runs_without_group(program, file, file.bounds(call.call)[0]):
        divisor = world_size(dist.name)
        shared = where_there_is_a_group(shared, in_group(dist.name))
    dataset, lines = name_dataset(call, rewriting)
    made = new_call(sampler.name, plain(dataset), *_sampler_options(call))
    shuffle = None
    if shared is not None:
        made = code("{made} if {condition} else None", made=made, condition=shared.condition or "")
        shuffle = _remaining_shuffle(call, shared)
        _pass_condition(program, shared, rewriting)
    if _is_long(call, made):
        name = free_name(call, "sampler")
        lines.append(code("{name} = {made}", name=name, made=made))
        made = plain(name)
    if "batch_size" not in call.given:
        lines.append(code("{given}['batch_size'] //= {ranks}", given=_keywords(call), ranks=divisor))
    _put_above(call, lines, rewriting)
    _edit(call, shared, _Terms(ranks, code("sampler={made}", made=made), shuffle), rewriting)


def _is_long(call: LoaderCall, sampler: Text) -> bool:
    """Return whether the sampler makes the line too long, and can be made in a line above."""
    file = call.place.file
    first = call.given.get("shuffle", call.given.get("batch_size", call.given["dataset"]))
    start = file.bounds(argument_value(first))[0]
    line = file.text[line_start(file, start) :].splitlines()[0]
    length = sum(len(piece) if isinstance(piece, str) else piece[1] - piece[0] for piece in sampler)
    return len(line) + length > _LONG and can_be_moved(call)


def _put_above(call: LoaderCall, lines: list[Text], rewriting: Rewriting) -> None:
    """Lines above the statement of the call."""
    file = call.place.file
    statement = line_statement(file, call.call)
    if not lines or statement is None:
        return
    at = start_of(file, statement)
    rewriting.ask_group(file, (at, at), lines_above(file, at, lines), _SHARE)


def _remaining_shuffle(call: LoaderCall, shared: Shared) -> Text | None:
    """Return what the call keeps of `shuffle` for the loaders that are not for training; None if nothing."""
    shuffle = call.code("shuffle")
    if shuffle in {None, "None", "False"}:
        return None
    if shuffle == "True":
        return code("shuffle={negation}", negation=shared.negation or "")
    value = argument_value(call.given["shuffle"])
    bounds, is_whole = operand(call.place.file, value)
    given = Operand(bounds, is_whole or isinstance(value, ast.UnaryOp))
    return code("shuffle={given} and {negation}", given=given, negation=shared.negation or "")


def _pass_condition(program: TrainingProgram, shared: Shared, rewriting: Rewriting) -> None:
    if shared.function is None:
        return
    at, parameter = new_parameter(shared.function, shared.condition or "")
    message = f"{shared.condition} says that the loader is for training, and shared out."
    rewriting.put(shared.function.file, at, at, parameter, message)
    for place in shared.training:
        value = plain("True")
        if runs_without_group(program, place.file, place.file.bounds(place.node)[0]):
            dist = spelling(place.file, "torch.distributed")
            rewriting.add(place.file, dist.edits)
            value = in_group(dist.name)
        end = place.file.bounds(place.node)[1] - 1
        given = code("{name}={value}", name=shared.condition or "", value=value)
        rewriting.put(place.file, end, end, given, message)


def _sampler_options(call: LoaderCall) -> Sequence[Text]:
    """Return the options that the sampler takes over from the loader."""
    options: list[Text] = []
    shuffle = call.code("shuffle")
    if shuffle is None and call.may_hold("shuffle"):
        options.append(code("shuffle={given}.pop('shuffle', False)", given=_keywords(call)))
    elif shuffle in {None, "None"}:
        options.append(code("shuffle=False"))
    elif shuffle != "True":
        options.append(code("shuffle={given}", given=_outer(call, "shuffle")))
    drop_last = call.code("drop_last")
    if drop_last is None and call.may_hold("drop_last") and call.keys is not None:
        options.append(code("drop_last={given}.get('drop_last', False)", given=_keywords(call)))
    elif drop_last not in {None, "False"}:
        options.append(code("drop_last={given}", given=_outer(call, "drop_last")))
    return options


def _outer(call: LoaderCall, parameter: str) -> Bounds:
    return outer_bounds(call.place.file, argument_value(call.given[parameter]))


def _keywords(call: LoaderCall) -> str:
    assert call.keywords is not None
    return call.place.file.code(call.keywords)


def _edit(call: LoaderCall, shared: Shared | None, terms: _Terms, rewriting: Rewriting) -> None:
    """The sampler takes the place of `shuffle` where that is given, else it follows the batch size."""
    file = call.place.file
    taken = next((call.given[name] for name in ("shuffle", "sampler") if name in call.given), None)
    sampler = terms.sampler
    if terms.shuffle is not None and taken is not None:
        sampler = followed(sampler, plain(_comma(call, taken)), terms.shuffle)
    if "batch_size" in call.given:
        size, template = operand(file, argument_value(call.given["batch_size"])), "{size} // {ranks}"
        if shared is not None:
            template = "{size} // ({ranks} if {condition} else 1)"
        condition = (shared.condition or "") if shared is not None else ""
        text = code(template, size=size, ranks=terms.ranks, condition=condition)
        rewriting.ask_group(file, size.bounds, text, _SHARE)
    if taken is None:
        end = _span_of(call, call.given["batch_size" if "batch_size" in call.given else "dataset"])[1]
        rewriting.ask_group(file, (end, end), code(", {sampler}", sampler=sampler), _SHARE)
    if taken is not None:
        rewriting.ask_group(file, _span_of(call, taken), sampler, _SHARE)
        _drop_other(call, taken, rewriting)


def _comma(call: LoaderCall, given: ast.expr | ast.keyword) -> str:
    """Return the comma that separates an argument from the next, with a line end if the argument starts a line."""
    file = call.place.file
    start, _ = _span_of(call, given)
    space = file.text[line_start(file, start) : start]
    return f",{newline_of(file.text)}{space}" if not space.strip() else ", "


def _spans(file: ParsedFile, call: ast.Call) -> list[tuple[int, int]]:
    """Return the bounds of a call's arguments, each with its keyword and the parentheses around it."""
    return argument_bounds(file, call) or [file.bounds(given) for given in arguments(call)]


def _span_of(call: LoaderCall, given: ast.expr | ast.keyword) -> tuple[int, int]:
    return _spans(call.place.file, call.call)[arguments(call.call).index(given)]


def _drop_other(call: LoaderCall, taken: ast.expr | ast.keyword, rewriting: Rewriting) -> None:
    """Take out `sampler=None` beside a `shuffle` whose place the sampler has."""
    other = call.given.get("sampler")
    if other is None or other is taken:
        return
    rewriting.put(call.place.file, *call.place.file.bounds(other), "", "The loader has a sampler now.")
