"""A wrapped model that goes to the CPU: its parameters lose the hooks by which gradients are averaged.

`Module.cpu()` gives each parameter data of another device, and autograd then makes a new gradient accumulator for it
(torch/csrc/autograd/variable.cpp, `set_data`), without the hook that DistributedDataParallel has put on the old one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.codemods.places import Step, is_skipped, replaced, reported
from gpu2npu.codemods.program.entries import Entries
from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.codemods.spellings import spelling
from gpu2npu.python.tree.syntax import argument_value, arguments, string_value
from gpu2npu.records import FindingKind

_COPY = "What goes to the CPU is a copy: gradients of the model itself are averaged over processes as before."
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
            retained = (f"{copied.name}(", file.bounds(model), f"{module.removeprefix(text)})")
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
