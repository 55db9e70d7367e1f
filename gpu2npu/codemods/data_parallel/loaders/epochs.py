"""`sampler.set_epoch(epoch)` in the loop over epochs, so that each epoch has an order of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from msgspec import Struct

from gpu2npu.codemods.data_parallel.loaders.call_edits import SAMPLER
from gpu2npu.codemods.data_parallel.loaders.dataset import is_plain
from gpu2npu.codemods.places import Rewriting, quoted
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.program.group_condition import runs_without_group
from gpu2npu.codemods.program.training_loops import BatchLoop
from gpu2npu.codemods.spellings import spelling
from gpu2npu.python.flow.dataflow import PASSED_ON, Dataflow
from gpu2npu.python.meaning.inheritance import has_member
from gpu2npu.python.text.blocks import begins_line, line_start, line_statement, start_of
from gpu2npu.python.text.offsets import indentation
from gpu2npu.python.text.templates import code, lines_above, lines_at, under
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import AnyPlace, CallPlace, FunctionPlace, argument, enclosing_function
from gpu2npu.python.tree.scopes import Assigned, Parameter
from gpu2npu.python.tree.syntax import FORS, argument_value, arguments, elements, is_unpacked, last_name, string_value
from gpu2npu.records import NewText

API = "torch.utils.data.DistributedSampler.set_epoch"
_COUNTS = frozenset({"range", "trange", "count", "tqdm_range", "arange"})
_EPOCH_NAMES = frozenset(
    {"epoch", "ep", "epoch_idx", "epoch_index", "epoch_num", "epoch_id", "current_epoch", "cur_epoch"}
)
_MESSAGE = "The sampler shuffles by the number of the epoch."
_DEPTH = 5


class _Access(Struct, frozen=True):
    """A loader as code at a place: `text` spells it, and begins with the expression at `place`."""

    text: str
    place: AnyPlace


def set_epochs(
    program: TrainingProgram,
    flow: Dataflow,
    loops: Sequence[BatchLoop],
    shuffled: Set[ast.Call],
    whole: Set[ast.Call],
    rewriting: Rewriting,
) -> None:
    """Give samplers the epoch in each training loop over a loader in `shuffled`, or report it; `whole` have none."""
    for loop in loops:
        if not any(maker.key in shuffled for maker in loop.made_by):
            continue
        finder = _Finder(program, flow, shuffled, whole, rewriting)
        access = finder.access(loop.source)
        if access is None or not finder.climb(loop.place, access, _DEPTH):
            text = access.text if access is not None else "LOADER"
            rewriting.report(
                loop.place.file,
                loop.place.node,
                API,
                f"The number of this epoch is not known: count the passes over the loader from 0 and call {text}."
                "sampler.set_epoch(n) before each, or every pass has the same order.",
            )


@dataclass(eq=False)
class _Finder:
    program: TrainingProgram
    flow: Dataflow
    shuffled: Set[ast.Call]
    whole: Set[ast.Call]
    rewriting: Rewriting

    def access(self, source: AnyPlace) -> _Access | None:
        """The plain expression of the loader within what a loop runs over."""
        node, file = source.node, source.file
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            given = arguments(node) if name == "zip" else arguments(node)[:1] if name in PASSED_ON else []
            return self._first([source.at(argument_value(each)) for each in given if not is_unpacked(each)])
        if isinstance(node, ast.Name):
            wrapped = [value for value in self.flow.assigned(source.at(node)) if _is_passed_on(value.node)]
            if wrapped:
                return self._first([value for value in wrapped if _function(value) is _function(source)])
        if isinstance(node, ast.Attribute):
            wrapped = self.flow.passed_on(source)
            if wrapped:
                return self._of_owner(self._first(wrapped), source.at(node.value))
        if isinstance(node, ast.Subscript):
            return self._item(source, node)
        if not is_plain(node):
            return None
        return _Access(file.code(node), source) if self._is_loader(source) else self._inside(source)

    def _inside(self, source: AnyPlace) -> _Access | None:
        """`data.loader` for an object `data` whose `__iter__` visits `self.loader`."""
        inner = [place for place in self.flow.iterated(source) if place.node is not source.node]
        return self._of_owner(self._first(inner), source)

    def _of_owner(self, access: _Access | None, owner: AnyPlace) -> _Access | None:
        """`data.loader` for `self.loader` in a method of the object that `data` is."""
        if access is None or not access.text.startswith("self.") or not is_plain(owner.node):
            return None
        return _Access(f"{owner.file.code(owner.node)}{access.text.removeprefix('self')}", owner)

    def _first(self, places: Sequence[AnyPlace]) -> _Access | None:
        found = [access for place in places if (access := self.access(place)) is not None]
        return found[0] if found else None

    def _is_loader(self, place: AnyPlace) -> bool:
        return any(maker.node in self.shuffled for maker in self.flow.makers(place))

    def _item(self, source: AnyPlace, node: ast.Subscript) -> _Access | None:
        """`loaders['train']` for `loaders[phase]`: the item that is shuffled."""
        file = source.file
        if not is_plain(node.value) or not self._is_loader(source):
            return None
        if not isinstance(node.slice, (ast.Name, ast.Slice)):
            return _Access(file.code(node), source)
        for value in self.flow.containers(source.at(node.value)):
            for key, element in _items(value.node):
                if "train" in key.lower() and self._is_loader(value.at(element)):
                    return _Access(f"{file.code(node.value)}[{key!r}]", source.at(node.value))
        return None

    def climb(self, place: AnyPlace, access: _Access, depth: int) -> bool:
        """Find the loop over epochs around a place, in this function or where it is called, and give the sampler the
        epoch there."""
        loop = _epoch_loop(self.flow, place)
        if loop is not None:
            self._set(loop, place, access)
            return True
        function = enclosing_function(place)
        if function is None or depth == 0 or any(isinstance(node, ast.While) for node in place.file.within(place.node)):
            return False
        found = False
        for call in self.flow.callers(function):
            there = self._translated(access, function, call)
            found |= there is not None and self.climb(call, there, depth - 1)
        return found or self._by_parameter(place, function, access)

    def _translated(self, access: _Access, function: FunctionPlace, call: CallPlace) -> _Access | None:
        """Return how a function's loader is spelled where the function is called; None if it is another one there."""
        root = _root(access.place.node)
        assert isinstance(root, ast.Name)
        rest = access.text[len(root.id) :]
        found = access.place.file.scope_of(root).lookup(root.id)
        if found is None:
            return None
        scope, bindings = found
        if root.id == "self" and isinstance(call.node.func, ast.Attribute):
            owner, attribute = call.node.func.value, rest.lstrip(".").partition(".")[0].partition("[")[0]
            is_here = is_plain(owner) and _may_have(call, owner, attribute)
            return _Access(f"{call.file.code(owner)}{rest}", call.at(owner)) if is_here else None
        if scope.node is function.node and any(isinstance(binding, Parameter) for binding in bindings):
            given = argument(call, function, root.id)
            if given is None:
                return None
            if rest:
                return _Access(f"{given.code}{rest}", given) if is_plain(given.node) else None
            return self.access(given)
        if scope.kind == "module" and call.file is access.place.file:
            its = call.file.scope_of(call.node).lookup(root.id)
            return access if its is not None and its[0] is scope else None
        return None

    def _by_parameter(self, place: AnyPlace, function: FunctionPlace, access: _Access) -> bool:
        """Give the sampler the epoch in a function that has its number as a parameter; return whether it has one."""
        names = [parameter.arg for parameter in function.node.args.args]
        epoch = next((name for name in names if name in _EPOCH_NAMES), None)
        return epoch is not None and self._before(place, access, epoch)

    def _set(self, loop: ast.For | ast.AsyncFor, place: AnyPlace, access: _Access) -> None:
        file, epoch = place.file, loop.target
        assert isinstance(epoch, ast.Name)
        if self._is_made_in(loop, access):
            self._before(place, access, epoch.id)
            return
        at = start_of(file, loop.body[0])
        if not begins_line(file, loop.body[0]):
            line = code("{loader}.sampler.set_epoch({epoch}); ", loader=access.text, epoch=epoch.id)
            self.rewriting.put(file, at, at, line, _MESSAGE)
            return
        start = _above_comments(file, at, file.bounds(loop.iter)[1])
        indent = indentation(file.text, at)
        text = lines_at(file, start, indent, self._lines(file, at, access, epoch.id))
        self.rewriting.put(file, start, start, text, _MESSAGE)

    def _is_made_in(self, loop: ast.For | ast.AsyncFor, access: _Access) -> bool:
        """Return whether the loader is assigned anew within the loop over epochs."""
        root = _root(access.place.node)
        if not isinstance(root, ast.Name):
            return False
        inside = set(walk(*loop.body))
        bound = access.place.file.scope_of(root).bound(root)
        return any(isinstance(each, Assigned) and each.value in inside for each in bound)

    def _before(self, place: AnyPlace, access: _Access, epoch: str) -> bool:
        """Give the sampler the epoch right before the statement that a place is, or is part of."""
        file = place.file
        statement = line_statement(file, place.node)
        if statement is None:
            return False
        at = start_of(file, statement)
        self.rewriting.put(file, at, at, lines_above(file, at, self._lines(file, at, access, epoch)), _MESSAGE)
        return True

    def _lines(self, file: ParsedFile, at: int, access: _Access, epoch: str) -> list[NewText]:
        """The call of `set_epoch` at an offset; where the code also runs without a process group, and with loaders of
        others, only for a sampler that has it."""
        line = code("{loader}.sampler.set_epoch({epoch})", loader=access.text, epoch=epoch)
        is_shared = not any(maker.node in self.whole for maker in self.flow.makers(access.place))
        if is_shared and not runs_without_group(self.program, file, at):
            return [line]
        sampler = spelling(file, SAMPLER)
        self.rewriting.add(file, sampler.edits)
        template = "if isinstance(getattr({loader}, {name}, None), {sampler}):"
        head = code(template, loader=access.text, name=quoted(file, "sampler"), sampler=sampler.name)
        return under(file, head, line)


