"""The loops of a program that train on the batches of a DataLoader, through functions and files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from gpu2npu.codemods.dataflow import Dataflow, Made
from gpu2npu.codemods.program import ParsedFile
from gpu2npu.codemods.syntax import Place, above, enclosing_function, walk
from gpu2npu.engine.tree import children, last_name

LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})
# Calls by which a loop trains: gradients are computed, and then used.
_BACKWARD, _STEP = "backward", "step"
_LOOPS = (cst.For, cst.While)


@dataclass(frozen=True, eq=False)
class BatchLoop:
    """A loop over batches. `source` is the expression that gives them: what a `for` runs over, or is asked by `next`.

    `made_by` are the DataLoader calls that `source` may come from. `trains` says whether the
    loop computes gradients and steps an optimizer, `always` that it does so whatever it runs over.
    """

    place: Place
    source: Place
    made_by: tuple[Made, ...]
    trains: bool
    always: bool


@dataclass(eq=False)
class LoopFinder:
    """Finds the loops over batches; what functions do is worked out once."""

    flow: Dataflow

    def __post_init__(self) -> None:
        self._does: dict[int, frozenset[str]] = {}
        self._calls: dict[int, list[Place]] = {}
        changed = True
        while changed:
            changed = False
            for place in self.flow.functions:
                done = self.does(place)
                changed |= done != self._does.get(id(place.node), frozenset())
                self._does[id(place.node)] = done

    def does(self, place: Place) -> frozenset[str]:
        """Which of backward and step are called below a node, directly or through functions of the program."""
        if id(place.node) not in self._calls:
            calls = [Place(place.file, node) for node in walk(place.node) if isinstance(node, cst.Call)]
            self._calls[id(place.node)] = calls
        return frozenset().union(*map(self._called, self._calls[id(place.node)]))

    def _called(self, call: Place) -> frozenset[str]:
        assert isinstance(call.node, cst.Call)
        name = last_name(call.node.func)
        functions = [target.node for target in self.flow.targets(call) if isinstance(target.node, cst.FunctionDef)]
        done = frozenset[str]().union(*(self._does.get(id(function), frozenset()) for function in functions))
        if isinstance(call.node.func, cst.Attribute) and name in {_BACKWARD, _STEP}:
            # scaler.step(optimizer) and optimizer.step(closure), not trainer.step(x, y)
            return done | {name} if name == _BACKWARD or len(call.node.args) < 2 else done
        return done

    def loops(self) -> list[BatchLoop]:
        """The loops over batches of a DataLoader, and the innermost training loops over anything else."""
        found = [
            loop for file in self.flow.files.values() for node in walk(file.module) for loop in self._of(file, node)
        ]
        trained = {id(loop.place.node) for loop in found if loop.trains}
        around = {id(node) for loop in found if loop.trains for node in above(loop.place)}
        around |= {id(loop.place.node) for loop in found if loop.made_by}
        return [
            loop
            for loop in found
            if loop.made_by
            or (loop.trains and id(loop.place.node) not in around and not self._calls_one(loop, trained))
        ]

    def _of(self, file: ParsedFile, node: cst.CSTNode) -> Iterator[BatchLoop]:
        place = Place(file, node)
        if isinstance(node, cst.CompFor):
            loaders = self._loaders(Place(file, node.iter))
            if loaders:
                yield BatchLoop(place, Place(file, node.iter), loaders, trains=False, always=False)
        if not isinstance(node, _LOOPS):
            return
        body = Place(file, node.body)
        trains = _BACKWARD in (done := self.does(body)) and _STEP in (done | self.does(_around(place)))
        for source in _batch_sources(place):
            loaders = self._loaders(source)
            if loaders or trains:
                yield BatchLoop(place, source, loaders, trains, trains and self._always(body))

    def _loaders(self, source: Place) -> tuple[Made, ...]:
        """The DataLoader calls that an expression's batches may come from, also through objects with an `__iter__`."""
        made = self.flow.made(source)
        for maker in [maker for maker in made if not is_loader(maker.place)]:
            for place in self.flow.iterated(maker.place):
                made += self.flow.made(place)
        return tuple(maker for maker in made if is_loader(maker.place))

    def _calls_one(self, loop: BatchLoop, trained: set[int]) -> bool:
        """Whether a loop calls a function that has the training loop, directly or not."""
        pending = [loop.place]
        seen: set[int] = set()
        while pending:
            place = pending.pop()
            for node in walk(place.node):
                if id(node) in trained and node is not loop.place.node:
                    return True
                if isinstance(node, cst.Call):
                    called = [
                        target for target in self.flow.targets(Place(place.file, node)) if id(target.node) not in seen
                    ]
                    seen.update(id(target.node) for target in called)
                    pending += [target for target in called if isinstance(target.node, cst.FunctionDef)]
        return False

    def _always(self, block: Place) -> bool:
        """Whether gradients are computed each time a block runs."""
        return any(self._each_time(Place(block.file, statement)) for statement in children(block.node))

    def _each_time(self, statement: Place) -> bool:
        node, file = statement.node, statement.file
        if isinstance(node, cst.If):
            other = node.orelse
            if other is None or not self._always(Place(file, node.body)):
                return False
            rest = Place(file, other)
            return self._each_time(rest) if isinstance(other, cst.If) else self._always(Place(file, other.body))
        if isinstance(node, (cst.With, cst.For, cst.Try)):
            return self._always(Place(file, node.body))
        return _BACKWARD in self.does(statement)


def is_loader(call: Place) -> bool:
    """Whether a call makes a DataLoader of PyTorch."""
    assert isinstance(call.node, cst.Call)
    return call.file.names.qualified(call.node.func, call.file.scope_of(call.node)) in LOADERS


def _around(place: Place) -> Place:
    return enclosing_function(place) or Place(place.file, place.file.module)


def _batch_sources(loop: Place) -> Iterator[Place]:
    """What a loop takes batches from: what a `for` runs over, and what it asks by `next`."""
    node, file = loop.node, loop.file
    if isinstance(node, cst.For):
        yield Place(file, node.iter)
    for call in walk(node, into_functions=False):
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "next" and call.args:
            nearest = next(above_node for above_node in above(Place(file, call)) if isinstance(above_node, _LOOPS))
            if nearest is node:
                yield Place(file, call.args[0].value)
