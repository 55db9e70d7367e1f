"""The mode third_party: the project is a library, and its own functions are what may not work on the NPU."""

from __future__ import annotations

from gpu2npu.analysis.cuda_operators import may_export
from gpu2npu.analysis.third_party import analyse_library
from gpu2npu.project.analysis import Facts, Result
from gpu2npu.report.third_party import third_party_tables


def third_party(facts: Facts) -> Result:
    """Which functions of the library reach an unsupported API, a CUDA operator or a CUDA API."""
    native, unread = facts.read(path for path in facts.tree.others if may_export(path))
    python = {path: source for path, source in facts.sources.items() if path.endswith(".py")}
    reached, notes = analyse_library(facts.root, native | python, facts.release)
    return Result(third_party_tables(reached), (*notes, *unread))
