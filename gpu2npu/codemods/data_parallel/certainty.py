"""Judges whether a wrap in DataParallel can be rewritten with certainty, and says what to write by hand if not."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from msgspec import Struct

from gpu2npu.codemods.data_parallel.wrapping import Wrap, escapes, is_only_called_without_gradients, target_of
from gpu2npu.codemods.program.entries import Entry
from gpu2npu.codemods.program.files import SCALERS, ParsedFile, TrainingProgram, names_scaler
from gpu2npu.codemods.program.group_condition import always_has_group, group_place
from gpu2npu.codemods.program.model_class import (
    ModelClass,
    changes,
    forward_obstacle,
    freezes,
    grants_gradients,
    is_made_bare,
    learns_nothing,
    model_class,
)
from gpu2npu.python.text.blocks import same_line
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import function_above
from gpu2npu.python.tree.syntax import FUNCTIONS, arguments, is_unpacked, last_name, statements
from gpu2npu.records import FindingKind

_LOSS = re.compile(r"criteri|loss", re.IGNORECASE)

_NO_TRAINING = (
    "One NPU is used here: nothing is trained, and DistributedDataParallel is for training. To use several NPUs start "
    "one process for each, with its share of the data."
)
_OWN_PROCESSES = (
    "One NPU is used here: the program makes its processes itself ({place}). Start it that way on several NPUs, one "
    "process for each, where the model is wrapped in DistributedDataParallel."
)
_DEAD = (
    "Every start of this program has one process for each card ({place}), which is not DataParallel's: the line stays "
    "as it is, and should not run. Where it does, put the model on its NPU without a wrapper."
)
_FORWARD = (
    "One NPU is used here: {why}, and DistributedDataParallel averages gradients of what a forward has returned. To "
    "use several NPUs compute the loss in forward, and call backward() outside of it."
)
_NOTHING_TO_LEARN = "{what}, and DistributedDataParallel refuses such a module: every process has it on its own NPU."
OTHER_PROGRAMS = (
    "No script of the project comes here: without a process group the model is on one NPU. To use several, the program "
    "that calls this writes `torch.npu.set_device(int(os.environ['LOCAL_RANK']))` and "
    "`torch.distributed.init_process_group('hccl')` before anything is put on a device, and is started with "
    "run_distributed_npu.sh."
)
_READER = (
    "An NPU has no DataParallel. `.module` is read ({place}), perhaps of this model, which has none on one NPU "
    "without a process group: {by_hand}"
)
_BY_HAND = (
    "in the script that trains, before anything is put on a device, write "
    "`torch.npu.set_device(int(os.environ['LOCAL_RANK']))` and `torch.distributed.init_process_group('hccl')`; here "
    "write `torch.nn.parallel.DistributedDataParallel({module}.npu(), device_ids=[torch.npu.current_device()])`; give "
    "the training DataLoader `sampler=DistributedSampler(dataset)` in place of shuffle, with its batch size divided by "
    "the number of processes; start it with run_distributed_npu.sh."
)


class Obstacle(Struct, frozen=True):
    """The reason why a wrap does not become one in DistributedDataParallel, and what to do instead.

    `one_npu` means that the model is moved to one NPU without a wrapper; else the wrap stays as it is. `one_process`:
    this is so for the whole program.
    """

    message: str
    one_npu: bool = False
    one_process: bool = False
    kind: FindingKind = FindingKind.UNSUPPORTED


def reader_obstacle(wrap: Wrap, place: str) -> Obstacle:
    """The obstacle that code at a place may read the model's `.module`, which it would not always have."""
    return Obstacle(_READER.format(place=place, by_hand=_BY_HAND.format(module=wrap.module_code)))


def obstacle(program: TrainingProgram, wrap: Wrap, programs: Sequence[Entry]) -> Obstacle | None:
    """Return what keeps a wrap from being rewritten; None if nothing does. `programs` are those that run it."""
    found = _on_one_npu(program, wrap, programs)
    if found is not None:
        return found
    reason = _reason_to_stay(wrap, programs)
    return None if reason is None else Obstacle(reason)


def _on_one_npu(program: TrainingProgram, wrap: Wrap, programs: Sequence[Entry]) -> Obstacle | None:
    """Return why the model works without a wrapper, and not in DistributedDataParallel; None if it is not so."""
    is_library = all(entry.is_library for entry in programs)
    if not program.trains or (is_library and _is_for_evaluation(wrap)):
        return Obstacle(_NO_TRAINING, one_npu=True)
    model = model_class(program, wrap.file, wrap.module)
    why = forward_obstacle(model) if model is not None else None
    if why is not None:
        return Obstacle(_FORWARD.format(why=why), one_npu=True, one_process=True)
    if _is_loss(wrap) and (model is None or not _has_parameters(model)):
        return Obstacle(_NOTHING_TO_LEARN.format(what="A loss has nothing to train"), one_npu=True)
    is_made = model is None and is_made_bare(program, wrap.file, wrap.module, wrap.call)
    if is_made or (model is not None and learns_nothing(program, model)) or _is_frozen(wrap):
        return Obstacle(_NOTHING_TO_LEARN.format(what="No parameter here requires a gradient"), one_npu=True)
    group = next((place for entry in programs for place in [group_place(entry)] if place is not None), None)
    if group is not None and programs and all(map(always_has_group, programs)):
        return Obstacle(_DEAD.format(place=group), kind=FindingKind.REVIEW)
    if group is not None:
        return Obstacle(_OWN_PROCESSES.format(place=group), one_npu=True)
    trained = any(trains(entry) or (entry.is_library and escapes(wrap)) for entry in programs)
    if (programs and not trained) or is_only_called_without_gradients(wrap):
        return Obstacle(_NO_TRAINING, one_npu=True)
    return None


