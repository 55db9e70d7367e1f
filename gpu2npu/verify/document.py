"""A comparison as data: what `--format json` prints and the page shows. `report.schema.json` describes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpu2npu.verify.baseline import Against
from gpu2npu.verify.comparing.causes import explain
from gpu2npu.verify.comparing.changes import read_changes, touching
from gpu2npu.verify.comparing.compare import Comparison, Difference, Measured
from gpu2npu.verify.recording.records import RecordedEvent, Recording
from gpu2npu.verify.unplayed import Unplayed

VERSION = 1
_DIFFERENCES = 200  # the first of them are listed
_CONTEXT_LINES = 3  # lines of code shown before and after one

Document = dict[str, Any]
Sources = dict[str, dict[str, str]]


def document(
    comparison: Comparison,
    original: Path | None,
    migrated: Path,
    held: Against | None = None,
    missing: Sequence[Unplayed] = (),
) -> Document:
    """The comparison of the projects in two folders; without `original`, its code is not shown.

    `held` is the migrated program against its baseline, `missing` what the CPU could not play of the original. Numbers
    that JSON lacks are strings: "inf" and "nan".
    """
    first = comparison.first
    losses = comparison.original.losses, comparison.migrated.losses
    sources = {
        "original": _sources(original, comparison.original),
        "migrated": _sources(migrated, comparison.migrated),
    }
    return {
        "version": VERSION,
        "verdict": "same" if first is None else "diverged",
        "steps": comparison.steps,
        "compared": len(comparison.measured),
        "hf32": [family for family in comparison.migrated.reduced if family in comparison.coarse],
        "compile_switched_off": comparison.compile_switched_off,
        "behaviour": dict(comparison.migrated.behaviour),
        "unplayed": [asdict(each) for each in missing],
        "rank": comparison.migrated.rank,
        "ranks": comparison.migrated.world,
        "losses": [
            {"step": step + 1, "original": _number(losses[0].get(step)), "migrated": _number(losses[1].get(step))}
            for step in range(comparison.steps)
        ],
        "first": None if first is None else _first(comparison, first, migrated, sources),
        "differences": [_difference(each) for each in comparison.differences[:_DIFFERENCES]],
        "places": _places(comparison),
        "sources": sources,
        "baseline": None if held is None else _baseline(held),
    }


def _first(
    comparison: Comparison, first: Difference, migrated: Path, sources: Mapping[str, Sources]
) -> Document | None:
    """The first difference, with what explains it."""
    explanation = explain(comparison)
    if explanation is None:
        return None
    return _difference(first) | {
        "cause": explanation.cause.value,
        "explanation": explanation.sentence,
        "module": explanation.module,
        "operators": [
            {"name": name, "computed_by": kind}
            for name, kind in comparison.migrated.operators.get(explanation.module or "", ())
        ],
        "elements": [
            {
                "kind": each.event.kind,
                "name": each.event.name,
                "call": each.event.call + 1,
                "step": each.event.step + 1,
                "place": list(each.place),
                "original": _number(each.original),
                "migrated": _number(each.migrated),
                "similar": each.similar,
                "size": each.size,
                "sentence": each.sentence,
            }
            for each in comparison.elements
        ],
        "changes": [
            {"row": row.number, "path": row.path, "line": row.start, "rule": row.rule, "message": row.message}
            for row in touching(read_changes(migrated), first.event.stack)
        ],
        "code": {
            "original": _code(sources["original"], first.original),
            "migrated": _code(sources["migrated"], first.migrated),
        },
    }


def _baseline(held: Against) -> Document:
    return {
        "runs": held.runs,
        "notes": list(held.notes),
        "changes": [
            {
                "what": change.what,
                "step": None if change.step is None else change.step + 1,
                "before": _number(change.before),
                "now": _number(change.now),
                "ratio": _number(change.ratio),
                "noise": _number(change.noise),
                "sentence": change.sentence,
            }
            for change in held.changes
        ],
    }


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def _difference(difference: Difference) -> Document:
    event = difference.event
    return {
        "step": event.step + 1,
        "kind": event.kind,
        "name": event.name,
        "call": event.call + 1,
        "message": difference.message,
        "error": _number(difference.error),
        "tolerance": _number(difference.tolerance),
        "original": _stack(difference.original),
        "migrated": _stack(difference.migrated),
    }


def _stack(event: RecordedEvent | None) -> list[str] | None:
    return None if event is None else [f"{path}:{line}" for path, line in event.stack]


def _sources(project: Path | None, recording: Recording) -> Sources:
    """The lines around the innermost places of user code of all that is recorded, by file and number of the line."""
    places = {event.stack[0] for event in recording.events if event.stack} if project is not None else set()
    found: Sources = {}
    for path in sorted({path for path, _ in places}):
        try:
            lines = (project or Path()).joinpath(path).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        numbers = {near for at, number in places if at == path for near in _near(number)}
        found[path] = {str(number): lines[number - 1] for number in sorted(numbers) if 0 < number <= len(lines)}
    return found


def _near(number: int) -> range:
    return range(number - _CONTEXT_LINES, number + _CONTEXT_LINES + 1)


def _code(sources: Sources, event: RecordedEvent | None) -> list[Document]:
    """The lines around the innermost one of user code."""
    if event is None or not event.stack:
        return []
    path, number = event.stack[0]
    lines = sources.get(path, {})
    return [
        {"path": path, "line": line, "text": lines[str(line)], "here": line == number}
        for line in _near(number)
        if str(line) in lines
    ]


def _places(comparison: Comparison) -> list[Document]:
    """One place of the program in all steps: in each, the call whose error is largest in units of its tolerance."""
    rows: dict[tuple[str, str], dict[int, Measured]] = {}
    for each in comparison.measured:
        if each.original.tensor is not None:
            cells = rows.setdefault((each.original.kind, each.original.name), {})
            known = cells.get(each.original.step)
            if known is None or each.units > known.units:
                cells[each.original.step] = each
    return [
        {"kind": kind, "name": name, "steps": [_cell(cells[step]) for step in sorted(cells)]}
        for (kind, name), cells in rows.items()
    ]


def _cell(measured: Measured) -> Document:
    return {
        "step": measured.original.step + 1,
        "units": _number(measured.units),
        "error": _number(measured.error),
        "tolerance": _number(measured.tolerance),
        "original": _tensor(measured.original),
        "migrated": _tensor(measured.migrated),
    }


def _tensor(event: RecordedEvent) -> Document:
    assert event.tensor is not None
    tensor = event.tensor
    return {
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "norm": _number(tensor.norm),
        "largest": _number(tensor.largest),
        "unfinite": tensor.unfinite,
        "first": [_number(value) for value in tensor.first],
        "stack": _stack(event),
    }