def _root(node: ast.AST) -> ast.AST:
    """The first part of a dotted or subscripted expression."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node


def _may_have(call: CallPlace, owner: ast.expr, attribute: str) -> bool:
    """Return whether the object of a call may have an attribute: `self` only where its class or a base assigns it, and
    not where only classes below do."""
    cls = call.file.scope_of(owner).enclosing_class()
    if cls is None or not isinstance(owner, ast.Name) or owner.id != "self":
        return True
    return has_member(call.file.names, cls, attribute)


def _items(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The items of a dictionary whose keys are written out, or run through in a comprehension."""
    if isinstance(node, ast.DictComp):
        keys = (string_value(part) for part in elements(node.generators[0].iter))
        yield from ((key, node.value) for key in keys if key is not None)
    if isinstance(node, ast.Dict):
        for at, value in zip(node.keys, node.values, strict=True):
            key = string_value(at)
            if key is not None:
                yield key, value


def _is_passed_on(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in PASSED_ON


def _function(place: AnyPlace) -> ast.AST | None:
    function = enclosing_function(place)
    return None if function is None else function.node


def _epoch_loop(flow: Dataflow, place: AnyPlace) -> ast.For | ast.AsyncFor | None:
    """The nearest loop over numbers around a place, in the same function."""
    for node in place.file.within(place.node):
        if isinstance(node, FORS) and isinstance(node.target, ast.Name) and _counts(flow, place.at(node.iter)):
            return node
    return None


def _counts(flow: Dataflow, place: AnyPlace) -> bool:
    """Return whether an expression gives numbers one after another."""
    node = place.node
    if isinstance(node, ast.Name):
        values = flow.assigned(place.at(node))
        return len(values) == 1 and _counts(flow, values[0])
    if not isinstance(node, ast.Call):
        return False
    name, given = last_name(node.func), arguments(node)
    if name in _COUNTS:
        return True
    passed_on = name in PASSED_ON - {"enumerate", "next"} and bool(given)
    return passed_on and _counts(flow, place.at(argument_value(given[0])))


def _above_comments(file: ParsedFile, at: int, header: int) -> int:
    """The start of a statement's line, or of the comment lines right above it that are below the loop's own line."""
    start = line_start(file, at)
    while start > 0:
        previous = line_start(file, start - 1)
        if previous <= header or not file.text[previous:start].lstrip().startswith("#"):
            return start
        start = previous
    return start
