"""What DistributedDataParallel does otherwise than DataParallel, where a rewritten program may notice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import libcst as cst

from gpu2npu.codemods.entry import Entry, calls_in, nodes_of
from gpu2npu.codemods.model_uses import DISTRIBUTED_HAS
from gpu2npu.codemods.places import Step, above, is_skipped, reported
from gpu2npu.codemods.program import ParsedFile
from gpu2npu.codemods.wrapping import Wrap, target_of
from gpu2npu.engine.tree import last_name, string_value
from gpu2npu.records import FindingKind

# How methods begin that do not compute what is trained.
_NO_FORWARD = ("save", "load", "init", "reset", "set_")
_INITIALISES = re.compile(r"init|reset_param", re.IGNORECASE)
_SUM = (
    "The loss is a sum over the batch, of which each process has a part, and gradients are averaged over processes: "
    "write `(loss * torch.distributed.get_world_size()).backward()`."
)
_DRAWN_LATER = (
    "Each process draws these weights for itself, after rank 0's were given to all: draw them before the model is "
    "wrapped, or call torch.manual_seed with the same number in every process before."
)
_NOT_WRAPPED = (
    "The optimizer has these parameters too, and their module is not wrapped, so their gradients are not averaged over "
    "processes: wrap it in torch.nn.parallel.DistributedDataParallel as the other is."
)
_ROUND = (
    "This calls the model inside the wrapper, so gradients are not averaged over processes: let the model's forward do "
    "it, and call the wrapped model."
)


def review(wraps: Sequence[Wrap], entries: Sequence[Entry]) -> Iterator[Step]:
    """Findings in the programs whose models are wrapped."""
    seeded = any(_calls(entry, {"manual_seed", "seed_everything", "set_seed"}) for entry in entries)
    for wrap in wraps:
        if not seeded:
            yield from _drawn_later(wrap)
    wrapped = {wrap.file.code(target) for wrap in wraps for target in [target_of(wrap)] if target is not None}
    for entry in entries:
        for file, call in entry.running(cst.Call):
            assert isinstance(call, cst.Call)
            if is_skipped(file, call):
                continue
            if _is_summing_loss(file, call):
                yield reported(file, call, file.code(call.func), _SUM, FindingKind.REVIEW)
            for left in _not_wrapped(file, call, wrapped):
                yield reported(file, left, file.code(left), _NOT_WRAPPED, FindingKind.REVIEW)
            if _goes_round(file, call):
                yield reported(file, call.func, file.code(call.func), _ROUND, FindingKind.REVIEW)


def _calls(entry: Entry, names: set[str]) -> bool:
    return any(isinstance(call, cst.Call) and last_name(call.func) in names for _, call in entry.running(cst.Call))


def _not_wrapped(file: ParsedFile, call: cst.Call, wrapped: set[str]) -> Iterator[cst.CSTNode]:
    """`optimizer([*net.parameters(), *loss.parameters()])`, where only one of the two is wrapped."""
    inside = [
        (part, file.code(part.func.value))
        for arg in call.args
        for part in calls_in(arg)
        if isinstance(part.func, cst.Attribute) and part.func.attr.value in {"parameters", "named_parameters"}
    ]
    if any(owner in wrapped for _, owner in inside):
        yield from (
            part for part, owner in inside if owner.split(".")[0] not in {name.split(".")[0] for name in wrapped}
        )


def _is_summing_loss(file: ParsedFile, call: cst.Call) -> bool:
    """`nn.MSELoss(reduction='sum')`, or `F.mse_loss(..., reduction='sum')` in a function that trains."""
    name = last_name(call.func) or ""
    sums = any(
        arg.keyword is not None
        and (
            (arg.keyword.value == "reduction" and string_value(arg.value) == "sum")
            or (arg.keyword.value == "size_average" and file.code(arg.value) == "False")
        )
        for arg in call.args
    )
    return sums and (name.endswith("Loss") or _trains(file, call))


def _trains(file: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether the function around a node computes gradients."""
    return bool(_backward_calls(file, _function(file, node)))


