"""Optimizers that update all parameters at once over joined memory, with what that asks of clearing and clipping."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.codemods.affinity.edit import ProgramReader
from gpu2npu.python.text.templates import code
from gpu2npu.python.tree.syntax import FUNCTIONS, arguments, is_unpacked
from gpu2npu.shapes.kind import AffinityReplacement

_ADAM = ("params", "lr", "betas", "eps", "weight_decay", "amsgrad")
# The options that the fused optimizer has too, in its order, and others that it has by name. Of the several Lamb on
# PyPI, torch_optimizer's computes what NpuFusedLamb does: pytorch_lamb's leaves parameters that are all zeros, and
# apex's corrects the bias and clips.
_OPTIONS = {
    "torch.optim.Adam": _ADAM,
    "torch.optim.AdamW": _ADAM,
    "torch.optim.SGD": ("params", "lr", "momentum", "dampening", "weight_decay", "nesterov"),
    "torch.optim.RMSprop": ("params", "lr", "alpha", "eps", "weight_decay", "momentum", "centered"),
    "torch.optim.Adadelta": ("params", "lr", "rho", "eps", "weight_decay"),
    "torch_optimizer.Lamb": ("params", "lr", "betas", "eps", "weight_decay"),
}
_NAMED = {"torch_optimizer.Lamb": frozenset({"adam"})}
# What shares or moves gradients, sets them to None, or hands the optimizer on; bfloat16, which the operator refuses.
_KEEPS = ("DataParallel", "FSDP", "deepspeed", "accelerat", "bfloat16", "torch.compile", "lightning", "fabric")
# Both PyTorch's scaler and torch_npu's unscale gradients in place.
_SCALERS = frozenset(
    f"{module}.GradScaler"
    for package in ("torch", "torch.cuda", "torch.npu", "torch_npu.npu")
    for module in (f"{package}.amp", f"{package}.amp.grad_scaler")
)
# Files that may take parameters or gradients out of the joined memory, or make sparse gradients.
_REPLACED = rb"\.grad\b|\.data\b|sparse|assign"
_METHODS = frozenset({"step", "zero_grad", "param_groups", "state_dict", "load_state_dict"})


def find(reading: ProgramReader, node: ast.Call) -> AffinityReplacement | None:
    """The making of an optimizer of which the function around shows every use."""
    file, name = reading.file, _public(reading.qualified(node.func))
    statement = file.statement(node)
    if name not in _OPTIONS or not _fits(node, name):
        return None
    if not isinstance(statement, ast.Assign) or statement.value is not node:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or len(statement.targets) != 1:
        return None
    if any(word in file.text for word in _KEEPS) or f"{ast.unparse(target)}.zero_grad(" not in file.text:
        return None
    if any(_leaves_memory(part) for each in reading.program.with_word(_REPLACED) for part in ast.walk(each.tree)):
        return None
    enclosing = next((each for each in file.above(node) if isinstance(each, (*FUNCTIONS, ast.Module))), None)
    changes = _changes(reading, enclosing, target, node) if enclosing is not None else None
    if changes is None:
        return None
    at = file.bounds
    given = tuple(map(at, (node.func, *node.args, *node.keywords)))
    return AffinityReplacement("optimizer", given, more=changes)


def _leaves_memory(node: ast.AST) -> bool:
    """Return whether code stores a tensor as a gradient or a parameter's data, or passes sparse=True or assign=True."""
    if isinstance(node, ast.keyword):
        return node.arg in ("sparse", "assign") and getattr(node.value, "value", True) is not False
    if not isinstance(node, ast.Attribute) or node.attr not in ("grad", "data"):
        return False
    return not isinstance(node.ctx, ast.Load) and ast.unparse(node.value) != "self"


def _public(qualified: str) -> str:
    """torch.optim.AdamW for torch.optim.adamw.AdamW, where the class is defined."""
    parts = qualified.split(".")
    package = next((each for each in ("torch.optim", "torch_optimizer") if qualified.startswith(f"{each}.")), "")
    return f"{package}.{parts[-1]}" if package else qualified


