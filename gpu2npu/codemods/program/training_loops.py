"""The loops of a program that train on the batches of a DataLoader, through functions and files."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct

from gpu2npu.codemods.program.files import SCALERS, names_scaler
from gpu2npu.python.flow.dataflow import Dataflow, Made
from gpu2npu.python.project.program import ParsedFile
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import AnyPlace, CallPlace, Place, enclosing_function
from gpu2npu.python.tree.syntax import FORS, FUNCTIONS, WITHS, Function, arguments, last_name, shallow_nodes

LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})
# Calls by which a loop trains: gradients are computed, and then used.
_BACKWARD, _STEP = "backward", "step"
_LOOPS = (*FORS, ast.While)

Loop = ast.For | ast.AsyncFor | ast.While | ast.comprehension


class BatchLoop(Struct, frozen=True, eq=False):
    """A loop over batches. `source` is the expression that gives them: what a `for` runs over, or is asked by `next`;
    the condition of a `while` that has neither.

    `made_by` are the DataLoader calls that `source` may come from. `trains` is whether the
    loop computes gradients and steps an optimizer, `always` that it does so whatever it runs over.
    """

    place: Place[Loop]
    source: AnyPlace
    made_by: tuple[Made, ...]
    trains: bool
    always: bool


class LoopFinder:
    """Finds the loops over batches; what functions do is worked out once."""

    def __init__(self, flow: Dataflow) -> None:
        self.flow = flow
        self._has_scalers = any(map(names_scaler, flow.files.values()))
        self._does: dict[Function, frozenset[str]] = {}
        self._work_out()

    def _work_out(self) -> None:
        """Find out which functions call backward and step, directly or through others."""
        calling: dict[Function, list[Function]] = {}
        pending: list[Function] = []
        for place in self.flow.functions:
            calls = [place.at(node) for node in walk(place.node) if isinstance(node, ast.Call)]
            self._does[place.node] = frozenset().union(*map(self._called_directly, calls))
            for called in {target for call in calls for target in self._functions(call)}:
                calling.setdefault(called, []).append(place.node)
            pending.append(place.node)
        while pending:
            function = pending.pop()
            for caller in calling.get(function, ()):
                done = self._does[caller] | self._does[function]
                if done != self._does[caller]:
                    self._does[caller] = done
                    pending.append(caller)

    def does(self, file: ParsedFile, *nodes: ast.AST) -> frozenset[str]:
        """Return which of backward and step some nodes call, directly or through functions of the program."""
        calls = [Place(file, node) for node in walk(*nodes) if isinstance(node, ast.Call)]
        return frozenset().union(*map(self._called, calls))

    def _functions(self, call: CallPlace) -> list[Function]:
        return [target.node for target in self.flow.targets(call) if isinstance(target.node, FUNCTIONS)]

    def _called(self, call: CallPlace) -> frozenset[str]:
        called = (self._does.get(function, frozenset()) for function in self._functions(call))
        return self._called_directly(call).union(*called)

    def _called_directly(self, call: CallPlace) -> frozenset[str]:
        name = last_name(call.node.func)
        takes_several = self._has_scalers and len(call.node.args) > 1
        if takes_several and any(map(_is_scaler, self.flow.made(call.at(call.node.func)))):
            return frozenset({_BACKWARD, _STEP})
        if not isinstance(call.node.func, ast.Attribute):
            return frozenset()
        # scaler.step(optimizer) and optimizer.step(closure), not trainer.step(x, y)
        steps = name == _STEP and len(arguments(call.node)) < 2
        return frozenset({name}) if name is not None and (name == _BACKWARD or steps) else frozenset()

    def loops(self) -> list[BatchLoop]:
        """The loops over batches of a DataLoader, and the innermost training loops over anything else."""
        found = [loop for file in self.flow.files.values() for loop in self._in(file)]
        trained = {loop.place.node for loop in found if loop.trains}
        above = {node for loop in found if loop.trains for node in loop.place.above()}
        above |= {loop.place.node for loop in found if loop.made_by}
        return [
            loop
            for loop in found
            if loop.made_by or (loop.trains and loop.place.node not in above and not self._calls_one(loop, trained))
        ]

    def _in(self, file: ParsedFile) -> Iterator[BatchLoop]:
        for generator in file.nodes(ast.comprehension):
            loaders = () if _is_next(generator.iter) else self._loaders(Place(file, generator.iter))
            if loaders:
                yield BatchLoop(
                    Place(file, generator), Place(file, generator.iter), loaders, trains=False, always=False
                )
        loops: list[ast.For | ast.AsyncFor | ast.While] = [*file.fors, *file.nodes(ast.While)]
        for loop in loops:
            place: Place[Loop] = Place(file, loop)
            done = self.does(file, *loop.body)
            trains = _BACKWARD in done and (_STEP in done or _STEP in self._done_in_scope_of(place))
            sources = list(_batch_sources(place))
            if trains and not sources and isinstance(loop, ast.While):  # batches come in a way of the program's own
                sources = [Place(file, loop.test)]
            for source in sources:
                loaders = self._loaders(source)
                if loaders or trains:
                    yield BatchLoop(place, source, loaders, trains, trains and self._always(file, loop.body))

    def _done_in_scope_of(self, place: AnyPlace) -> frozenset[str]:
        """The same for the function around a place, or for its module."""
        function = enclosing_function(place)
        return self._does[function.node] if function is not None else self.does(place.file, place.file.tree)

    def _loaders(self, source: AnyPlace) -> tuple[Made, ...]:
        """The DataLoader calls that an expression's batches may come from, also through objects with an `__iter__`."""
        sources = [source, *self.flow.iterated(source)]
        return tuple(maker for each in sources for maker in self.flow.made(each) if is_loader(maker.place))

    def _calls_one(self, loop: BatchLoop, trained: set[Loop]) -> bool:
        """Return whether a loop calls a function that has the training loop, directly or not."""
        pending: list[AnyPlace] = [loop.place]
        seen: set[ast.AST] = set()
        while pending:
            place = pending.pop()
            for node in walk(place.node):
                if node in trained and node is not loop.place.node:
                    return True
                if isinstance(node, ast.Call):
                    called = [target for target in self.flow.targets(place.at(node)) if target.node not in seen]
                    seen.update(target.node for target in called)
                    pending += [target for target in called if isinstance(target.node, FUNCTIONS)]
        return False

    def _always(self, file: ParsedFile, block: Sequence[ast.stmt]) -> bool:
        """Return whether gradients are computed each time a block runs."""
        return any(self._each_time(file, statement) for statement in block)

    def _each_time(self, file: ParsedFile, node: ast.stmt) -> bool:
        if isinstance(node, ast.If):
            return bool(node.orelse) and self._always(file, node.body) and self._always(file, node.orelse)
        if isinstance(node, (*WITHS, *FORS, ast.Try)):
            return self._always(file, node.body)
        return _BACKWARD in self.does(file, node)


def _is_scaler(made: Made) -> bool:
    return made.place.file.qualified(made.place.node.func) in SCALERS


def is_loader(call: CallPlace) -> bool:
    """Return whether a call makes a DataLoader of PyTorch."""
    return call.file.qualified(call.node.func) in LOADERS


def _batch_sources(place: Place[Loop]) -> Iterator[AnyPlace]:
    """Yield the expressions that a loop takes batches from: the iterable of a `for`, and what it passes to `next`."""
    loop, file = place.node, place.file
    over = loop.iter if isinstance(loop, FORS) else None
    if over is not None and not _is_next(over):
        yield Place(file, over)
    for call in shallow_nodes([loop]):
        if isinstance(call, ast.Call) and _is_next(call) and call.args and call is not over:
            nearest = next(node for node in file.above(call) if isinstance(node, _LOOPS))
            if nearest is loop:
                yield Place(file, call.args[0])


def _is_next(node: ast.AST) -> bool:
    """Return whether an expression is one batch, whose parts are not batches: `for part in next(batches)`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next"
