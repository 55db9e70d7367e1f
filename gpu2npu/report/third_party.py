"""The outcome of an analysis of a library, and its CSV files: the vendor's names and columns, columns of our own last.

The names of many functions share a cell, one a line, and no cell has more than 100 of them, as in the vendor's files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from msgspec import Struct

from gpu2npu.report.tables import Row, Table

FRAMEWORK = "framework_unsupported_op.csv"
FULL = "full_unsupported_results.csv"
MIGRATION = "migration_needed_op.csv"
OPERATORS = "cuda_op.csv"
UNKNOWN = "unknown_op.csv"

_BY_API = ("Torch API", "Affected 3rd-party API", "Kind", "Evidence", "Count", "Nearest Chain of Calls")
_BY_OPERATOR = ("OP Name", *_BY_API[1:])
_BY_FUNCTION = ("File", "3rd-party API", "Message", "Line", "Kind", "Chain of Calls")
_NAMES_A_CELL = 100
_SHOWN_STEPS = 12


class NeedKind(str, Enum):
    """The reason why a use of a name needs work; the values are in the column Kind."""

    UNSUPPORTED = "unsupported API"
    OPERATOR = "CUDA operator"
    MIGRATION = "migration"
    UNKNOWN = "unknown API"


class Need(Struct, frozen=True):
    """`api` is the name that needs something on the NPU, `evidence` a sentence that says what is known of it."""

    kind: NeedKind
    api: str
    evidence: str


class Affected(Struct, frozen=True):
    """A function, method or class of a library that reaches a need; a module, if importing it does.

    `names` are those it can be imported by, its own last. `chain` are the functions from itself to the one that has the
    need, each as (name, path, line that calls the next).
    """

    names: tuple[str, ...]
    path: str
    line: int
    chain: tuple[tuple[str, str, int], ...]


class ReachedNeed(Struct, frozen=True):
    """A need with everything that reaches it, sorted by the length of the chain and by name."""

    need: Need
    affected: tuple[Affected, ...]


def third_party_tables(reached: Iterable[ReachedNeed]) -> dict[str, Table]:
    """The five files by their names, those without rows too."""
    listed = sorted(reached, key=lambda each: (each.need.api, each.need.kind.value))
    of_kind = {kind: [each for each in listed if each.need.kind is kind] for kind in NeedKind}
    return {
        FRAMEWORK: Table(_BY_API, list(_rows_by_api(of_kind[NeedKind.UNSUPPORTED]))),
        FULL: Table(_BY_FUNCTION, _rows_by_function(of_kind[NeedKind.UNSUPPORTED] + of_kind[NeedKind.OPERATOR])),
        MIGRATION: Table(_BY_API, list(_rows_by_api(of_kind[NeedKind.MIGRATION]))),
        OPERATORS: Table(_BY_OPERATOR, list(_rows_by_api(of_kind[NeedKind.OPERATOR]))),
        UNKNOWN: Table(_BY_API, list(_rows_by_api(of_kind[NeedKind.UNKNOWN]))),
    }


def _rows_by_api(listed: Iterable[ReachedNeed]) -> Iterator[Row]:
    for each in listed:
        need = each.need
        names = list(dict.fromkeys(name for affected in each.affected for name in affected.names))
        nearest = _chain_text(each.affected[0], need.api) if each.affected else ""
        for start in range(0, len(names), _NAMES_A_CELL):
            cell = "\n".join(names[start : start + _NAMES_A_CELL])
            yield need.api, cell, need.kind.value, need.evidence, len(each.affected), nearest


def _rows_by_function(listed: Iterable[ReachedNeed]) -> list[Row]:
    found: dict[tuple[str, int, str], list[tuple[Need, Affected]]] = {}
    for each in listed:
        for affected in each.affected:
            place = affected.path, affected.line, "\n".join(affected.names)
            found.setdefault(place, []).append((each.need, affected))
    return [_function_row(place, found[place]) for place in sorted(found)]


def _function_row(place: tuple[str, int, str], needs: list[tuple[Need, Affected]]) -> Row:
    path, line, names = place
    # The message is as the vendor's tool writes it: one line for each use that is reached, and where it is.
    message = "".join(
        f"file_path:{affected.chain[-1][1]}, start_line:{affected.chain[-1][2]}, api_name:{need.api} \n"
        for need, affected in needs
    )
    kinds = "\n".join(dict.fromkeys(need.kind.value for need, _ in needs))
    return path, names, message, line, kinds, "\n".join(_chain_text(affected, need.api) for need, affected in needs)


def _chain_text(affected: Affected, api: str) -> str:
    steps = [f"{name} ({path}:{line})" for name, path, line in affected.chain]
    if len(steps) > _SHOWN_STEPS:
        steps = [*steps[: _SHOWN_STEPS - 2], f"... {len(steps) - _SHOWN_STEPS + 1} more", steps[-1]]
    return " -> ".join([*steps, api])
