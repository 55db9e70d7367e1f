"""The plan: one document of what all processes of a shapes-only run recorded. `plan.schema.json` describes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu2npu.language import message

VERSION = 1
CATEGORIES = (
    message("parameters"),
    message("gradients"),
    message("optimizer"),
    message("activations"),
    message("communication"),
    message("temporaries"),
)
WAITS = {  # what the host does with the NPU while it waits
    "value": "reads a value",
    "copy": "copies to the host",
    "shape": "needs a shape",
    "synchronize": "waits for all of its work",
}
DOES = {  # what an NPU does with an operator
    "refused": message("refuses"),
    "cpu": message("falls back to the CPU"),
    "npu": message("computes"),
}
CHIP = {  # what is known of a chip
    "usable": message("memory"),
    "half": message("16-bit products"),
    "single": message("32-bit products"),
    "bandwidth": message("bandwidth of the memory"),
    "link": message("links in a server"),
    "network": message("network between servers"),
    "launch": message("launch of an operator"),
}
_KINDS = {"compute": "compute", "memory": "memory", "launch": "launch", "collective": "collectives"}  # of seconds
GUESSES = {"value": "a value", "copy": "a copy to the host", "shape": "a shape"}

Document = dict[str, Any]


def records(folder: Path) -> list[Document]:
    """Return what the processes of a run wrote, by rank; those that used no NPU only say their options."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda each: (each["rank"], not each["npus"]))


def make(command: Sequence[str], processes: Sequence[Mapping[str, Any]], exit_code: int) -> Document:
    """Return the plan of a run.

    Args:
        command: What ran.
        processes: As `records` gives them.
        exit_code: How it ended.
    """
    used = [each for each in processes if each["npus"]]
    chip = used[0]["chip"] if used else None
    ranks = [_rank(each, npu) for each in used for npu in each["npus"]]
    refusals = [{"rank": each["rank"], **each["refusal"]} for each in used if each["refusal"]]
    fits: bool | None = None
    if chip is not None:
        fits = not refusals and all(each["reserved"] <= chip["usable"] for each in ranks)
    if fits and exit_code:  # what it would have needed after its error is not known
        fits = None
    return {
        "version": VERSION,
        "command": list(command),
        "exit_code": exit_code,
        "chip": chip,
        "fits": fits,
        "ranks": ranks,
        "refusals": refusals,
        "guesses": _merged(each["guesses"] for each in used),
        "checkpoints": [each for process in used for each in process["checkpoints"]],
        "files": [each for process in used for each in process["files"]],
        "waits": used[0]["waits"] if used else [],
        "step": _step(used),
        "collectives": used[0]["collectives"] if used else [],
        "operators": _operators(used),
        "variants": [],
        "largest_batch": None,
        "batch_too_large": None,
    }


def _rank(process: Mapping[str, Any], npu: Mapping[str, Any]) -> Document:
    return {"rank": process["rank"], "npu": npu["index"], **{k: v for k, v in npu.items() if k != "index"}}


def _merged(lists: Iterable[Sequence[Mapping[str, Any]]]) -> list[Document]:
    """Guesses of all ranks, each place once, with the largest count."""
    found: dict[tuple[str, str, str], Document] = {}
    for guess in (each for guesses in lists for each in guesses):
        key = (guess["kind"], guess["what"], guess["line"])
        if key not in found or found[key]["count"] < guess["count"]:
            found[key] = dict(guess)
    return list(found.values())


def _step(used: Sequence[Mapping[str, Any]]) -> Document | None:
    """Return the modelled seconds of the last step of the first rank, which is past what only a first step does."""
    steps = used[0]["steps"] if used else []
    if not steps:
        return None
    last, chip = steps[-1], used[0]["chip"]
    is_modelled = chip["half"] is not None and chip["bandwidth"] is not None
    seconds = {kind: last.get(f"{kind}_seconds", 0.0) if is_modelled else None for kind in _KINDS}
    total = last.get("seconds", 0.0) + last.get("collective_seconds", 0.0)
    return {
        "steps": len(steps),
        "modelled": is_modelled,
        "seconds": total if is_modelled else None,
        **{_KINDS[kind]: each for kind, each in seconds.items()},
        "operators": last.get("operators", 0),
        "small": last.get("small", 0) if is_modelled else None,
        "operations": last.get("operations", 0.0),
        "bytes": last.get("bytes", 0),
    }


def _operators(used: Sequence[Mapping[str, Any]]) -> Document:
    """Operators by what the NPU does with them, and the rows of the table of behaviour that were met."""
    calls: dict[str, dict[str, int]] = {"npu": {}, "cpu": {}, "refused": {}}
    for each in used:
        for operator in each["operators"]:
            by = calls[operator["by"]]
            by[operator["operator"]] = by.get(operator["operator"], 0) + operator["calls"]
    behaviour: dict[str, int] = {}
    for each in used:
        for row, count in each["behaviour"].items():
            behaviour[row] = behaviour.get(row, 0) + count
    return {**calls, "behaviour": behaviour}


def peak(plan: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the rank that needs most."""
    return max(plan["ranks"], key=lambda each: each["reserved"], default=None)
