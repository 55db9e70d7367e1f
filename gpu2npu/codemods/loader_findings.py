"""What else in a program counted on the batches and splits of one process: counted anew, or told."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from gpu2npu.codemods.dataflow import PASSED_ON, Dataflow
from gpu2npu.codemods.loader_call import LoaderCall
from gpu2npu.codemods.rewriting import Rewriting
from gpu2npu.codemods.syntax import Place, enclosing_function, walk
from gpu2npu.codemods.training_loops import BatchLoop
from gpu2npu.engine.scopes import Parameter
from gpu2npu.engine.tree import elements, last_name

# Calls that take the sizes of a tensor: factories, reshapes, and the first states of recurrent networks.
_SIZED = frozenset(
    {
        "ones", "zeros", "full", "empty", "rand", "randn", "randint", "view", "reshape", "expand", "repeat", "Tensor",
        "FloatTensor", "LongTensor", "init_hidden", "initHidden", "init_state", "new_zeros", "new_ones", "new_full",
        "new_empty",
    }
)  # fmt: skip
_SEEDS = re.compile(rb"manual_seed|seed_everything|set_seed|fix_seed|seed_all")
# Functions that split data at random, and the parameter that makes the split the same every time.
_SPLITS = {
    "torch.utils.data.random_split": "generator",
    "torch.utils.data.dataset.random_split": "generator",
    "sklearn.model_selection.train_test_split": "random_state",
}


def report_sizes(flow: Dataflow, call: LoaderCall, rewriting: Rewriting) -> None:
    """The places where tensors get the batch size that the loader's batches no longer have."""
    arg = call.given.get("batch_size")
    if arg is None:
        return
    sizes = list(_same_value(flow, Place(call.place.file, arg.value), 3))
    texts = {size.file.code(size.node) for size in sizes}
    for file in flow.files.values():
        for node in walk(file.module):
            if not isinstance(node, cst.Call) or last_name(node.func) not in _SIZED:
                continue
            given = [part for arg in node.args for part in (arg.value, *elements(arg.value))]
            used = [part for part in given if file.code(part) in texts and _is_one_of(Place(file, part), sizes)]
            for part in used[:1]:
                rewriting.report(
                    file,
                    node,
                    "batch size",
                    f"{file.code(part)} is the batch of all ranks; a rank's own batch has {file.code(part)} // "
                    "dist.get_world_size() samples. Take the size from the batch, batch.size(0), where that is meant.",
                )


def _same_value(flow: Dataflow, place: Place, depth: int) -> Iterator[Place]:
    """The names and attributes that a batch size comes from, itself among them."""
    node = place.node
    if isinstance(node, cst.Attribute):
        yield place
    if not isinstance(node, cst.Name):
        return
    yield place
    found = place.file.scope_of(node).lookup(node.value)
    if found is None or depth == 0:
        return
    sources = flow.assigned(place)
    if isinstance(found[0].node, cst.FunctionDef) and any(isinstance(binding, Parameter) for binding in found[1]):
        sources = flow.arguments(Place(place.file, found[0].node), node.value)
    for source in sources:
        yield from _same_value(flow, source, depth - 1)


def _is_one_of(use: Place, sizes: Sequence[Place]) -> bool:
    """Whether an expression is one of those that hold the batch size: the same setting, or the same variable."""
    for size in sizes:
        if isinstance(use.node, cst.Attribute) and isinstance(size.node, cst.Attribute):
            if use.file.code(use.node) == size.file.code(size.node):
                return True
        elif isinstance(use.node, cst.Name) and isinstance(size.node, cst.Name) and use.node.value == size.node.value:
            one, other = (place.file.scope_of(place.node).lookup(use.node.value) for place in (use, size))
            if one is not None and other is not None and one[0] is other[0]:
                return True
    return False


def count_shares(loop: BatchLoop, rewriting: Rewriting) -> None:
    """Averages over `len(loader.dataset)` beside a training loop: a rank sees as many samples as its sampler has."""
    file = loop.place.file
    sources = {file.code(node) for node in walk(loop.source.node) if isinstance(node, (cst.Name, cst.Attribute))}
    function = enclosing_function(loop.place)
    for node in walk(function.node if function is not None else loop.place.node):
        if not isinstance(node, cst.Call) or last_name(node.func) != "len" or len(node.args) != 1:
            continue
        counted = node.args[0].value
        if (
            isinstance(counted, cst.Attribute)
            and counted.attr.value == "dataset"
            and file.code(counted.value) in sources
        ):
            rewriting.replace(file, counted.attr, "sampler", "A rank sees its share of the samples.")


def report_averages(flow: Dataflow, loop: BatchLoop, datasets: Collection[str], rewriting: Rewriting) -> None:
    """Averages over `len(dataset)` beside a training loop, of the `datasets` (as written) that are shared out."""
    file, function = loop.place.file, enclosing_function(loop.place)
    loader = loop.source.node
    while isinstance(loader, cst.Call) and last_name(loader.func) in PASSED_ON and loader.args:
        loader = loader.args[0].value
    for node in walk(function.node if function is not None else file.module):
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Divide):
            continue
        makers = flow.makers(Place(file, node.right))
        if any(maker.file.code(maker.node) in {f"len({text})" for text in datasets} for maker in makers):
            rewriting.report(
                file,
                node,
                "len",
                "A rank sees its share of the samples only: for an average over those of the training loop divide by "
                f"len({file.code(loader)}.sampler) in place of {file.code(node.right)}.",
            )


def report_splits(flow: Dataflow, rewriting: Rewriting) -> None:
    """Random splits in a program that seeds nothing: each rank would have another."""
    if any(_SEEDS.search(flow.program.sources[path]) for path in flow.files):
        return
    for call in flow.calls:
        assert isinstance(call.node, cst.Call)
        name = call.file.names.qualified(call.node.func, call.file.scope_of(call.node.func)) or ""
        given = {arg.keyword.value for arg in call.node.args if arg.keyword is not None}
        if name in _SPLITS and _SPLITS[name] not in given:
            rewriting.report(
                call.file,
                call.node,
                name,
                "Each rank splits the data in another way, so that one trains on what another validates on: call "
                "torch.manual_seed (and numpy.random.seed) with one number on all ranks before, or pass "
                f"{_SPLITS[name]}.",
            )


def report_downloads(flow: Dataflow, rewriting: Rewriting) -> None:
    """Datasets of torchvision and torchaudio that every rank would download into one folder."""
    for call in flow.calls:
        assert isinstance(call.node, cst.Call)
        name = call.file.names.qualified(call.node.func, call.file.scope_of(call.node.func)) or ""
        asked = [arg.value for arg in call.node.args if arg.keyword is not None and arg.keyword.value == "download"]
        if name.startswith(("torchvision.datasets.", "torchaudio.datasets.")) and "True" in map(call.file.code, asked):
            rewriting.report(
                call.file,
                call.node,
                name,
                "Every rank downloads into this folder, unless the files are there: run the program once on one card "
                "first, or make the dataset on rank 0 and let the others wait in dist.barrier() before they do.",
            )