def _fits(node: ast.Call, name: str) -> bool:
    """Return whether the fused optimizer takes all that a call gives."""
    given = {each.arg for each in node.keywords}
    has_rate = name != "torch.optim.SGD" or "lr" in given or len(node.args) > 1
    if not has_rate or any(is_unpacked(each) for each in arguments(node)):
        return False
    known = _OPTIONS[name]
    return 0 < len(node.args) <= len(known) and given <= _NAMED.get(name, frozenset()).union(known)


def _changes(
    reading: ProgramReader, enclosing: ast.AST, target: ast.Name, node: ast.Call
) -> tuple[AffinityReplacement, ...] | None:
    """The clearing and clipping that change with an optimizer; None where it has a use that is not known."""
    found: list[AffinityReplacement] = []
    parents = reading.file.parents
    clears = False
    for part in ast.walk(enclosing):
        if isinstance(part, ast.Call) and _is_foreign_clearing(part, target.id):
            return None
        if isinstance(part, ast.Call) and reading.qualified(part.func).endswith("nn.utils.clip_grad_norm_"):
            found += _clipped(reading, part, target, node)
        if not isinstance(part, ast.Name) or part.id != target.id or part is target:
            continue
        owner = parents[part]
        if isinstance(part.ctx, ast.Store) or not _is_known(reading, owner, part):
            return None
        call = parents[owner]
        if isinstance(owner, ast.Attribute) and owner.attr == "zero_grad":
            clears = True
            given = [*call.args, *(each.value for each in call.keywords)] if isinstance(call, ast.Call) else []
            if not all(isinstance(each, ast.Constant) for each in given):
                return None
            if isinstance(call, ast.Call) and any(isinstance(each, ast.Constant) and each.value for each in given):
                cleared = code("{clear}()", clear=reading.file.bounds(owner))
                found.append(AffinityReplacement(text=cleared, at=reading.file.bounds(call)))
        if isinstance(owner, ast.Attribute) and owner.attr == "step" and not _is_plain_call(call, owner):
            return None  # the fused optimizer's step takes no closure
    return tuple(found) if clears else None


def _is_plain_call(call: ast.AST, function: ast.Attribute) -> bool:
    """Return whether a node calls a function with no argument."""
    return isinstance(call, ast.Call) and call.func is function and not arguments(call)


def _is_known(reading: ProgramReader, owner: ast.AST, part: ast.Name) -> bool:
    """Return whether a use of an optimizer is one of its methods, the making of a scheduler, or a scaler's step."""
    if isinstance(owner, ast.Attribute):
        return owner.attr in _METHODS
    if not isinstance(owner, ast.Call) or part not in owner.args:
        return False
    return _is_scaled(reading, owner) or reading.qualified(owner.func).startswith("torch.optim.lr_scheduler.")


def _is_scaled(reading: ProgramReader, call: ast.Call) -> bool:
    """Return whether a call is `scaler.step(optimizer)` or `scaler.unscale_(optimizer)` of a gradient scaler."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in ("step", "unscale_") or len(call.args) != 1:
        return False
    scaler = function.value
    made = reading.file.scope_of(scaler).only_value(scaler.id) if isinstance(scaler, ast.Name) else None
    return isinstance(made, ast.Call) and not call.keywords and reading.qualified(made.func) in _SCALERS


def _is_foreign_clearing(call: ast.Call, name: str) -> bool:
    """Return whether a call clears gradients other than by the optimizer."""
    function = call.func
    clears = isinstance(function, ast.Attribute) and function.attr == "zero_grad"
    return clears and isinstance(function, ast.Attribute) and ast.unparse(function.value) != name


def _clipped(reading: ProgramReader, call: ast.Call, target: ast.Name, node: ast.Call) -> Iterator[AffinityReplacement]:
    """The clipping of the parameters of the optimizer, and of no others."""
    same = call.args and ast.unparse(call.args[0]) == ast.unparse(node.args[0])
    known = {each.arg for each in call.keywords} <= {"max_norm", "norm_type"}
    if same and known and not any(is_unpacked(each) for each in arguments(call)):
        at = reading.file.bounds
        given = map(at, (*call.args, *call.keywords))
        yield AffinityReplacement("clip_grad_norm_", (code(target.id), *given), at=at(call))
