"""The calls of a project to a library of which an analysis has listed the functions: the tables of `-m third_party`,
read again for a project that uses it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from gpu2npu.analysis.library.graph import Use, library_name, uses_of
from gpu2npu.analysis.library.meanings import MeaningKind, Meanings
from gpu2npu.analysis.library.unsupported_functions import read_library
from gpu2npu.python.meaning.names import Names
from gpu2npu.records import Finding, FindingKind, MigratedFile, Span
from gpu2npu.report.tables import raw_cell
from gpu2npu.report.third_party import NeedKind
from gpu2npu.rulebook.match import SEVERITIES

_RULE = "third-party"
# The columns in which the vendor's tool, and this one, name the functions of a library.
_NAMES = ("3rd-party API", "Affected 3rd-party API")
_WHAT = ("Torch API", "OP Name")
_KINDS = {
    NeedKind.MIGRATION.value: FindingKind.REVIEW,
    NeedKind.UNKNOWN.value: FindingKind.UNKNOWN,
}
_WORST_FIRST = (FindingKind.UNSUPPORTED, FindingKind.UNKNOWN, FindingKind.REVIEW)


class ListedApi(Struct, frozen=True):
    """A function or class of a library that reaches `needs`, sorted names; empty where the table has none."""

    kind: FindingKind
    needs: tuple[str, ...]


def read_listed(table: bytes, found: dict[str, ListedApi]) -> None:
    """Adds to `found` the functions that a table of an analysis of a library lists, by their dotted names.

    A class is listed where its `forward` is. Tables of the vendor's tool, which have no column Kind, count as lists of
    what is unsupported. Raises ValueError: it is not such a table; the message says why.
    """
    csv.field_size_limit(1 << 30)
    try:
        rows = list(csv.DictReader(io.StringIO(table.decode("utf-8-sig", "replace"), newline="")))
    except csv.Error as error:
        raise ValueError(f"it is not a CSV file: {error}") from error
    header = next(csv.reader(io.StringIO(table.decode("utf-8-sig", "replace"), newline="")), [])
    column = next((name for name in _NAMES if name in header), None)
    if column is None:
        raise ValueError(f"it has no column {' or '.join(map(repr, _NAMES))}")
    for row in rows:
        kind = _KINDS.get(row.get("Kind") or "", FindingKind.UNSUPPORTED)
        needs = {raw_cell(row.get(name) or "") for name in _WHAT} - {""}
        for name in raw_cell(row[column] or "").split():
            for each in {name, name.removesuffix(".forward")}:
                found[each] = _joined(found.get(each), kind, needs)


def _joined(earlier: ListedApi | None, kind: FindingKind, needs: set[str]) -> ListedApi:
    kinds = {kind, earlier.kind if earlier is not None else kind}
    worst = next(each for each in _WORST_FIRST if each in kinds)
    return ListedApi(worst, tuple(sorted(needs.union(earlier.needs if earlier is not None else ()))))


def library_calls(root: Path, files: Mapping[str, bytes], listed: Mapping[str, ListedApi]) -> list[MigratedFile]:
    """The Python files of the project in `root` that use what is listed, with a finding for each place."""
    tops = {name.partition(".")[0].encode() for name in listed}
    python = {path: source for path, source in files.items() if path.endswith(".py")}
    if not any(top in source for source in python.values() for top in tops):
        return []
    meanings, _ = read_library(root, python)
    found: dict[str, dict[tuple[Span, str], Finding]] = {}
    for names in meanings.files():
        for use in uses_of(names.file):
            for name in _outside_names(meanings, use, names):
                if name in listed:
                    span = names.file.span(use.node)
                    kind, text = listed[name].kind, _message(name, listed[name])
                    finding = Finding(span, _RULE, kind, name, text, SEVERITIES[kind])
                    found.setdefault(names.path, {})[span, name] = finding
    return [MigratedFile(path, findings=tuple(found[path].values())) for path in sorted(found)]


def _outside_names(meanings: Meanings, use: Use, names: Names) -> Iterator[str]:
    for meaning in meanings.of(use.node, names) if use.how != "read" else ():
        if meaning.kind in (MeaningKind.NAME, MeaningKind.MEMBER):
            yield library_name(meaning)
        elif meaning.kind is MeaningKind.INSTANCE and use.how == "call":
            yield f"{library_name(meaning)}.forward"
        elif meaning.kind is MeaningKind.CLASS and use.how == "call":
            yield from (base.name for base in meanings.mro(meaning) if not base.path)


def _message(name: str, api: ListedApi) -> str:
    shown = ", ".join(api.needs[:5]) + (f" and {len(api.needs) - 5} more" if len(api.needs) > 5 else "")
    reaches = f" reaches {shown}, which" if shown else ""
    if api.kind is FindingKind.REVIEW:
        return f"{name}{reaches or ' reaches what'} a migration rewrites: migrate the library, too."
    if api.kind is FindingKind.UNKNOWN:
        return f"{name}{reaches or ' reaches what'} may not be supported on the NPU."
    return f"{name}{reaches or ' reaches what'} is not supported on the NPU: replace the call, or adapt the library."
