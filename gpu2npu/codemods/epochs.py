"""`sampler.set_epoch(epoch)` in the loop over epochs, so that each epoch has an order of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import libcst as cst

from gpu2npu.codemods.dataflow import PASSED_ON, Dataflow
from gpu2npu.codemods.loader_dataset import is_plain
from gpu2npu.codemods.program import ParsedFile
from gpu2npu.codemods.rewriting import Rewriting, indentation, line_start, statement_of
from gpu2npu.codemods.syntax import Place, above, argument, enclosing_function, walk
from gpu2npu.codemods.training_loops import BatchLoop
from gpu2npu.engine.scopes import Parameter
from gpu2npu.engine.tree import elements, last_name, string_value

API = "torch.utils.data.DistributedSampler.set_epoch"
_COUNTS = frozenset({"range", "trange", "count", "tqdm_range", "arange"})
_EPOCH_NAMES = frozenset(
    {"epoch", "ep", "epoch_idx", "epoch_index", "epoch_num", "epoch_id", "current_epoch", "cur_epoch"}
)
_MESSAGE = "The sampler shuffles by the number of the epoch."
_DEPTH = 5


@dataclass(frozen=True)
class _Access:
    """How a loader is spelled at a place: `text`, for the expression `node` there."""

    text: str
    place: Place


def set_epochs(
    flow: Dataflow, loops: Sequence[BatchLoop], shuffled: Set[tuple[str, int]], rewriting: Rewriting
) -> None:
    """For each training loop over a loader in `shuffled`, tell the sampler the epoch, or report it."""
    for loop in loops:
        if not any(maker.key in shuffled for maker in loop.made_by):
            continue
        finder = _Finder(flow, shuffled, rewriting)
        access = finder.access(loop.source)
        if access is None or not finder.climb(loop.place, access, _DEPTH):
            text = access.text if access is not None else "LOADER"
            rewriting.report(
                loop.place.file,
                loop.place.node,
                API,
                f"Which epoch this is cannot be told: count the passes over the loader from 0 and call {text}.sampler."
                "set_epoch(n) before each, or every pass has the same order.",
            )


@dataclass(eq=False)
class _Finder:
    flow: Dataflow
    shuffled: Set[tuple[str, int]]
    rewriting: Rewriting

    def access(self, source: Place) -> _Access | None:
        """The plain expression of the loader within what a loop runs over."""
        node, file = source.node, source.file
        if isinstance(node, cst.Call):
            name = last_name(node.func)
            args = node.args if name == "zip" else node.args[:1] if name in PASSED_ON else ()
            return self._first([Place(file, arg.value) for arg in args if not arg.star])
        if isinstance(node, cst.Name):
            wrapped = [value for value in self.flow.assigned(source) if _is_passed_on(value.node)]
            same = [value for value in wrapped if _function_id(value) == _function_id(source)]
            if same:
                return self._first(same)
        if isinstance(node, cst.Subscript):
            return self._item(source)
        if not is_plain(node):
            return None
        return _Access(file.code(node), source) if self._is_loader(source) else self._inside(source)

    def _inside(self, source: Place) -> _Access | None:
        """`data.loader` for an object `data` whose `__iter__` goes over `self.loader`."""
        for maker in self.flow.makers(source):
            inner = self._first([place for place in self.flow.iterated(maker) if place.node is not source.node])
            if inner is not None and inner.text.startswith("self."):
                return _Access(f"{source.file.code(source.node)}{inner.text.removeprefix('self')}", source)
        return None

    def _first(self, places: Sequence[Place]) -> _Access | None:
        found = [access for place in places if (access := self.access(place)) is not None]
        return found[0] if found else None

    def _is_loader(self, place: Place) -> bool:
        return any(maker.key in self.shuffled for maker in self.flow.makers(place))

    def _item(self, source: Place) -> _Access | None:
        """`loaders['train']` for `loaders[phase]`: the item that is shuffled."""
        node, file = source.node, source.file
        assert isinstance(node, cst.Subscript)
        if not is_plain(node.value) or not self._is_loader(source):
            return None
        part = node.slice[0].slice
        if isinstance(part, cst.Index) and not isinstance(part.value, cst.Name):
            return _Access(file.code(node), source)
        for value in self.flow.containers(Place(file, node.value)):
            for key, element in _items(value.node):
                if "train" in key.lower() and self._is_loader(Place(value.file, element)):
                    return _Access(f"{file.code(node.value)}[{key!r}]", Place(file, node.value))
        return None

    def climb(self, place: Place, access: _Access, depth: int) -> bool:
        """Find the loop over epochs around a place, in this function or where it is called; tell the sampler there."""
        loop = _epoch_loop(self.flow, place)
        if loop is not None:
            self._tell(loop, place, access)
            return True
        function = enclosing_function(place)
        if function is None or depth == 0 or any(isinstance(node, cst.While) for node in _within(place, function)):
            return False
        told = False
        for call in self.flow.callers(function):
            there = self._translated(access, function, call)
            told |= there is not None and self.climb(call, there, depth - 1)
        return told or self._by_parameter(place, function, access)

    def _translated(self, access: _Access, function: Place, call: Place) -> _Access | None:
        """How a loader that a function uses is spelled where the function is called; None if it is another there."""
        root = access.place.node
        while isinstance(root, (cst.Attribute, cst.Subscript)):
            root = root.value
        assert isinstance(root, cst.Name) and isinstance(call.node, cst.Call)
        rest = access.text[len(root.value) :]
        found = access.place.file.scope_of(root).lookup(root.value)
        if found is None:
            return None
        scope, bindings = found
        if root.value == "self" and isinstance(call.node.func, cst.Attribute):
            owner = call.node.func.value
            return _Access(f"{call.file.code(owner)}{rest}", Place(call.file, owner)) if is_plain(owner) else None
        if scope.node is function.node and any(isinstance(binding, Parameter) for binding in bindings):
            given = argument(call, function, root.value)
            if given is None:
                return None
            if rest:
                return _Access(f"{call.file.code(given.node)}{rest}", given) if is_plain(given.node) else None
            return self.access(given)
        if scope.kind == "module" and call.file is access.place.file:
            its = call.file.scope_of(call.node).lookup(root.value)
            return access if its is not None and its[0] is scope else None
        return None

    def _by_parameter(self, place: Place, function: Place, access: _Access) -> bool:
        """Where a function is told the epoch, its sampler can be told there."""
        assert isinstance(function.node, cst.FunctionDef)
        names = [param.name.value for param in function.node.params.params]
        epoch = next((name for name in names if name in _EPOCH_NAMES), None)
        return epoch is not None and self._before(place, access, epoch)

    def _tell(self, loop: cst.For, place: Place, access: _Access) -> None:
        file = place.file
        epoch = loop.target
        assert isinstance(epoch, cst.Name)
        if self._is_made_in(loop, access):
            self._before(place, access, epoch.value)
            return
        first = loop.body.body[0]
        at, _ = file.positions.of(first)
        line = f"{access.text}.sampler.set_epoch({epoch.value})"
        if isinstance(loop.body, cst.SimpleStatementSuite):
            self.rewriting.put(file, at, at, f"{line}; ", _MESSAGE)
            return
        start = _above_comments(file, at, file.positions.of(loop.iter)[1])
        self.rewriting.put(file, start, start, f"{indentation(file, at)}{line}{file.module.default_newline}", _MESSAGE)

    def _is_made_in(self, loop: cst.For, access: _Access) -> bool:
        """Whether the loader is assigned anew within the loop over epochs."""
        root = access.place.node
        while isinstance(root, (cst.Attribute, cst.Subscript)):
            root = root.value
        inside = {id(node) for node in walk(loop.body)}
        if not isinstance(root, cst.Name):
            return False
        return any(id(value) in inside for value in self.flow.assignments(Place(access.place.file, root)))

    def _before(self, place: Place, access: _Access, epoch: str) -> bool:
        """Tell the sampler right before the statement that a place is, or is part of."""
        file = place.file
        statement = statement_of(file, place.node)
        if statement is None:
            return False
        at, _ = file.positions.of(statement)
        line = f"{access.text}.sampler.set_epoch({epoch}){file.module.default_newline}"
        self.rewriting.put(file, at, at, f"{line}{indentation(file, at)}", _MESSAGE)
        return True


def _items(node: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    """The items of a dictionary whose keys are written out, or run through in a comprehension."""
    if isinstance(node, cst.DictComp):
        yield from ((key, node.value) for part in elements(node.for_in.iter) if (key := string_value(part)) is not None)
    for element in node.elements if isinstance(node, cst.Dict) else ():
        key = string_value(element.key) if isinstance(element, cst.DictElement) else None
        if key is not None:
            yield key, element.value


def _is_passed_on(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and last_name(node.func) in PASSED_ON


def _function_id(place: Place) -> int:
    function = enclosing_function(place)
    return 0 if function is None else id(function.node)


def _within(place: Place, function: Place | None) -> list[cst.CSTNode]:
    """The nodes above a place, up to its function."""
    nodes: list[cst.CSTNode] = []
    for node in above(place):
        if function is not None and node is function.node:
            break
        nodes.append(node)
    return nodes


def _epoch_loop(flow: Dataflow, place: Place) -> cst.For | None:
    """The nearest loop over numbers around a place, in the same function."""
    for node in _within(place, enclosing_function(place)):
        if (
            isinstance(node, cst.For)
            and isinstance(node.target, cst.Name)
            and _counts(flow, Place(place.file, node.iter))
        ):
            return node
    return None


def _counts(flow: Dataflow, place: Place) -> bool:
    """Whether an expression gives numbers one after another."""
    node = place.node
    if isinstance(node, cst.Name):
        values = flow.assigned(place)
        return len(values) == 1 and _counts(flow, values[0])
    if not isinstance(node, cst.Call):
        return False
    name = last_name(node.func)
    if name in _COUNTS:
        return True
    return (
        name in PASSED_ON - {"enumerate", "next"}
        and bool(node.args)
        and _counts(flow, Place(place.file, node.args[0].value))
    )


def _above_comments(file: ParsedFile, at: int, header: int) -> int:
    """The start of a statement's line, or of the comment lines right above it that are below the loop's own line."""
    start = line_start(file, at)
    while start > 0:
        previous = line_start(file, start - 1)
        if previous <= header or not file.text[previous:start].lstrip().startswith("#"):
            return start
        start = previous
    return start
