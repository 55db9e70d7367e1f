"""The DataLoader calls that make training loaders, and what distinguishes those that a call makes besides others."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.codemods.program.loader_call import read_call
from gpu2npu.codemods.program.training_loops import BatchLoop
from gpu2npu.python.flow.dataflow import Dataflow, Made
from gpu2npu.python.text.blocks import line_statement, start_of
from gpu2npu.python.text.concrete import outer_bounds
from gpu2npu.python.text.templates import code, plain
from gpu2npu.python.tree.place import CallPlace, FunctionPlace, enclosing_class, enclosing_function
from gpu2npu.python.tree.syntax import COMPREHENSIONS, Comprehension, defaults, elements, parameters, string_value
from gpu2npu.records import NewText

# Words in the names of loaders that are not for training.
_OTHER = re.compile(r"val|test|eval|dev(?!ice)|held_?out")


class Shared(Struct, frozen=True, eq=False):
    """A call that also makes loaders that are not trained on. `condition` is true where the training loader is made;
    if it is a new parameter of `function`, the calls `training` pass it. Both are None where they are not known."""

    condition: NewText | None = None
    negation: NewText | None = None
    function: FunctionPlace | None = None
    training: tuple[CallPlace, ...] = ()


class TrainingLoader(Struct, frozen=True, eq=False):
    """A DataLoader call that makes a training loader."""

    place: CallPlace
    shared: Shared | None

    def is_made_as(self, made: Made) -> bool:
        """Return whether a loader may be this one, and not another that the same call makes."""
        if made.key is not self.place.node:
            return False
        calls = self.shared.training if self.shared is not None else ()
        return not calls or any(made.via is not None and made.via.node is call.node for call in calls)


def training_loaders(flow: Dataflow, loops: Sequence[BatchLoop]) -> list[TrainingLoader]:
    """The DataLoader calls whose batches train a model, in the order of files and lines."""
    trained: dict[ast.Call, list[Made]] = {}
    watched: set[ast.Call] = set()  # by loops that do not train, or not always
    for loop in loops:
        for made in loop.made_by:
            if _trains_on(flow, loop, made):
                trained.setdefault(made.key, []).append(made)
            if not loop.always:
                watched.add(made.key)
    found = [TrainingLoader(uses[0].place, _shared(flow, uses, key in watched)) for key, uses in trained.items()]
    return sorted(found, key=lambda loader: (loader.place.file.path, loader.place.file.bounds(loader.place.node)))


def _trains_on(flow: Dataflow, loop: BatchLoop, made: Made) -> bool:
    """Return whether a loop trains on a loader.

    Of several that it trains or validates on, it trains on those that are called so, or else on those that are
    shuffled.
    """
    if not loop.trains:
        return False
    if loop.always or len(loop.made_by) == 1:
        return True
    is_only = sum(other.key is made.key for other in loop.made_by) == 1
    named = _is_called_training(made.place) if is_only or made.via is None else _is_called_training(made.via)
    return named if named is not None else read_call(flow, made.place).code("shuffle") == "True"


def _is_called_training(place: CallPlace) -> bool | None:
    """Return whether the names in the line of a call speak of training; None if they say nothing.

    The names that the loader is assigned to are tested first, then those in what it is given.
    """
    start, end = place.file.bounds(place.node)
    statement = line_statement(place.file, place.node)
    first = start_of(place.file, statement) if statement is not None else start
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
        once = owner is None or len(flow.callers(place.at(owner))) < 2
        return None if once else Shared()
    calls = {use.via.node: use.via for use in uses if use.via is not None}
    if all(call.node in calls for call in flow.callers(function)):
        return None
    return _by_parameter(flow, function, list(calls.values()))


def _comprehension(place: CallPlace) -> Comprehension | None:
    return next((node for node in place.above() if isinstance(node, COMPREHENSIONS)), None)


def _by_phase(place: CallPlace) -> Shared:
    """`{x: DataLoader(...) for x in ['train', 'val']}`: `x` names the one that is for training."""
    comprehension = _comprehension(place)
    if not isinstance(comprehension, (ast.DictComp, ast.ListComp)) or len(comprehension.generators) != 1:
        return Shared()
    loop = comprehension.generators[0]
    if not isinstance(loop.target, ast.Name):
        return Shared()
    phases = [string_value(element) for element in elements(loop.iter)]
    training = [phase for phase in phases if phase is not None and "train" in phase.lower()]
    if len(training) != 1 or None in phases:
        return Shared()
    quoted = next(place.file.code(element) for element in elements(loop.iter) if string_value(element) == training[0])
    comparisons = ("{phase} == {training}", "{phase} != {training}")
    is_one, is_other = (code(each, phase=loop.target.id, training=quoted) for each in comparisons)
    return Shared(is_one, is_other)


def _by_parameter(flow: Dataflow, function: FunctionPlace, training: Sequence[CallPlace]) -> Shared:
    """A new parameter of the function that makes the loaders, which the calls for training pass."""
    node = function.node
    bound = function.file.scopes[node].bindings
    direct = all(len(flow.targets(call)) == 1 and _comprehension(call) is None for call in training)
    if "distributed" in bound or node.decorator_list or not direct or node.args.kwarg is not None:
        return Shared()
    return Shared(plain("distributed"), code("not distributed"), function, tuple(training))


def where_there_is_a_group(shared: Shared | None, group: NewText) -> Shared:
    """The condition of a call that also runs without a process group; `group` is the condition that there is one.
    A parameter stays as it is: the calls pass the condition."""
    if shared is None:
        return Shared(group, code("not {group}", group=group))
    if shared.function is not None or shared.condition is None:
        return shared
    both = code("{condition} and {group}", condition=shared.condition, group=group)
    return replace(shared, condition=both, negation=code("not {both}", both=both))


def new_parameter(function: FunctionPlace, name: str) -> tuple[int, NewText]:
    """Return the offset for a parameter with the default False in a function, and its text, with a comma if needed."""
    file, node = function.file, function.node
    given = parameters(node)
    if not given:
        start = file.bounds(node)[0]
        opening = file.text.index("(", file.text.index(node.name, file.text.index("def", start) + 3))
        return opening + 1, code("{name}=False", name=name)
    typed = any(parameter.annotation is not None for parameter in given)
    ends = [file.bounds(given[-1])[1]]
    ends += [outer_bounds(file, default)[1] for parameter, default in defaults(node) if parameter is given[-1]]
    return max(ends), code(", {name}: bool = False" if typed else ", {name}=False", name=name)
