"""The reasons why a training loader is left as it is, and what to write there by hand."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from gpu2npu.codemods.data_parallel.loaders.dataset import can_be_moved, is_iterable, is_plain
from gpu2npu.codemods.data_parallel.loaders.roles import Shared
from gpu2npu.codemods.program.loader_call import LoaderCall
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.text.blocks import own_lines
from gpu2npu.python.tree.place import AnyPlace, CallPlace, enclosing_function
from gpu2npu.python.tree.syntax import COMPREHENSIONS, FORS, argument_value, arguments, dotted_name

_RANKS = "dist.get_world_size()"
_RANDOM = frozenset({"torch.utils.data.RandomSampler", "torch.utils.data.sampler.RandomSampler"})
_DIVIDE = f"divide its batch size by {_RANKS}"


def is_distributed(flow: Dataflow, call: LoaderCall) -> bool:
    """Return whether the loader has a sampler for several ranks, if only under a condition."""
    given = [call.value(name) for name in ("sampler", "batch_sampler")]
    makers = [maker for value in given if value is not None for maker in flow.makers(call.place.beside(value))]
    return any("Distributed" in _called(maker) for maker in makers)


def _called(maker: CallPlace) -> str:
    return maker.file.qualified(maker.node.func) or dotted_name(maker.node.func) or ""


def obstacle(flow: Dataflow, call: LoaderCall, shared: Shared | None, entries: Sequence[str]) -> str | None:
    """Return why a training loader cannot be rewritten, and what to write; None if it can be."""
    if call.positional not in range(4) or "dataset" not in call.given:
        return f"It is not known what each argument of this DataLoader is: give it a DistributedSampler, and {_DIVIDE}."
    return next(_obstacles(flow, call, shared, entries), None)


def _obstacles(flow: Dataflow, call: LoaderCall, shared: Shared | None, entries: Sequence[str]) -> Iterator[str]:
    checks: tuple[Callable[[], str | None], ...] = (
        lambda: _of_samplers(flow, call),
        lambda: _of_dataset(flow, call),
        lambda: _of_sharing(call, shared),
        lambda: _of_time(call, entries),
        lambda: _of_batch_size(flow, call, shared),
    )
    for check in checks:
        found = check()
        if found is not None:
            yield found


def _of_samplers(flow: Dataflow, call: LoaderCall) -> str | None:
    if call.code("batch_sampler") not in {None, "None"}:
        return (
            "A batch sampler decides which samples form a batch: let it draw with one seed on all ranks, and yield "
            f"batch[dist.get_rank()::{_RANKS}] of each batch."
        )
    sampler = call.value("sampler")
    if sampler is not None and call.code("sampler") != "None":
        made = flow.makers(call.place.beside(sampler))
        if made and all(_is_random(maker) for maker in made):
            return (
                f"This sampler draws every sample once: write DistributedSampler({call.code('dataset')}) in place of "
                f"RandomSampler, call its set_epoch(epoch) in the loop over epochs, and {_DIVIDE}."
            )
        return (
            f"The program has a sampler of its own, {call.code('sampler')}: let it draw with one seed on all ranks and "
            f"yield indices[dist.get_rank()::{_RANKS}], and {_DIVIDE}."
        )
    return None


def _is_random(maker: CallPlace) -> bool:
    """`RandomSampler(dataset)`: without replacement, and as many samples as there are."""
    return _called(maker) in _RANDOM and len(arguments(maker.node)) == 1


def _of_dataset(flow: Dataflow, call: LoaderCall) -> str | None:
    if is_iterable(flow, call):
        return (
            f"An iterable dataset has no indices to share out: let its __iter__ yield every {_RANKS}-th sample, from "
            f"number dist.get_rank() on, and {_DIVIDE}."
        )
    if is_plain(argument_value(call.given["dataset"])) or can_be_moved(call):
        return None
    return (
        "The dataset is made inside this expression, and a sampler needs it too: give it a name in a line before, and "
        f"write DataLoader(NAME, batch_size=B // {_RANKS}, sampler=DistributedSampler(NAME), ...)."
    )


def _of_sharing(call: LoaderCall, shared: Shared | None) -> str | None:
    if shared is None or (shared.condition is not None and "batch_size" in call.given):
        return None
    return (
        "This call makes the loaders of training and others: write one DataLoader for training only, with "
        f"sampler=DistributedSampler({call.code('dataset')}) in place of shuffle, and {_DIVIDE} there."
    )


def _of_time(call: LoaderCall, entries: Sequence[str]) -> str | None:
    """A module is imported before its program has a process group."""
    if call.place.file.path in entries or enclosing_function(call.place) is not None:
        return None
    return (
        "This runs when the file is imported, before there are ranks to share with: move it into a function that the "
        f"program calls, with sampler=DistributedSampler({call.code('dataset')}) in place of shuffle, and {_DIVIDE}."
    )


def _of_batch_size(flow: Dataflow, call: LoaderCall, shared: Shared | None) -> str | None:
    size = call.code("batch_size")
    if size in {"1", "None"} or (size is None and not call.may_hold("batch_size")):
        return "A batch of one sample cannot be shared: choose a batch_size of at least one sample for each rank."
    if size is not None and ("shuffle" in call.given or not call.may_hold("shuffle")):
        return None
    if shared is None and call.keywords is not None and _owns_keywords(flow, call, call.keywords):
        return None
    return (
        "The contents of the keyword dictionary are not known, or other loaders get it too: give this loader a "
        f"batch_size of its own, divided by {_RANKS}, and sampler=DistributedSampler({call.code('dataset')}) in place "
        "of shuffle."
    )


def _owns_keywords(flow: Dataflow, call: LoaderCall, keywords: ast.expr) -> bool:
    """Return whether a dictionary is made for this call, and is unpacked only once."""
    file = call.place.file
    repeated = any(isinstance(node, (*FORS, ast.While, *COMPREHENSIONS)) for node in call.place.above())
    if repeated or call.keys is None or not isinstance(keywords, ast.Name) or own_lines(file, call.call) is None:
        return False
    values = flow.assigned(call.place.beside(keywords))
    unpacked = [node.value for node in file.nodes(ast.keyword) if node.arg is None]
    here = enclosing_function(call.place)
    local = all(_same(enclosing_function(value), here) for value in values)
    return bool(values) and local and sum(file.code(value) == keywords.id for value in unpacked) == 1


def _same(one: AnyPlace | None, other: AnyPlace | None) -> bool:
    return one is other if one is None or other is None else one.node is other.node