def _reason_to_stay(wrap: Wrap, programs: Sequence[Entry]) -> str | None:
    """Return why a wrap stays as it is, and what to write there; None if it does not stay."""
    module = wrap.file.code(_unmoved(wrap.module))
    if not programs:
        return (
            "An NPU has no DataParallel, and no script that comes here was found (one that loads hundreds of files is "
            f"not followed): {_BY_HAND.format(module='model')}"
        )
    if any(is_unpacked(given) for given in arguments(wrap.call)):
        return f"What is passed here is not known: {_BY_HAND.format(module=module)}"
    dim = wrap.dim
    if dim is not None and wrap.file.code(dim) != "0":
        return (
            f"The batch is in dimension {wrap.file.code(dim)}, and DistributedDataParallel splits nothing: let each "
            f"process load its own part of the batch; {_BY_HAND.format(module=module)}"
        )
    if is_part(wrap) and whole_model(wrap) is None:
        return (
            "Only a part of the model is wrapped, and DistributedDataParallel must have the whole, or the rest is not "
            f"kept equal: leave `{module}` as it is, and wrap the model where it is made; "
            f"{_BY_HAND.format(module='model')}"
        )
    return None


def _has_parameters(model: ModelClass) -> bool:
    """Return whether a class has parameters of its own: a loss with centers or weights that are learnt."""
    return any(isinstance(node, ast.Call) and last_name(node.func) == "Parameter" for node in walk(model.node))


def _unmoved(module: ast.expr) -> ast.expr:
    """`teacher` of `teacher.cuda().eval()`"""
    while isinstance(module, ast.Call) and isinstance(module.func, ast.Attribute):
        if module.func.attr not in {"cuda", "eval", "to", "train"}:
            break
        module = module.func.value
    return module


def _is_frozen(wrap: Wrap) -> bool:
    """Return whether a statement that always runs before the wrap takes the gradients of all parameters."""
    file, code = wrap.file, wrap.file.code(_unmoved(wrap.module))
    function = function_above(file, wrap.call)
    start, _ = file.bounds(wrap.call)
    above = {file.statement(wrap.call), *file.above(wrap.call)}
    frozen = False
    for statement in statements((function or file.tree).body):
        if file.bounds(statement)[0] < start and freezes(file, statement, code):
            frozen = any(part in above for part in file.block(statement))
        elif grants_gradients(file, statement, code) or (
            file.bounds(statement)[1] < start and changes(file, statement, code)
        ):
            frozen = False
    return frozen


def trains(entry: Entry) -> bool:
    """Return whether a program computes gradients."""
    return entry.program.once((trains, entry), lambda: any(True for _ in entry.running(_backward_calls)))


def _backward_calls(file: ParsedFile) -> list[ast.Call]:
    """`loss.backward()`, not what the backward of an operator calls; what makes an object that does so."""
    calls = [call for call in file.nodes(ast.Call) if last_name(call.func) == "backward"]
    some = file.nodes(ast.Call) if names_scaler(file) else ()
    makers = [call for call in some if file.qualified(call.func) in SCALERS]
    return [*makers, *(call for call in calls if getattr(function_above(file, call), "name", "") != "backward")]


def _is_for_evaluation(wrap: Wrap) -> bool:
    """`DataParallel(inception).eval()`"""
    attribute = wrap.file.parents[wrap.whole]
    return isinstance(attribute, ast.Attribute) and attribute.attr == "eval"


def _is_loss(wrap: Wrap) -> bool:
    return bool(_LOSS.search(last_name(wrap.module) or "")) and not re.search(
        "model|net", wrap.module_code, re.IGNORECASE
    )


def is_part(wrap: Wrap) -> bool:
    """Return whether the wrap replaces a part of a module: `model.features = DataParallel(model.features)`."""
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
    always = isinstance(owner, (ast.Module, *FUNCTIONS)) and file.block(statement) is owner.body
    return (target.value.id, statement) if always and len(same_line(file, statement)) == 1 else None


def _is_module_class(file: ParsedFile, node: ast.AST) -> bool:
    """Return whether a method that holds the node belongs to a module."""
    scope = file.scope_of(node).enclosing_class()
    if scope is None or not isinstance(scope.node, ast.ClassDef):
        return False
    return any((last_name(base) or "").endswith("Module") for base in scope.node.bases)


def _is_used_as_module(file: ParsedFile, owner: str) -> bool:
    uses = rf"(?<![\w.]){re.escape(owner)}(?:\(|\.(?:parameters|cuda|train|eval|state_dict|to|load_state_dict)\()"
    return re.search(uses, file.text) is not None
