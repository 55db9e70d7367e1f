"""Checkpoints that every process loads: without map_location, all put them on the card that they were saved from."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.codemods.places import Rewriting, is_skipped, quoted
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.text.concrete import argument_bounds
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import AnyPlace, CallPlace, Place
from gpu2npu.python.tree.syntax import argument_keyword, argument_value, arguments, is_unpacked

_LOAD = "torch.load"
_MESSAGE = "Every process loads this, and must not put it on the first card, from which it may have been saved."
_DEPTH = 4


def load_on_cpu(flow: Dataflow, rewriting: Rewriting) -> None:
    """Write `map_location='cpu'` in each `torch.load` of what `load_state_dict` takes, which copies it to the card of
    the process."""
    loads: dict[ast.Call, CallPlace] = {}
    for call in flow.calls:
        func = call.node.func
        if isinstance(func, ast.Attribute) and func.attr == "load_state_dict":
            for given in arguments(call.node)[:1]:
                loads |= {load.node: load for load in _loads(flow, call.beside(argument_value(given)), _DEPTH)}
    for load in loads.values():
        if not _has_map_location(load.node) and not is_skipped(load.file, load.node):
            spans = argument_bounds(load.file, load.node) or [load.file.bounds(arguments(load.node)[-1])]
            start, end = load.file.bounds(load.node)
            location = f", map_location={quoted(load.file, 'cpu')}"
            rewriting.put(load.file, start, end, ((start, spans[-1][1]), location, (spans[-1][1], end)), _MESSAGE)


def _loads(flow: Dataflow, place: AnyPlace, depth: int) -> Iterator[CallPlace]:
    """The calls of torch.load that a state dict comes from: `torch.load(path)['model']`, `checkpoint['model']`."""
    for node in walk(place.node):
        if isinstance(node, ast.Call):
            yield from _made_by(flow, place.beside(node))
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            yield from _made_by(flow, place.beside(node))
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
