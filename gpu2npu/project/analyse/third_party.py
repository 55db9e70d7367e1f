"""The mode third_party, for which the project is a library whose functions may not work on the NPU, and the use of its
tables in the analysis of a project that calls the library."""

from __future__ import annotations

from pathlib import Path

from gpu2npu.analysis.cuda_cpp.native_files import may_export
from gpu2npu.analysis.library.calls import ListedApi, library_calls, read_listed
from gpu2npu.analysis.library.unsupported_functions import analyse_library
from gpu2npu.deep_stack import with_deep_stack
from gpu2npu.project.analyse.session import Facts, Result
from gpu2npu.project.errors import UsageError
from gpu2npu.records import MigratedFile
from gpu2npu.report.third_party import third_party_tables


def third_party(facts: Facts) -> Result:
    """Find the functions of the library that reach an unsupported API, a CUDA operator or a CUDA API."""
    session = facts.session
    sources = session.read(path for path in session.tree.others if may_export(path)) | session.wanted
    reached, notes = with_deep_stack(lambda: analyse_library(session.location.root, sources, facts.release))
    return Result(third_party_tables(reached), tuple(notes))


def listed_calls(facts: Facts) -> list[MigratedFile]:
    """The calls of what the tables given with `-api` list. Raises UsageError if one of them cannot be used."""
    listed: dict[str, ListedApi] = {}
    for table in facts.choice.apis:
        _read(table, listed)
    return library_calls(facts.session.location.root, facts.sources, listed) if listed else []


def _read(table: Path, listed: dict[str, ListedApi]) -> None:
    try:
        read_listed(table.read_bytes(), listed)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"The table '{table}' of a library's functions cannot be used: {reason}.") from error
