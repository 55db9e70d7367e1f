"""Reports what DistributedDataParallel does otherwise than DataParallel where a rewritten program may notice it: parts
that a forward leaves out, models that go to the CPU and back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from gpu2npu.codemods.data_parallel.wrapping import Wrap, is_without_gradients, target_of
from gpu2npu.codemods.places import Step, is_skipped, replaced, reported
from gpu2npu.codemods.program.entries import Entries, all_calls, calls_in
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.program.model_class import model_class
from gpu2npu.codemods.program.model_uses import DISTRIBUTED_HAS
from gpu2npu.codemods.spellings import spelling
from gpu2npu.python.text.templates import code
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import function_above
from gpu2npu.python.tree.scopes import value_of
from gpu2npu.python.tree.syntax import (
    FORS,
    Function,
    argument_value,
    arguments,
    is_self,
    last_name,
    string_value,
)
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
_CHUNKS = (
    "This divides a batch into one part for each card of DataParallel, and a rank has one card, with batches of its "
    "own: write 1 here, and take out what the model's forward undoes of it."
)

_SEEDING = frozenset({"manual_seed", "seed_everything", "set_seed"})


def review(program: TrainingProgram, wraps: Sequence[Wrap], entries: Entries) -> Iterator[Step]:
    """Findings in the programs whose models are wrapped."""
    if not any(True for _ in entries.running(_seeding_calls)):
        for wrap in wraps:
            yield from _drawn_later(wrap)
    wrapped = {wrap.file.code(target) for wrap in wraps for target in [target_of(wrap)] if target is not None}
    for file, call in entries.running(all_calls):
        for home, count in _counts_cards(program, file, call):
            if not is_skipped(home, count):
                yield reported(home, count, home.code(count), _CHUNKS, FindingKind.REVIEW)
        for node, api, message in _reviewed(program, entries, file, call, wrapped):
            if not is_skipped(file, call):
                yield reported(file, node, api, message, FindingKind.REVIEW)


def _reviewed(
    program: TrainingProgram, entries: Entries, file: ParsedFile, call: ast.Call, wrapped: set[str]
) -> Iterator[tuple[ast.expr, str, str]]:
    """Yield what is to be reported of a call: the place, the name in the report, and the message."""
    if _is_summing_loss(program, entries, file, call):
        yield call, file.code(call.func), _SUM
    yield from ((left, file.code(left), _NOT_WRAPPED) for left in _not_wrapped(file, call, wrapped))
    if _goes_round(program, file, call):
        yield call.func, file.code(call.func), _ROUND


def _counts_cards(program: TrainingProgram, file: ParsedFile, call: ast.Call) -> Iterator[tuple[ParsedFile, ast.expr]]:
    """The numbers of cards in the collate function that a loader is given, or in its class, with their file."""
    for given in (keyword.value for keyword in call.keywords if keyword.arg == "collate_fn"):
        maker = given.func if isinstance(given, ast.Call) else given
        maker = given.args[0] if last_name(maker) == "partial" and isinstance(given, ast.Call) else maker
        found = file.names.definition(maker, file.scope_of(maker))
        home = program.file(found.names.path) if found is not None else None
        made = [(home, found.bound.node)] if found is not None and home is not None else []
        for each, whole in ((file, given), *made):
            inside = {*walk(whole)}
            for node in inside:
                value = each.scope_of(node).only_value(node.id) if isinstance(node, ast.Name) else node
                is_new = value is node or value not in inside
                if is_new and isinstance(value, ast.Call) and last_name(value.func) == "device_count":
                    yield each, node if isinstance(node, ast.Name) else value


def _seeding_calls(file: ParsedFile) -> list[ast.Call]:
    return [call for call in file.nodes(ast.Call) if last_name(call.func) in _SEEDING]


def _not_wrapped(file: ParsedFile, call: ast.Call, wrapped: set[str]) -> Iterator[ast.Call]:
    """`optimizer([*net.parameters(), *loss.parameters()])`, where only one of the two is wrapped."""
    if not call.args and not call.keywords:
        return
    inside = [
        (part, file.code(part.func.value))
        for part in calls_in(*arguments(call))
        if isinstance(part.func, ast.Attribute) and part.func.attr in {"parameters", "named_parameters"}
    ]
    if any(owner in wrapped for _, owner in inside):
        roots = {name.split(".")[0] for name in wrapped}
        yield from (part for part, owner in inside if owner.split(".")[0] not in roots)


def _is_summing_loss(program: TrainingProgram, entries: Entries, file: ParsedFile, call: ast.Call) -> bool:
    """`nn.MSELoss(reduction='sum')`, or `F.mse_loss(..., reduction='sum')` in a function that trains or that such a
    one calls."""
    sums = any(
        (keyword.arg == "reduction" and string_value(keyword.value) == "sum")
        or (keyword.arg == "size_average" and file.code(keyword.value) == "False")
        for keyword in call.keywords
    )
    if not sums or (last_name(call.func) or "").endswith("Loss") or _trains(program, file, call):
        return sums
    function = None if is_without_gradients(file, call) else function_above(file, call)
    return function is not None and function in set(_called_to_train(program, entries))


def _called_to_train(program: TrainingProgram, entries: Entries) -> Iterator[ast.AST | None]:
    """The functions, and forwards of modules, that a function which computes gradients calls."""
    for file, call in entries.running(all_calls):
        if _trains(program, file, call) and not is_without_gradients(file, call):
            found = file.names.definition(call.func, file.scope_of(call))
            if found is not None:
                yield found.bound.node
            elif (module := model_class(program, file, call.func)) is not None:
                yield module.method("forward")


def _trains(program: TrainingProgram, file: ParsedFile, node: ast.AST) -> bool:
    """Return whether the function around a node computes gradients."""
    return function_above(file, node) in program.of_file(_backward_calls, file)


def _backward_calls(file: ParsedFile) -> dict[Function | None, list[int]]:
    """Return the offsets at which each function of a file, and its code outside of them (None), calls `backward`."""
    found: dict[Function | None, list[int]] = {}
    for call in file.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
            found.setdefault(function_above(file, call), []).append(file.bounds(call)[0])
    return found


def _drawn_later(wrap: Wrap) -> Iterator[Step]:
    """`model.apply(init)`, `init_weights(model)`, or `nn.init` in a loop over `model.modules()`, below the wrap."""
    file, target = wrap.file, target_of(wrap)
    if target is None:
        return
    name, end = file.code(target), file.bounds(wrap.whole)[1]
    function = function_above(file, wrap.call)
    for call in file.nodes(ast.Call):
        if file.bounds(call)[0] < end or function_above(file, call) is not function:
            continue
        if _draws(file, call, name):
            yield reported(file, call, file.code(call.func), _DRAWN_LATER, FindingKind.REVIEW)


def _draws(file: ParsedFile, call: ast.Call, model: str) -> bool:
    """Return whether a call draws the weights of a model anew."""
    names = {model, f"{model}.module"}
    if isinstance(call.func, ast.Attribute) and call.func.attr == "apply" and file.code(call.func.value) in names:
        return True
    if _INITIALISES.search(last_name(call.func) or "") and any(
        file.code(argument_value(given)) in names for given in arguments(call)
    ):
        return True
    return _draws_in_loop(file, call, model)


def _draws_in_loop(file: ParsedFile, call: ast.Call, model: str) -> bool:
    """`for m in model.modules(): nn.init.normal_(m.weight)`"""
    return (file.qualified(call.func) or "").startswith("torch.nn.init.") and any(
        isinstance(part, FORS) and re.match(rf"{re.escape(model)}(\.module)?\.\w+\(", file.code(part.iter))
        for part in file.above(call)
    )


def _goes_round(program: TrainingProgram, file: ParsedFile, call: ast.Call) -> bool:
    """`model.module(x)`, or `model.module.encode(x)`, in a function that trains."""
    if not isinstance(call.func, ast.Attribute):
        return False
    parts = file.code(call.func).split(".")
    if "module" not in parts[1:]:
        return False
    last = parts[-1] == "module" or (parts[-2] == "module" and parts[-1] not in DISTRIBUTED_HAS | {"state_dict"})
    method = parts[-1] not in {"load_state_dict", "named_parameters"} and not parts[-1].startswith(_NO_FORWARD)
    return last and method and _trains(program, file, call) and not is_without_gradients(file, call)


def is_called_twice(program: TrainingProgram, wrap: Wrap, files: Iterable[ParsedFile]) -> bool:
    """Return whether a function calls the wrapped model twice before it computes gradients.

    Buffers must not be given to all processes again between the two calls: autograd refuses what was changed since.
    """
    target = target_of(wrap)
    name = wrap.file.code(target) if target is not None else None
    return name is not None and any(name in program.of_file(_called_twice, file) for file in files)


def _called_twice(file: ParsedFile) -> frozenset[str]:
    """Return the callees, as spelled, that some function of a file calls twice before it computes gradients."""
    backward = _backward_calls(file)
    calls: dict[tuple[Function | None, str], list[int]] = {}
    for call in file.nodes(ast.Call) if backward else ():
        function = function_above(file, call)
        if function in backward and isinstance(call.func, (ast.Name, ast.Attribute)):
            calls.setdefault((function, file.code(call.func)), []).append(file.bounds(call)[0])
    found: set[str] = set()
    for (function, name), places in calls.items():
        events = sorted([*((at, False) for at in backward[function]), *((at, True) for at in places)])
        last = max(backward[function])
        pairs = pairwise([is_call for at, is_call in events if at <= last])
        if any(one and other for one, other in pairs):
            found.add(name)
    return frozenset(found)


_SOMETIMES = (
    "{place} calls self.{part} only under a condition, and DistributedDataParallel stops at a step after one that left "
    "parameters unused: write find_unused_parameters=True here if training may leave it out."
)


def parts_left_out(program: TrainingProgram, wrap: Wrap) -> Iterator[Step]:
    """A finding for each part of the wrapped model that its forward may leave out."""
    model = model_class(program, wrap.file, wrap.module)
    forward = model.method("forward") if model is not None else None
    if model is None or forward is None:
        return
    for part, call in _conditional(model.file, forward):
        message = _SOMETIMES.format(place=f"{model.file.path}:{model.file.span(call).start_line}", part=part)
        yield reported(wrap.file, wrap.call, "find_unused_parameters", message, FindingKind.REVIEW)


def _conditional(file: ParsedFile, forward: Function) -> Iterator[tuple[str, ast.Call]]:
    """The submodules that forward calls under a condition on what it is given, and nowhere else."""
    calls: dict[str, list[ast.Call]] = {}
    for call in calls_in(*forward.body):
        if isinstance(call.func, ast.Attribute) and is_self(call.func.value):
            calls.setdefault(call.func.attr, []).append(call)
    owner = file.scope_of(forward.body[0]).enclosing_class()
    for name, found in calls.items():
        assigned = owner.attributes.get(name, ()) if owner is not None else ()
        is_part = any(isinstance(value_of(one), ast.Call) for one, _ in assigned)
        if is_part and all(_depends_on_input(file, call) for call in found):
            yield name, found[0]


def _depends_on_input(file: ParsedFile, call: ast.Call) -> bool:
    """Return whether a condition above the call is about more than the module itself, whose parts are there or not."""
    tests = (node.test for node in file.within(call) if isinstance(node, (ast.If, ast.IfExp)))
    return any(_names(test) - {"self", "torch", "len", "isinstance"} for test in tests)


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in walk(node) if isinstance(part, ast.Name)}


_COPY = "What is moved to the CPU is a copy: gradients of the model itself are averaged over processes as before."
_ADVICE = (
    "From here on the gradients of this model are not averaged over processes, also when it comes back: if training "
    "goes on, write `copy.deepcopy({module}).cpu()`, whose state dict has no prefix `module.`."
)


def keep_on_card(entries: Entries, wrapped: frozenset[str], single: str | None) -> Iterator[Step]:
    """`net.module.cpu().state_dict()` is that of a copy; other moves of a model to the CPU are reported. `wrapped` has
    the variables of models that were in DataParallel, `single` is that of a model for one card, as written."""
    for file, call in entries.running(_to_cpu):
        assert isinstance(call.func, ast.Attribute)
        model = call.func.value
        text = file.code(model)
        module = text if text.endswith(".module") else f"{text}.module"
        is_known = module == text or text == single
        if is_known and _is_saved(file, call):
            copied = spelling(file, "copy.deepcopy")
            yield from ((file, edit) for edit in copied.edits)
            template = "{copy}({model})" if module == text else "{copy}({model}.module)"
            retained = code(template, copy=copied.name, model=file.bounds(model))
            yield replaced(file, model, retained, _COPY)
        elif is_known or text in wrapped:
            yield reported(file, call, file.code(call.func), _ADVICE.format(module=module), FindingKind.REVIEW)


def _to_cpu(file: ParsedFile) -> list[ast.Call]:
    """The calls that move something to the CPU, but those that a comment keeps."""
    return [call for call in file.nodes(ast.Call) if _goes_to_cpu(file, call) and not is_skipped(file, call)]


def _goes_to_cpu(file: ParsedFile, call: ast.Call) -> bool:
    """`m.cpu()`, `m.to('cpu')`, `m.to(torch.device('cpu'))`"""
    if not isinstance(call.func, ast.Attribute):
        return False
    given = [argument_value(each) for each in arguments(call)]
    if call.func.attr == "cpu":
        return not given
    if call.func.attr != "to" or len(given) != 1:
        return False
    device = given[0]
    if isinstance(device, ast.Call) and len(arguments(device)) == 1:
        if file.qualified(device.func) != "torch.device":
            return False
        device = argument_value(arguments(device)[0])
    return string_value(device) == "cpu"


def _is_saved(file: ParsedFile, call: ast.Call) -> bool:
    """Return whether only a state dict is taken of what went to the CPU."""
    attribute = file.parents[call]
    return isinstance(attribute, ast.Attribute) and attribute.attr == "state_dict"
