"""Checkpoints that every process loads: after rank 0 has written them in the same run, and not all onto one card."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from operator import eq

from gpu2npu.codemods.places import Rewriting, is_skipped, quoted
from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.codemods.program.group_condition import barrier
from gpu2npu.codemods.spellings import spelling
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.text.blocks import line_statement, start_of
from gpu2npu.python.text.concrete import argument_bounds
from gpu2npu.python.text.templates import code, joined, lines_above
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import AnyPlace, CallPlace, FunctionPlace, Place, enclosing_function
from gpu2npu.python.tree.syntax import FORS, argument_keyword, argument_value, arguments, is_unpacked, string_value

_SAVE, _LOAD = "torch.save", "torch.load"
_FILE_NAME = re.compile(r"\.\w+[\"']")  # path + "/checkpoint.pth"
_F_STRING = re.compile(r"\b[fF](?=[\"'])")
_FIELD = re.compile(r"\{[^{}]*\}")


def wait_before_loads(flow: Dataflow, saved: Sequence[Place[ast.stmt]], rewriting: Rewriting) -> None:
    """Put `dist.barrier()` before each `torch.load` of a path that a group of statements in `saved` writes to earlier;
    where only some ranks may come by, report it instead."""
    calls = (place.at(node) for place in saved for node in walk(place.node) if isinstance(node, ast.Call))
    written, waiting = list(_saved_paths(calls)), set[ast.stmt]()
    for load in _loaded_paths(flow.calls) if written else ():
        if any(_is_read_later(flow, path, load) for path in written):
            _wait(load, waiting, rewriting)


def _saved_paths(calls: Iterable[CallPlace]) -> Iterator[AnyPlace]:
    """The paths that calls of torch.save get: the second argument, or `f`."""
    for call in calls:
        given = _file_arguments(call.node) if call.file.qualified(call.node.func) == _SAVE else []
        yield from (call.at(path) for path in given[:2][-1:])


def _loaded_paths(calls: Iterable[CallPlace]) -> Iterator[AnyPlace]:
    """The paths that calls of torch.load get: the first argument, or `f`."""
    for call in calls:
        given = _file_arguments(call.node) if call.file.qualified(call.node.func) == _LOAD else []
        yield from (call.at(path) for path in given[:1])


def _file_arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "f")]


def _is_read_later(flow: Dataflow, written: AnyPlace, read: AnyPlace) -> bool:
    """Return whether a path that is read was written before.

    That is the same text below in the same function, where an f-string may be any text with its fields, or the same
    name of a file or setting in any function, below a loop or after a call of the function that writes.
    """
    path = _spelled(flow, read)
    texts = (_text(written), _text(read)), (_text(_spelled(flow, written)), _text(path))
    one, other = enclosing_function(written), enclosing_function(read)
    if written.file is read.file and _node(one) is _node(other):
        return _start(written) < _start(read) and any(starmap(_may_be, texts))
    if not any(starmap(eq, texts)):
        return False
    if not flow.are_together(written.file, read.file):
        return False
    if isinstance(path.node, ast.Name) and not _is_global(path):
        return False
    named = _FILE_NAME.search(_text(path)) or string_value(path.node) is not None
    if not named and not isinstance(path.node, (ast.Attribute, ast.Name)):
        return False
    return _is_below_loop(read) or (one is not None and other is not None and _is_called_later(flow, one, other))


def _may_be(text: str, other: str) -> bool:
    """Return whether two texts of code are the same, or the strings in them are, with something for their fields:
    `f"part_{k}.pt"` and `"part_0.pt"`."""
    one, two = (_F_STRING.sub("", each) for each in (text, other))
    return text == other or any(
        re.fullmatch(".+".join(map(re.escape, _FIELD.split(first))), then) for first, then in ((one, two), (two, one))
    )


def _spelled(flow: Dataflow, path: AnyPlace) -> AnyPlace:
    """The expression of a path: of a local name what it was assigned, if that happens once."""
    node = path.node
    values = flow.assigned(path.at(node)) if isinstance(node, ast.Name) and not _is_global(path) else []
    return values[0] if len(values) == 1 else path


def _text(place: AnyPlace) -> str:
    return "".join(place.code.split())


def _is_called_later(flow: Dataflow, writes: FunctionPlace, reads: FunctionPlace) -> bool:
    """Return whether some function calls first the one that writes and then the one that reads."""
    before = [(_node(enclosing_function(call)), call) for call in flow.callers(writes)]
    after = [(_node(enclosing_function(call)), call) for call in flow.callers(reads)]
    return any(
        first.file is then.file and one is other and _start(first) < _start(then)
        for one, first in before
        for other, then in after
    )


def _node(place: AnyPlace | None) -> ast.AST | None:
    return None if place is None else place.node


def _is_global(place: AnyPlace) -> bool:
    assert isinstance(place.node, ast.Name)
    found = place.file.scope_of(place.node).lookup(place.node.id)
    return found is not None and found[0].kind == "module"


def _start(place: AnyPlace) -> int:
    return place.file.bounds(place.node)[0]


def _is_below_loop(place: AnyPlace) -> bool:
    """Return whether a loop is above a place in its function."""
    function = enclosing_function(place)
    code = walk(function.node if function is not None else place.file.tree)
    loops = (node for node in code if isinstance(node, (*FORS, ast.While)))
    return any(place.file.bounds(loop)[1] < _start(place) for loop in loops)


def _wait(load: AnyPlace, waiting: set[ast.stmt], rewriting: Rewriting) -> None:
    """Let all ranks wait before a load, but for one right below another that is among those `waiting`."""
    file = load.file
    statement = line_statement(file, load.node)
    guards = [
        node for node in file.within(load.node) if isinstance(node, (ast.If, ast.IfExp, ast.ExceptHandler, ast.Lambda))
    ]
    if statement is None or any("__name__" not in file.code(node) for node in guards):
        rewriting.report(
            file,
            load.node,
            _LOAD,
            "Rank 0 writes this file: let all ranks call dist.barrier() between that and reading it.",
        )
        return
    above, is_waiting = _above(file, statement), statement in waiting
    waiting.add(statement)
    if is_waiting or above in waiting or (above is not None and "barrier(" in file.code(above)):
        return
    dist = spelling(file, "torch.distributed")
    rewriting.add(file, dist.edits)
    at = start_of(file, statement)
    lines, single = barrier(file, dist.name)
    message = "All ranks wait for the file that rank 0 writes."
    rewriting.ask_group(file, (at, at), lines_above(file, at, lines), message, lines_above(file, at, single))


def _above(file: ParsedFile, statement: ast.stmt) -> ast.stmt | None:
    """The statement above another in its block."""
    block = file.block(statement)
    index = next(index for index, part in enumerate(block) if part is statement)
    return block[index - 1] if index else None


_MESSAGE = "Every process loads this, and must not put it on the first card, from which it may have been saved."
_DEPTH = 4


def load_on_cpu(flow: Dataflow, rewriting: Rewriting) -> None:
    """Write `map_location='cpu'` in each `torch.load` for `load_state_dict`, which copies to the process's card."""
    loads: dict[ast.Call, CallPlace] = {}
    for call in flow.calls:
        func = call.node.func
        if isinstance(func, ast.Attribute) and func.attr == "load_state_dict":
            for given in arguments(call.node)[:1]:
                loads |= {load.node: load for load in _loads(flow, call.at(argument_value(given)), _DEPTH)}
    for load in loads.values():
        if not _has_map_location(load.node) and not is_skipped(load.file, load.node):
            spans = argument_bounds(load.file, load.node) or [load.file.bounds(arguments(load.node)[-1])]
            start, end = load.file.bounds(load.node)
            location = code(", map_location={device}", device=quoted(load.file, "cpu"))
            pieces = (start, spans[-1][1]), location, (spans[-1][1], end)
            rewriting.put(load.file, start, end, joined(pieces), _MESSAGE)


def _loads(flow: Dataflow, place: AnyPlace, depth: int) -> Iterator[CallPlace]:
    """The calls of torch.load that a state dict comes from: `torch.load(path)['model']`, `checkpoint['model']`."""
    for node in walk(place.node):
        if isinstance(node, ast.Call):
            yield from _made_by(flow, place.at(node))
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            yield from _made_by(flow, place.at(node))
            if isinstance(node, ast.Name) and depth:
                for value in flow.assigned(Place(place.file, node)):
                    yield from _loads(flow, value, depth - 1)


def _made_by(flow: Dataflow, place: AnyPlace) -> Iterator[CallPlace]:
    return (made for made in flow.makers(place) if made.file.qualified(made.node.func) == _LOAD)


def _has_map_location(call: ast.Call) -> bool:
    """Return whether a call of torch.load has a map_location, or arguments that the text does not show."""
    given = arguments(call)
    by_position = [each for each in given if argument_keyword(each) is None]
    return (
        not given
        or len(by_position) > 1
        or any(is_unpacked(each) or argument_keyword(each) == "map_location" for each in given)
    )
