"""Training loaders give each rank its share of every batch, or stay for a reason; the global batch is what it was."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from gpu2npu.codemods.data_parallel.loaders.call_edits import shard
from gpu2npu.codemods.data_parallel.loaders.dataset import can_be_moved, is_iterable, is_plain
from gpu2npu.codemods.data_parallel.loaders.epochs import set_epochs
from gpu2npu.codemods.data_parallel.loaders.findings import (
    count_shares,
    report_averages,
    report_downloads,
    report_sizes,
    report_splits,
)
from gpu2npu.codemods.data_parallel.loaders.roles import Shared, TrainingLoader, training_loaders
from gpu2npu.codemods.places import Rewriting, is_skipped
from gpu2npu.codemods.program.entries import dataflow_of
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.program.loader_call import LoaderCall, read_call
from gpu2npu.codemods.program.training_loops import BatchLoop, LoopFinder
from gpu2npu.codemods.spellings import RULE
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.text.blocks import line_statement
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import AnyPlace, CallPlace, enclosing_function, is_integer
from gpu2npu.python.tree.syntax import COMPREHENSIONS, FORS, argument_value, arguments, dotted_name
from gpu2npu.records import FileRewrite

API = "torch.utils.data.DataLoader"
# A file without any of these neither makes a loader, nor hands one on, nor trains.
_WORDS = rb"oader|backward|epoch"
_LEFT = (
    "Until then each rank trains on every batch: the result of one card, in the time of one card, as long as all ranks "
    "draw the same order (equal seeds)."
)


def shard_loaders(
    program: TrainingProgram,
    entries: Sequence[str],
    is_run: Callable[[ParsedFile, ast.AST], bool] = lambda file, node: True,
) -> dict[str, FileRewrite]:
    """Give the training loaders of the programs that start at `entries` a DistributedSampler and a batch size that is
    divided by the number of ranks, and call the sampler's `set_epoch` in the loop over epochs. A loop that trains and
    is not run by the programs, as `is_run` says, trains another model.

    Loaders that only feed evaluation stay whole, on every rank. Where a training loader is not rewritten, a finding
    says what to write.
    """
    flow = dataflow_of(program, entries, _WORDS)
    loops = [loop for loop in LoopFinder(flow).loops() if not loop.trains or is_run(loop.place.file, loop.place.node)]
    rewriting = Rewriting(RULE)
    sharded: list[TrainingLoader] = []
    shuffled: set[ast.Call] = set()
    whole: set[ast.Call] = set()
    for loader in training_loaders(flow, loops):
        call = read_call(flow, loader.place)
        if is_distributed(flow, call) or is_skipped(loader.place.file, loader.place.node):
            continue
        reason = obstacle(flow, call, loader.shared, entries)
        if reason is not None:
            whole.add(loader.place.node)
            rewriting.report(loader.place.file, loader.place.node, API, f"{reason} {_LEFT}")
            continue
        shard(program, call, loader.shared, rewriting)
        _report_remainder(call, rewriting)
        report_sizes(flow, call, rewriting)
        sharded.append(loader)
        if _may_shuffle(call):
            shuffled.add(loader.place.node)
    report_downloads(flow, rewriting)
    if sharded:
        report_splits(flow, rewriting)
    _report_loops(loops, sharded, rewriting)
    for loop in loops:
        own = [loader.place for loader in sharded if any(loader.is_made_as(made) for made in loop.made_by)]
        if loop.trains and own:
            report_averages(flow, loop, {read_call(flow, place).code("dataset") or "" for place in own}, rewriting)
    set_epochs(program, flow, [loop for loop in loops if loop.trains], shuffled, whole, rewriting)
    return rewriting.files()


def _may_shuffle(call: LoaderCall) -> bool:
    given = call.code("shuffle")
    return call.may_hold("shuffle") if given is None else given not in {"False", "None"}


def _report_remainder(call: LoaderCall, rewriting: Rewriting) -> None:
    """A batch size that eight ranks cannot share evenly changes the optimisation, a little."""
    value = call.value("batch_size")
    if not is_integer(value):
        return
    size = value.value
    if size % 8:
        rewriting.report(
            call.place.file,
            value,
            API,
            f"Choose a number of ranks that divides {size}: with another, the batch over all ranks is smaller"
            + (f" ({size // 8 * 8} with 8 ranks), and more than {size} ranks are an error." if size > 8 else "."),
        )


def _report_loops(loops: Sequence[BatchLoop], sharded: Sequence[TrainingLoader], rewriting: Rewriting) -> None:
    """Loops that train on what no DataLoader gives, and loops that only look at what is shared out now."""
    for loop in loops:
        if loop.trains and any(loader.is_made_as(made) for loader in sharded for made in loop.made_by):
            count_shares(loop, rewriting)
        file = loop.place.file
        is_test = isinstance(loop.place.node, ast.While) and loop.source.node is loop.place.node.test
        source = ("while " if is_test else "") + " ".join(file.code(loop.source.node).split())
        if loop.trains and not loop.made_by:
            rewriting.report(
                file,
                loop.place.node,
                "training loop",
                f"No DataLoader of the project is known to be behind {source}: let each rank train on its share of a "
                f"batch, batch[dist.get_rank()::dist.get_world_size()]. {_LEFT}",
            )
        elif (
            not loop.trains
            and not any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in walk(loop.place.node))
            and any(loader.is_made_as(made) for loader in sharded for made in loop.made_by)
        ):
            is_inner = isinstance(loop.place.node, ast.comprehension)  # which has no place of its own in the text
            rewriting.report(
                file,
                loop.source.node if is_inner else loop.place.node,
                "evaluation loop",
                f"{source} may be the training loader, of which each rank sees its own share: what is computed here "
                "then differs among ranks. Where all samples are meant, use a DataLoader without a DistributedSampler.",
            )


_RANKS = "dist.get_world_size()"
_RANDOM = frozenset({"torch.utils.data.RandomSampler", "torch.utils.data.sampler.RandomSampler"})
_DIVIDE = f"divide its batch size by {_RANKS}"


def is_distributed(flow: Dataflow, call: LoaderCall) -> bool:
    """Return whether the loader has a sampler for several ranks, if only under a condition."""
    named = (call.value(name) for name in ("sampler", "batch_sampler"))
    given = named if call.positional >= 0 else map(argument_value, arguments(call.call))
    makers = [maker for value in given if value is not None for maker in flow.makers(call.place.at(value))]
    return any("Distributed" in _called(maker) for maker in makers)


def _called(maker: CallPlace) -> str:
    return maker.file.qualified(maker.node.func) or dotted_name(maker.node.func) or ""


def obstacle(flow: Dataflow, call: LoaderCall, shared: Shared | None, entries: Sequence[str]) -> str | None:
    """Return why a training loader cannot be rewritten, and what to write; None if it can be."""
    if call.positional not in range(4) or "dataset" not in call.given:
        return f"It is not known what each argument of this DataLoader is: give it a DistributedSampler, and {_DIVIDE}."
    checks: tuple[Callable[[], str | None], ...] = (
        lambda: _of_samplers(flow, call),
        lambda: _of_dataset(flow, call),
        lambda: _of_sharing(call, shared),
        lambda: _of_time(call, entries),
        lambda: _of_batch_size(flow, call, shared),
    )
    return next((found for check in checks if (found := check()) is not None), None)


def _of_samplers(flow: Dataflow, call: LoaderCall) -> str | None:
    if call.code("batch_sampler") not in {None, "None"}:
        return (
            "A batch sampler decides which samples form a batch: let it draw with one seed on all ranks, and yield "
            f"batch[dist.get_rank()::{_RANKS}] of each batch."
        )
    sampler = call.value("sampler")
    if sampler is not None and call.code("sampler") != "None":
        made = flow.makers(call.place.at(sampler))
        if made and all(_called(maker) in _RANDOM and len(arguments(maker.node)) == 1 for maker in made):
            return (
                f"This sampler draws every sample once: write DistributedSampler({call.code('dataset')}) in place of "
                f"RandomSampler, call its set_epoch(epoch) in the loop over epochs, and {_DIVIDE}."
            )
        return (
            f"The program has a sampler of its own, {call.code('sampler')}: let it draw with one seed on all ranks and "
            f"yield indices[dist.get_rank()::{_RANKS}], and {_DIVIDE}."
        )
    return None


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
    if repeated or call.keys is None or not isinstance(keywords, ast.Name) or line_statement(file, call.call) is None:
        return False
    values = flow.assigned(call.place.at(keywords))
    unpacked = [node.value for node in file.nodes(ast.keyword) if node.arg is None]
    here = enclosing_function(call.place)
    local = all(_same(enclosing_function(value), here) for value in values)
    return bool(values) and local and sum(file.code(value) == keywords.id for value in unpacked) == 1


def _same(one: AnyPlace | None, other: AnyPlace | None) -> bool:
    return one is other if one is None or other is None else one.node is other.node
