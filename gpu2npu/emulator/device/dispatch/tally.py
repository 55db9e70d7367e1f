"""Counts how often each operator ran, for how long, and who computed it: the report of `--op-report`.

The report says apart what the NPU does with an operator and what computed it here.
"""

from __future__ import annotations

import atexit
import csv
import hashlib
import os
import tempfile
from enum import Enum
from multiprocessing import util
from pathlib import Path
from typing import TypeAlias

# Calls and seconds, a list because it is updated on every operator.
Tally: TypeAlias = list[float]


class ComputedBy(str, Enum):
    """The code that computed an operator."""

    NUMPY = "numpy"  # a kernel of ours
    BORROWED = "borrowed"  # the NPU has it; torch's CPU code computed it here
    FALLBACK = "fallback"  # the NPU lacks it too and would run it on the CPU
    PARTS = "parts"  # the NPU has it as one; here it was composed of others
    REFUSED = "refused"


COLUMNS = ("operator", "calls", "seconds", "npu", "here")
# What the NPU does with an operator, and what computed it here.
_CELLS = {
    ComputedBy.NUMPY: ("kernel", "numpy"),
    ComputedBy.BORROWED: ("kernel", "torch"),
    ComputedBy.FALLBACK: ("CPU", "torch"),
    ComputedBy.PARTS: ("kernel", "its parts"),
    ComputedBy.REFUSED: ("raises", "nothing"),
}
_BY_CELLS = {cells: kind for kind, cells in _CELLS.items()}
# Calls, seconds, and the rows of the table of behaviour that were met, as the report writes them.
_Line: TypeAlias = tuple[int, float, frozenset[str]]

_tallies: dict[tuple[str, ComputedBy], Tally] = {}


def tally(operator: str, kind: ComputedBy) -> Tally:
    """The running count of one operator, to be kept and updated in place by whoever runs it."""
    return _tallies.setdefault((operator, kind), [0, 0.0])


def counts() -> dict[tuple[str, ComputedBy], tuple[int, float]]:
    """Calls and seconds of every operator that ran in this process."""
    return {key: (int(calls), seconds) for key, (calls, seconds) in list(_tallies.items()) if calls}


def reset() -> None:
    """Start every count again from zero."""
    from gpu2npu.emulator.device.dispatch.limits import met_by

    met_by.clear()
    for entry in _tallies.values():
        entry[:] = (0, 0.0)


def merge_into(path: Path) -> None:
    """Add this process's counts to the CSV file, which other processes may be doing at the same moment."""
    own = {**counts(), **_uncounted()}
    if not own:
        return
    import fcntl

    name = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    with Path(tempfile.gettempdir(), f"gpu2npu-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        total = _read(path)
        for key, (calls, seconds) in own.items():
            before, earlier, rows = total.get(key, (0, 0.0, frozenset()))
            total[key] = (before + calls, earlier + seconds, rows | _rows(key[0]))
        _write(path, total)


def _uncounted() -> dict[tuple[str, ComputedBy], tuple[int, float]]:
    """The operators with rows that were met and that no kernel computed: those that raised, and composed ones."""
    from gpu2npu.emulator.device.dispatch.limits import met, met_by, refusals

    counted = {name.partition(".")[0] for name, _ in counts()}
    found = {}
    for name in met_by.keys() - counted:
        kind = ComputedBy.REFUSED if name in refusals else ComputedBy.PARTS
        found[name, kind] = (refusals.get(name) or sum(met.get(row, 0) for row in met_by[name]), 0.0)
    return found


def _rows(operator: str) -> frozenset[str]:
    """The rows that calls of an operator have met: "on the CPU [logit-cpu]"."""
    from gpu2npu.emulator.device.dispatch.limits import met_by

    name = operator.partition(".")[0] if "::" in operator else operator
    return frozenset(f"{each.outcome} [{row}]" for row, each in met_by.get(name, {}).items())


def _read(path: Path) -> dict[tuple[str, ComputedBy], _Line]:
    if not path.exists() or path.stat().st_size == 0:
        return {}
    found: dict[tuple[str, ComputedBy], _Line] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            does, *rows = row["npu"].split("; ")
            line = int(row["calls"]), float(row["seconds"]), frozenset(rows)
            found[row["operator"], _BY_CELLS[does, row["here"]]] = line
    return found


def _write(path: Path, total: dict[tuple[str, ComputedBy], _Line]) -> None:
    with tempfile.NamedTemporaryFile(
        "w", newline="", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for (operator, kind), (calls, seconds, rows) in sorted(total.items()):
            does, here = _CELLS[kind]
            writer.writerow((operator, calls, f"{seconds:.6f}", "; ".join((does, *sorted(rows))), here))
    Path(file.name).chmod(0o666 & ~_umask())
    Path(file.name).replace(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def report_at_exit() -> None:
    """Write the report named by GPU2NPU_OP_REPORT when the process ends, if it is set."""
    report = os.environ.get("GPU2NPU_OP_REPORT")
    if not report:
        return
    path = Path(report).absolute()

    def write() -> None:
        merge_into(path)
        reset()

    atexit.register(write)
    # A forked child of multiprocessing leaves through os._exit, after the finalizers that it registered itself.
    os.register_at_fork(after_in_child=reset)
    util.register_after_fork(ComputedBy, lambda _: util.Finalize(None, write, exitpriority=0))
