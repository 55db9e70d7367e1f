"""Programs that share rewritten code with those that have a process group, and have none themselves."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from gpu2npu.codemods.entry import find_entries, nodes_of
from gpu2npu.codemods.program import ParsedFile, Program
from gpu2npu.codemods.rewriting import Rewriting

API = "torch.distributed.init_process_group"


def report_other_programs(program: Program, entries: Sequence[str], rewriting: Rewriting) -> None:
    """Functions that ask for the rank, or the number of ranks, now, and are also run by programs not in `entries`."""
    asking = {
        path: offsets for path in rewriting.edited() if path not in entries and (offsets := rewriting.asking(path))
    }
    if not asking:
        return
    others = [entry for entry in find_entries(program, asking) if entry.file.path not in entries]
    for path, offsets in asking.items():
        file = program.file(path)
        for function in _functions_at(file, offsets) if file is not None else ():
            assert file is not None
            names = [entry.file.path for entry in others if entry.runs(file, function.body)]
            if names:
                rewriting.report(
                    file,
                    function.name,
                    API,
                    f"{', '.join(names[:3])} runs this too, without a process group: call "
                    "torch.distributed.init_process_group there first, as the program for many cards does.",
                )


def _functions_at(file: ParsedFile, offsets: Sequence[int]) -> list[cst.FunctionDef]:
    """The functions that hold some offsets of the text."""
    found = []
    for node in nodes_of(file, cst.FunctionDef):
        start, end = file.positions.of(node)
        if isinstance(node, cst.FunctionDef) and any(start <= offset < end for offset in offsets):
            found.append(node)
    return found
