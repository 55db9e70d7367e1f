"""A file that rank 0 writes and all ranks read in the same run: they wait for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gpu2npu.codemods.dataflow import Dataflow
from gpu2npu.codemods.imports import spelling
from gpu2npu.codemods.rewriting import Rewriting, indentation, statement_of
from gpu2npu.codemods.syntax import Place, above, enclosing_function, walk
from gpu2npu.engine.tree import string_value

_SAVE, _LOAD = "torch.save", "torch.load"
_FILE_NAME = re.compile(r"\.\w+[\"']")  # path + "/checkpoint.pth"


def wait_before_loads(flow: Dataflow, saved: Sequence[Place], rewriting: Rewriting) -> None:
    """Put `dist.barrier()` before each `torch.load` of a path that a group of statements in `saved` writes to earlier;
    where only some ranks may come by, report it instead."""
    paths = [path for place in saved for path in _paths(place, _SAVE)]
    for file in flow.files.values():
        for load in _paths(Place(file, file.module), _LOAD):
            if any(_is_read_later(flow, path, load) for path in paths):
                _wait(load, rewriting)


def _paths(place: Place, function: str) -> Iterator[Place]:
    """The expressions of the paths that calls of a function below a node get."""
    for node in walk(place.node):
        if not isinstance(node, cst.Call):
            continue
        scope = place.file.scope_of(node.func)
        if place.file.names.qualified(node.func, scope) == function:
            args = [arg.value for arg in node.args if arg.keyword is None or arg.keyword.value == "f"]
            yield from (Place(place.file, arg) for arg in args[:2][-1 if function == _SAVE else 0 :][:1])


def _is_read_later(flow: Dataflow, written: Place, read: Place) -> bool:
    """Whether a path that is read is one that was written before: the same text in the same function below, or the same
    name of a file or setting in any, below a loop or after a call of the function that writes."""
    path = _spelled(flow, read)
    if _text(written) != _text(read) and _text(_spelled(flow, written)) != _text(path):
        return False
    one, other = enclosing_function(written), enclosing_function(read)
    if written.file is read.file and (one.node if one else None) is (other.node if other else None):
        return _start(written) < _start(read)
    if isinstance(path.node, cst.Name) and not _is_global(path):
        return False
    named = _FILE_NAME.search(_text(path)) or string_value(path.node) is not None
    if not named and not isinstance(path.node, (cst.Attribute, cst.Name)):
        return False
    return _is_below_loop(read) or (one is not None and other is not None and _is_called_later(flow, one, other))


def _spelled(flow: Dataflow, path: Place) -> Place:
    """The expression of a path: of a local name what it was assigned, if that happens once."""
    values = flow.assigned(path) if isinstance(path.node, cst.Name) and not _is_global(path) else []
    return values[0] if len(values) == 1 else path


def _text(place: Place) -> str:
    return "".join(place.file.code(place.node).split())


def _is_called_later(flow: Dataflow, writes: Place, reads: Place) -> bool:
    """Whether some function calls first the one that writes and then the one that reads."""
    before = [(enclosing_function(call), call) for call in flow.callers(writes)]
    after = [(enclosing_function(call), call) for call in flow.callers(reads)]
    return any(
        first.file is then.file
        and (one.node if one else None) is (other.node if other else None)
        and _start(first) < _start(then)
        for one, first in before
        for other, then in after
    )


def _is_global(place: Place) -> bool:
    assert isinstance(place.node, cst.Name)
    found = place.file.scope_of(place.node).lookup(place.node.value)
    return found is not None and found[0].kind == "module"


def _start(place: Place) -> int:
    return place.file.positions.of(place.node)[0]


def _is_below_loop(place: Place) -> bool:
    """Whether a loop stands above a place in its function."""
    function = enclosing_function(place)
    around = function.node if function is not None else place.file.module
    loops = [node for node in walk(around, into_functions=True) if isinstance(node, (cst.For, cst.While))]
    return any(place.file.positions.of(loop)[1] < _start(place) for loop in loops)


def _wait(load: Place, rewriting: Rewriting) -> None:
    file = load.file
    statement = statement_of(file, load.node)
    function = enclosing_function(load)
    asked = [
        node
        for node in above(load)
        if isinstance(node, (cst.If, cst.IfExp, cst.ExceptHandler, cst.Lambda)) and _is_within(load, node, function)
    ]
    if statement is None or any("__name__" not in file.code(node) for node in asked):
        rewriting.report(
            file,
            load.node,
            _LOAD,
            "Rank 0 writes this file: let all ranks call dist.barrier() between that and reading it.",
        )
        return
    at, _ = file.positions.of(statement)
    if _waits_before(Place(file, statement)):
        return
    dist = spelling(file, "torch.distributed")
    rewriting.add(file, dist.edits)
    line = f"{dist.name}.barrier(){file.module.default_newline}{indentation(file, at)}"
    rewriting.put(file, at, at, line, "All ranks wait for the file that rank 0 writes.")


def _is_within(place: Place, node: cst.CSTNode, function: Place | None) -> bool:
    """Whether a node above a place is inside its function."""
    if function is None:
        return True
    for found in above(place):
        if found is function.node:
            return False
        if found is node:
            return True
    return False


def _waits_before(statement: Place) -> bool:
    """Whether the statement above is a barrier."""
    block = statement.file.parents[id(statement.node)]
    body = list(block.body) if isinstance(block, (cst.Module, cst.IndentedBlock)) else []
    index = next((i for i, part in enumerate(body) if part is statement.node), 0)
    return index > 0 and "barrier(" in statement.file.code(body[index - 1])
