"""cuda_op_list.csv: the vendor's columns File and Api, then what else is known of a project's CUDA code."""

from __future__ import annotations

from collections.abc import Iterable

from gpu2npu.records import NativePlace
from gpu2npu.report.analysis_tables import Table

HEADER = ("File", "Api", "Line", "Kind", "Called From")


def cuda_op_table(places: Iterable[NativePlace]) -> Table:
    """One row a place; the lines of Python code that call it share a cell, one a line."""
    return Table(
        HEADER,
        [
            (place.path, place.api, place.line, place.kind.value, "\n".join(place.called_from))
            for place in sorted(set(places))
        ],
    )
