"""A wrapped model that goes to the CPU: its parameters lose the hooks by which gradients are averaged.

`Module.cpu()` gives each parameter data of another device, and autograd then makes a new gradient accumulator for it
(torch/csrc/autograd/variable.cpp, `set_data`), without the hook that DistributedDataParallel has put on the old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gpu2npu.codemods.entry import Entry
from gpu2npu.codemods.imports import spelling
from gpu2npu.codemods.places import Step, is_skipped, replaced, reported
from gpu2npu.codemods.program import ParsedFile
from gpu2npu.engine.tree import string_value
from gpu2npu.records import FindingKind

_COPY = "What goes to the CPU is a copy: gradients of the model itself are averaged over processes as before."
_ADVICE = (
    "From here on the gradients of this model are not averaged over processes, also when it comes back: if training "
    "goes on, write `copy.deepcopy({module}).cpu()`, whose state dict has no prefix `module.`."
)


def keep_on_card(entries: Sequence[Entry], wrapped: frozenset[str], single: str | None) -> Iterator[Step]:
    """`net.module.cpu().state_dict()` is that of a copy; other moves of a model to the CPU are reported. `wrapped` has
    the variables of models that were in DataParallel, `single` is that of a model for one card, as written."""
    for entry in entries:
        for file, call in entry.running(cst.Call):
            assert isinstance(call, cst.Call)
            if not _goes_to_cpu(file, call) or is_skipped(file, call):
                continue
            assert isinstance(call.func, cst.Attribute)
            model = call.func.value
            text = file.code(model)
            module = text if text.endswith(".module") else f"{text}.module"
            is_known = module == text or text == single
            if is_known and _is_saved(file, call):
                copied = spelling(file, "copy.deepcopy")
                yield from ((file, edit) for edit in copied.edits)
                yield replaced(file, model, f"{copied.name}({module})", _COPY)
            elif is_known or text in wrapped:
                yield reported(file, call, file.code(call.func), _ADVICE.format(module=module), FindingKind.REVIEW)


def _goes_to_cpu(file: ParsedFile, call: cst.Call) -> bool:
    """`m.cpu()`, `m.to('cpu')`, `m.to(torch.device('cpu'))`"""
    if not isinstance(call.func, cst.Attribute):
        return False
    if call.func.attr.value == "cpu":
        return not call.args
    if call.func.attr.value != "to" or len(call.args) != 1:
        return False
    device = call.args[0].value
    if isinstance(device, cst.Call) and len(device.args) == 1:
        if file.names.qualified(device.func, file.scope_of(device)) != "torch.device":
            return False
        device = device.args[0].value
    return string_value(device) == "cpu"


def _is_saved(file: ParsedFile, call: cst.Call) -> bool:
    """Whether only a state dict is taken of what went to the CPU."""
    attribute = file.parents.get(id(call))
    return isinstance(attribute, cst.Attribute) and attribute.attr.value == "state_dict"
