"""Adapts or reports the other places of a program that rely on the batches and splits of one process."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from gpu2npu.codemods.places import Rewriting
from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.codemods.program.loader_call import LoaderCall
from gpu2npu.codemods.program.training_loops import BatchLoop
from gpu2npu.python.flow.dataflow import PASSED_ON, Dataflow
from gpu2npu.python.text.templates import plain
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import AnyPlace, Place, enclosing_function
from gpu2npu.python.tree.scopes import Parameter
from gpu2npu.python.tree.syntax import FUNCTIONS, argument_value, arguments, elements, last_name, shallow_nodes

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
    size = call.value("batch_size")
    if size is None:
        return
    sizes = set(_origins(flow, call.place.at(size), 3))
    for sized in flow.calls:
        if last_name(sized.node.func) not in _SIZED or not flow.are_together(call.place.file, sized.file):
            continue
        given = [part for each in arguments(sized.node) for part in _parts(argument_value(each))]
        used = [part for part in given if not sizes.isdisjoint(_origins(flow, sized.at(part), 3))]
        for part in used[:1]:
            code = sized.file.code(part)
            rewriting.report(
                sized.file,
                sized.node,
                "batch size",
                f"{code} is the batch of all ranks; a rank's own batch has {code} // "
                "dist.get_world_size() samples. Take the size from the batch, batch.size(0), where that is meant.",
            )


def _parts(value: ast.expr) -> list[ast.expr]:
    inner = value.value if isinstance(value, ast.Starred) else value
    return [inner, *elements(inner)]


def _origins(flow: Dataflow, place: AnyPlace, depth: int) -> Iterator[object]:
    """Yield the settings and quotients, as written, and the variables that a batch size comes from."""
    node = place.node
    if isinstance(node, (ast.Attribute, ast.BinOp)):
        yield place.code
    if not isinstance(node, ast.Name) or (found := place.file.scope_of(node).lookup(node.id)) is None:
        return
    yield id(found[0]), node.id
    sources = flow.assigned(place.at(node)) if depth else []
    if depth and isinstance(found[0].node, FUNCTIONS) and any(isinstance(each, Parameter) for each in found[1]):
        sources = flow.arguments(Place(place.file, found[0].node), node.id)
    for source in sources:
        yield from _origins(flow, source, depth - 1)


def count_shares(loop: BatchLoop, rewriting: Rewriting) -> None:
    """Averages over `len(loader.dataset)` beside a training loop, and steps by the loader's own batch size in the same
    code: a rank sees as many samples as its sampler has."""
    file = loop.place.file
    sources = {file.code(node) for node in walk(loop.source.node) if isinstance(node, (ast.Name, ast.Attribute))}
    function = enclosing_function(loop.place)
    looked_at = dict.fromkeys(walk(function.node if function is not None else loop.place.node))
    for node in looked_at if function is not None else shallow_nodes(file.tree.body):
        if not isinstance(node, ast.Call) or last_name(node.func) != "len" or len(node.args) != 1:
            continue
        counted = node.args[0]
        if not isinstance(counted, ast.Attribute) or counted.attr != "dataset":
            continue
        loader, divisor = file.code(counted.value), _divisor(file, node)
        if loader in sources and (divisor == f"{loader}.batch_size" or (not divisor and node in looked_at)):
            end = file.bounds(counted)[1]
            rewriting.put(file, end - len("dataset"), end, plain("sampler"), "A rank sees its share of the samples.")


def _divisor(file: ParsedFile, count: ast.expr) -> str:
    """Return what a number of samples is divided by, as for the steps of an epoch: code, "?" of more than one, or ""
    for nothing. The `batch_size` of a loader is that of one rank, and all else is the batch of all ranks."""
    for parent, node in file.steps(count):
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Div, ast.FloorDiv, ast.Mod)):
            return file.code(parent.right) if parent.left is node else ""
        if isinstance(parent, ast.Call):
            name, given = last_name(parent.func), parent.args
            if name in {"divmod", "range"} and len(given) > 1 and given[-1] is not node:
                return "?"
            if name not in {"ceil", "float", "floor", "int", "max", "min", "round"}:
                return ""
        elif isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            names = {file.code(target) for target in targets}
            function = file.scope_of(count).node
            uses = (each for each in walk(function) if isinstance(each, (ast.Name, ast.Attribute)))
            found = {_divisor(file, use) for use in uses if isinstance(use.ctx, ast.Load) and file.code(use) in names}
            divisors = found - {""}
            return divisors.pop() if len(divisors) == 1 else "?" if divisors else ""
        elif not isinstance(parent, (ast.BinOp, ast.UnaryOp)):
            return ""
    return ""


def report_averages(flow: Dataflow, loop: BatchLoop, datasets: Collection[str], rewriting: Rewriting) -> None:
    """Averages over `len(dataset)` beside a training loop, of the `datasets` (as written) that are shared out."""
    file, function = loop.place.file, enclosing_function(loop.place)
    loader = loop.source.node
    while isinstance(loader, ast.Call) and last_name(loader.func) in PASSED_ON and loader.args:
        loader = loader.args[0]
    counts = {f"len({text})" for text in datasets}
    for node in walk(function.node if function is not None else file.tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
            continue
        if any(maker.code in counts for maker in flow.makers(loop.place.at(node.right))):
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
        name = call.file.qualified(call.node.func) or ""
        given = {keyword.arg for keyword in call.node.keywords}
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
        downloads = [keyword.value for keyword in call.node.keywords if keyword.arg == "download"]
        name = (call.file.qualified(call.node.func) or "") if "True" in map(call.file.code, downloads) else ""
        if name.startswith(("torchvision.datasets.", "torchaudio.datasets.")):
            rewriting.report(
                call.file,
                call.node,
                name,
                "Every rank downloads into this folder, unless the files are there: run the program once on one card "
                "first, or make the dataset on rank 0 and let the others wait in dist.barrier() before they do.",
            )