def _function(file: ParsedFile, node: cst.CSTNode) -> cst.CSTNode:
    return next((part for part in above(file, node) if isinstance(part, cst.FunctionDef)), file.module)


def _backward_calls(file: ParsedFile, function: cst.CSTNode) -> list[int]:
    """Where a function calls `backward`."""
    return [
        file.positions.of(call)[0]
        for call in nodes_of(file, cst.Call)
        if isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "backward"
        and _function(file, call) is function
    ]


def _drawn_later(wrap: Wrap) -> Iterator[Step]:
    """`model.apply(init)`, `init_weights(model)`, or `nn.init` in a loop over `model.modules()`, below the wrap."""
    file, target = wrap.file, target_of(wrap)
    if target is None:
        return
    name, end = file.code(target), file.positions.of(wrap.whole)[1]
    function = _function(file, wrap.call)
    for call in nodes_of(file, cst.Call):
        if file.positions.of(call)[0] < end or _function(file, call) is not function:
            continue
        applies = isinstance(call.func, cst.Attribute) and call.func.attr.value == "apply"
        owner = file.code(call.func.value) if isinstance(call.func, cst.Attribute) else ""
        given = any(file.code(arg.value) in {name, f"{name}.module"} for arg in call.args)
        if (
            (applies and owner in {name, f"{name}.module"})
            or (given and _INITIALISES.search(last_name(call.func) or ""))
            or _draws_in_loop(file, call, name)
        ):
            yield reported(file, call, file.code(call.func), _DRAWN_LATER, FindingKind.REVIEW)


def _draws_in_loop(file: ParsedFile, call: cst.Call, model: str) -> bool:
    """`for m in model.modules(): nn.init.normal_(m.weight)`"""
    name = file.names.qualified(call.func, file.scope_of(call)) or ""
    return name.startswith("torch.nn.init.") and any(
        isinstance(part, cst.For) and re.match(rf"{re.escape(model)}(\.module)?\.\w+\(", file.code(part.iter))
        for part in above(file, call)
    )


def _goes_round(file: ParsedFile, call: cst.Call) -> bool:
    """`model.module(x)`, or `model.module.encode(x)`, in a function that trains."""
    parts = file.code(call.func).split(".")
    if "module" not in parts[1:] or not isinstance(call.func, cst.Attribute):
        return False
    last = parts[-1] == "module" or (parts[-2] == "module" and parts[-1] not in DISTRIBUTED_HAS | {"state_dict"})
    method = parts[-1] not in {"load_state_dict", "named_parameters"} and not parts[-1].startswith(_NO_FORWARD)
    return last and method and _trains(file, call) and not _without_gradients(file, call)


def _without_gradients(file: ParsedFile, call: cst.Call) -> bool:
    return any(
        isinstance(part, cst.With) and any("no_grad" in file.code(item.item) for item in part.items)
        for part in above(file, call)
    )


def is_called_twice(wrap: Wrap, files: Iterable[ParsedFile]) -> bool:
    """Whether a function calls the wrapped model twice before it computes gradients. Buffers must not be given to all
    processes again between the two calls: autograd refuses what was changed since."""
    target = target_of(wrap)
    if target is None:
        return False
    name = wrap.file.code(target)
    for file in files:
        calls = [call for call in nodes_of(file, cst.Call) if file.code(call.func) == name]
        for function in {id(_function(file, call)): _function(file, call) for call in calls}.values():
            backward = _backward_calls(file, function)
            own = [file.positions.of(call)[0] for call in calls if _function(file, call) is function]
            last = max(backward, default=0)
            events = sorted([(at, True) for at in own if at < last] + [(at, False) for at in backward])
            if any(one[1] and other[1] for one, other in pairwise(events)):
                return True
    return False
