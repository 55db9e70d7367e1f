"""Training loaders give each rank its share of every batch; the global batch stays what it was."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpu2npu.codemods.data_parallel.loaders.call_edits import shard
from gpu2npu.codemods.data_parallel.loaders.epochs import set_epochs
from gpu2npu.codemods.data_parallel.loaders.findings import (
    count_shares,
    report_averages,
    report_downloads,
    report_sizes,
    report_splits,
)
from gpu2npu.codemods.data_parallel.loaders.obstacles import is_distributed, obstacle
from gpu2npu.codemods.data_parallel.loaders.roles import TrainingLoader, training_loaders
from gpu2npu.codemods.places import Rewriting, is_skipped
from gpu2npu.codemods.program.entries import dataflow_of
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.codemods.program.loader_call import LoaderCall, read_call
from gpu2npu.codemods.program.training_loops import BatchLoop, LoopFinder
from gpu2npu.codemods.spellings import RULE
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import is_integer
from gpu2npu.records import FileRewrite

API = "torch.utils.data.DataLoader"
# A file without any of these neither makes a loader, nor hands one on, nor trains.
_WORDS = rb"oader|backward|epoch"
_LEFT = (
    "Until then each rank trains on every batch: the result of one card, in the time of one card, as long as all ranks "
    "draw the same order (equal seeds)."
)


def shard_loaders(program: TrainingProgram, entries: Sequence[str]) -> dict[str, FileRewrite]:
    """Give the training loaders of the programs that start at `entries` a DistributedSampler and a batch size that is
    divided by the number of ranks, and call the sampler's `set_epoch` in the loop over epochs.

    Loaders that only feed evaluation stay whole, on every rank. Where a training loader is not rewritten, a finding
    says what to write.
    """
    flow = dataflow_of(program, entries, _WORDS)
    loops = LoopFinder(flow).loops()
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


def _hands_on(loop: BatchLoop) -> bool:
    """Return whether a loop only yields the batches to another."""
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in walk(loop.place.node))


def _report_loops(loops: Sequence[BatchLoop], sharded: Sequence[TrainingLoader], rewriting: Rewriting) -> None:
    """Loops that train on what no DataLoader gives, and loops that only look at what is shared out now."""
    for loop in loops:
        if loop.trains and any(loader.is_made_as(made) for loader in sharded for made in loop.made_by):
            count_shares(loop, rewriting)
        file = loop.place.file
        source = " ".join(file.code(loop.source.node).split())
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
            and not _hands_on(loop)
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
