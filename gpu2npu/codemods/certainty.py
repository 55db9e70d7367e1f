"""Whether a wrap in DataParallel can be rewritten with certainty, and what to write there by hand if not."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from gpu2npu.codemods.entry import Entry
from gpu2npu.codemods.program import ParsedFile, Program
from gpu2npu.codemods.wrapping import Wrap, target_of
from gpu2npu.python.blocks import block_of, same_line
from gpu2npu.python.syntax import FUNCTIONS, arguments, is_unpacked, last_name

# Calls by which a program, or a library it trains with, sees to processes itself.
_GROUPS = frozenset({"init_process_group", "init_distributed", "Accelerator"})
_SPAWN = frozenset({"torch.multiprocessing.spawn", "torch.multiprocessing.start_processes"})
_LOSS = re.compile(r"criteri|loss", re.IGNORECASE)

_NO_TRAINING = (
    "Nothing is trained here, and DistributedDataParallel is for training: write `{module}.npu()` to use one NPU, take "
    "`.module` out where it is used, and load a state dict that was saved from a wrapped model as "
    "`{{key.removeprefix('module.'): value for key, value in state.items()}}`; to use several NPUs start one process "
    "for each, with its share of the data."
)
_BY_HAND = (
    "in the script that trains, before anything is put on a device, write "
    "`torch.npu.set_device(int(os.environ['LOCAL_RANK']))` and `torch.distributed.init_process_group('hccl')`; here "
    "write `torch.nn.parallel.DistributedDataParallel({module}.npu(), device_ids=[torch.npu.current_device()])`; give "
    "the training DataLoader `sampler=DistributedSampler(dataset)` in place of shuffle, with its batch size divided by "
    "the number of processes; start it with run_distributed_npu.sh."
)


def reason_to_stay(program: Program, wrap: Wrap, programs: Sequence[Entry]) -> str | None:
    """Why a wrap stays as it is, and what to write there; None if it is rewritten. `programs` are those that run it."""
    module = wrap.module_code
    if not program.trains or (not programs and _is_for_evaluation(wrap)):
        return _NO_TRAINING.format(module=module)
    if not programs:
        return (
            "An NPU has no DataParallel, and no script that comes here was found (one that loads hundreds of files is "
            f"not followed): {_BY_HAND.format(module=module)}"
        )
    if _is_loss(wrap):
        return f"A loss has nothing to train, and DistributedDataParallel refuses it: write `{module}.npu()` here."
    if any(is_unpacked(given) for given in arguments(wrap.call)):
        return f"What is passed here is not known: {_BY_HAND.format(module=module)}"
    dim = wrap.dim
    if dim is not None and wrap.file.code(dim) != "0":
        return (
            f"The batch is in dimension {wrap.file.code(dim)}, and DistributedDataParallel splits nothing: let each "
            f"process load its own part of the batch; {_BY_HAND.format(module=module)}"
        )
    group = next((place for entry in programs for place in [own_group(entry)] if place is not None), None)
    if group is not None:
        return (
            f"The program makes its processes itself ({group}): start it that way on several NPUs, one process for "
            f"each, where the model is wrapped in DistributedDataParallel; here, for one NPU, write `{module}.npu()`."
        )
    if is_part(wrap) and whole_model(wrap) is None:
        return (
            "Only a part of the model is wrapped, and DistributedDataParallel must have the whole, or the rest is not "
            f"kept equal: leave `{module}` as it is, and wrap the model where it is made; "
            f"{_BY_HAND.format(module='model')}"
        )
    if not any(trains(entry) for entry in programs):
        return _NO_TRAINING.format(module=module)
    return None


def own_group(entry: Entry) -> str | None:
    """Where a program makes its process group, or starts its processes, itself: "train.py:12"."""
    return entry.program.once((own_group, entry), lambda: _own_group(entry))


def _own_group(entry: Entry) -> str | None:
    for file, call in entry.running(_group_calls):
        return f"{file.path}:{file.span(call).start_line}"
    return None


def _group_calls(file: ParsedFile) -> list[ast.Call]:
    """The calls that make a process group, or start processes."""
    return [
        call for call in file.nodes(ast.Call) if last_name(call.func) in _GROUPS or file.qualified(call.func) in _SPAWN
    ]


def trains(entry: Entry) -> bool:
    """Whether a program computes gradients."""
    return entry.program.once((trains, entry), lambda: any(True for _ in entry.running(_backward_calls)))


def _backward_calls(file: ParsedFile) -> list[ast.Call]:
    return [call for call in file.nodes(ast.Call) if last_name(call.func) == "backward"]


def _is_for_evaluation(wrap: Wrap) -> bool:
    """`DataParallel(inception).eval()`"""
    attribute = wrap.file.parents[wrap.whole]
    return isinstance(attribute, ast.Attribute) and attribute.attr == "eval"


def _is_loss(wrap: Wrap) -> bool:
    return bool(_LOSS.search(last_name(wrap.module) or "")) and not re.search(
        "model|net", wrap.module_code, re.IGNORECASE
    )


def is_part(wrap: Wrap) -> bool:
    """Whether the wrap replaces a part of a module: `model.features = DataParallel(model.features)`."""
    target = target_of(wrap)
    if not isinstance(target, ast.Attribute):
        return False
    owner = wrap.file.code(target.value)
    return _is_module_class(wrap.file, target) if owner == "self" else _is_used_as_module(wrap.file, owner)


def whole_model(wrap: Wrap) -> tuple[str, ast.stmt] | None:
    """The variable of the model of which a part is wrapped, and the statement that does so, if that always runs."""
    file, target = wrap.file, target_of(wrap)
    if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name) or target.value.id == "self":
        return None
    statement = file.statement(wrap.whole)
    owner = file.parents[statement]
    always = isinstance(owner, (ast.Module, *FUNCTIONS)) and block_of(file, statement) is owner.body
    return (target.value.id, statement) if always and len(same_line(file, statement)) == 1 else None


def _is_module_class(file: ParsedFile, node: ast.AST) -> bool:
    """Whether a method that holds the node belongs to a module."""
    scope = file.scope_of(node).enclosing_class()
    if scope is None or not isinstance(scope.node, ast.ClassDef):
        return False
    return any((last_name(base) or "").endswith("Module") for base in scope.node.bases)


def _is_used_as_module(file: ParsedFile, owner: str) -> bool:
    uses = rf"(?<![\w.]){re.escape(owner)}(?:\(|\.(?:parameters|cuda|train|eval|state_dict|to|load_state_dict)\()"
    return re.search(uses, file.text) is not None
