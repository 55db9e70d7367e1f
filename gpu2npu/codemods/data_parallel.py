"""DataParallel becomes DistributedDataParallel, and the program around it has one process for each card."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.codemods.entry import Entry, find_entries
from gpu2npu.codemods.places import by_file, reported
from gpu2npu.codemods.process_group import set_up
from gpu2npu.codemods.program import Program
from gpu2npu.codemods.wrapping import Wrap, distributed, find_wraps
from gpu2npu.engine.tree import last_name
from gpu2npu.records import FileRewrite, FindingKind

_LOSS = re.compile(r"criteri|loss", re.IGNORECASE)
_GROUPS = frozenset({"init_process_group", "init_distributed", "spawn"})


def data_parallel(program: Program, choice: CodemodChoice) -> dict[str, FileRewrite]:
    """Rewrite the wraps of programs that train, with all that follows from it; report those that stay."""
    if not choice.data_parallel:
        return {}
    wraps = list(find_wraps(program))
    if not wraps:
        return {}
    entries = find_entries(program, {wrap.file.path for wrap in wraps})
    reasons = {wrap: _reason(wrap, entries) for wrap in wraps}
    steps = [
        reported(wrap.file, wrap.call, "torch.nn.DataParallel", reason, FindingKind.UNSUPPORTED)
        for wrap, reason in reasons.items()
        if reason is not None
    ]
    rewritten = [wrap for wrap, reason in reasons.items() if reason is None]
    started = [entry for entry in entries if any(entry.runs(wrap.file, wrap.call) for wrap in rewritten)]
    for wrap in rewritten:
        steps += distributed(wrap, ())
    for entry in started:
        steps += set_up(entry)
    return by_file(steps)


def _reason(wrap: Wrap, entries: Sequence[Entry]) -> str | None:
    """Why a wrap stays as it is, and what to write there; None if it is rewritten."""
    module = wrap.module_code
    programs = [entry for entry in entries if entry.runs(wrap.file, wrap.call)]
    if not programs:
        return "no"
    if _LOSS.search(module):
        return f"A loss has no parameters to wrap: write {module}.npu()."
    if any(_calls(entry, _GROUPS) for entry in programs):
        return "groups"
    if not any(_calls(entry, frozenset({"backward"})) for entry in programs):
        return "inference"
    return None


def _calls(entry: Entry, names: frozenset[str]) -> bool:
    """Whether the program calls something of one of these names."""
    return any(isinstance(call, cst.Call) and last_name(call.func) in names for _, call in entry.running(cst.Call))
