"""Which DataLoader calls make training loaders, and how those are told apart where a call makes others too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from gpu2npu.codemods.dataflow import Dataflow, Made
from gpu2npu.codemods.loader_call import read_call
from gpu2npu.codemods.rewriting import statement_of
from gpu2npu.codemods.syntax import Place, above, enclosing_class, enclosing_function
from gpu2npu.codemods.training_loops import BatchLoop
from gpu2npu.engine.scopes import every_param
from gpu2npu.engine.tree import children, elements, string_value

# Words in the names of loaders that are not for training.
_OTHER = re.compile(r"val|test|eval|dev(?!ice)|held_?out")
COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


@dataclass(frozen=True, eq=False)
class Shared:
    """A call that also makes loaders that are not trained on. `condition` is true where the training loader is made;
    if it is a new parameter of `function`, the calls `training` pass it. Both are None where nothing tells."""

    condition: str | None = None
    negation: str | None = None
    function: Place | None = None
    training: tuple[Place, ...] = ()


@dataclass(frozen=True, eq=False)
class TrainingLoader:
    """A DataLoader call that makes a training loader."""

    place: Place
    shared: Shared | None

    def is_made_as(self, made: Made) -> bool:
        """Whether a loader may be this one, and not another that the same call makes."""
        if made.key != self.place.key:
            return False
        calls = self.shared.training if self.shared is not None else ()
        return not calls or any(made.via is not None and made.via.key == call.key for call in calls)


def training_loaders(flow: Dataflow, loops: Sequence[BatchLoop]) -> list[TrainingLoader]:
    """The DataLoader calls whose batches train a model, in the order of files and lines."""
    trained: dict[tuple[str, int], list[Made]] = {}
    watched: set[tuple[str, int]] = set()  # by loops that do not train, or not always
    for loop in loops:
        for made in loop.made_by:
            if _trains_on(flow, loop, made):
                trained.setdefault(made.key, []).append(made)
            if not loop.always:
                watched.add(made.key)
    found = [TrainingLoader(uses[0].place, _shared(flow, uses, key in watched)) for key, uses in trained.items()]
    return sorted(found, key=lambda loader: (loader.place.file.path, loader.place.file.positions.of(loader.place.node)))


def _trains_on(flow: Dataflow, loop: BatchLoop, made: Made) -> bool:
    """Whether a loop trains on a loader: of several that it trains or validates on, those that are called so, or else
    are shuffled."""
    if not loop.trains:
        return False
    if loop.always or len(loop.made_by) == 1:
        return True
    alone = sum(other.key == made.key for other in loop.made_by) == 1
    named = _is_called_training(made.place) if alone or made.via is None else _is_called_training(made.via)
    return named if named is not None else read_call(flow, made.place).code("shuffle") == "True"


def _is_called_training(place: Place) -> bool | None:
    """What the names in the line of a call say of a loader: first of what it is assigned to, then of what it is given;
    None if they say nothing."""
    start, end = place.file.positions.of(place.node)
    statement = statement_of(place.file, place.node)
    first = place.file.positions.of(statement)[0] if statement is not None else start
    for text in (place.file.text[first:start], place.file.text[start:end]):
        training, other = "train" in text.lower(), _OTHER.search(text.lower()) is not None
        if training != other:
            return training
    return None


def _shared(flow: Dataflow, uses: Sequence[Made], watched: bool) -> Shared | None:
    place = uses[0].place
    if _comprehension(place) is not None:
        return _by_phase(place) if watched else None
    function = enclosing_function(place)
    if function is None:
        return None
    if any(use.via is None for use in uses):
        owner = enclosing_class(function)
        once = owner is None or len(flow.instances(owner)) < 2
        return None if once else Shared()
    calls = {use.via.key: use.via for use in uses if use.via is not None}
    if all(call.key in calls for call in flow.callers(function)):
        return None
    return _by_parameter(flow, function, list(calls.values()))


def _comprehension(place: Place) -> cst.BaseComp | None:
    return next((node for node in above(place) if isinstance(node, COMPREHENSIONS)), None)


def _by_phase(place: Place) -> Shared:
    """`{x: DataLoader(...) for x in ['train', 'val']}`: `x` tells which one is for training."""
    comprehension = _comprehension(place)
    loop = comprehension.for_in if isinstance(comprehension, (cst.DictComp, cst.ListComp)) else None
    if loop is None or not isinstance(loop.target, cst.Name) or loop.inner_for_in is not None:
        return Shared()
    phases = [string_value(element) for element in elements(loop.iter)]
    training = [phase for phase in phases if phase is not None and "train" in phase.lower()]
    if len(training) != 1 or None in phases:
        return Shared()
    quoted = next(place.file.code(element) for element in elements(loop.iter) if string_value(element) == training[0])
    return Shared(f"{loop.target.value} == {quoted}", f"{loop.target.value} != {quoted}")


def _by_parameter(flow: Dataflow, function: Place, training: Sequence[Place]) -> Shared:
    """A new parameter of the function that makes the loaders, which the calls for training pass."""
    node = function.node
    assert isinstance(node, cst.FunctionDef)
    names = {param.name.value for param in every_param(node.params)}
    bound = function.file.names.scopes.by_node[id(node)].bindings
    direct = all(len(flow.targets(call)) == 1 and _comprehension(call) is None for call in training)
    if "distributed" in names | set(bound) or node.decorators or not direct or node.params.star_kwarg is not None:
        return Shared()
    return Shared("distributed", "not distributed", function, tuple(training))


def new_parameter(function: Place, name: str) -> tuple[int, str]:
    """Where a parameter with the default False goes into a function, and its text with a comma if one is needed."""
    node = function.node
    assert isinstance(node, cst.FunctionDef)
    given = list(every_param(node.params))
    if not given:
        opening = function.file.text.index("(", function.file.positions.of(node.name)[1])
        return opening + 1, f"{name}=False"
    typed = any(param.annotation is not None for param in given)
    end = max(function.file.positions.of(part)[1] for part in children(given[-1]))
    return end, f", {name}: bool = False" if typed else f", {name}=False"
