"""The shapes-only runs behind a forecast: the program as it is, and further ones with its own options changed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpu2npu.emulator.launch import Launch
from gpu2npu.forecast import variants
from gpu2npu.forecast.plan import Document, make, peak, records

# Called with a command, a folder for records, and the most steps of an optimizer.
Start = Callable[[Sequence[str], Path, int | None], Launch]

_SHARDING = ("reduce_scatter", "_reduce_scatter")  # collectives by which gradients are sharded
_STEPS = 2  # of further runs: the second has the optimizer's state


def forecast(command: Sequence[str], start: Start, steps: int | None, what_fits: bool, npus: int) -> Document:
    """Run a program, and again with other options and on up to `npus` NPUs if `what_fits`, and return the plan.

    Raises:
        LaunchError: The program cannot be started.
    """
    found, options = _run(command, start, steps, quiet=False)
    if what_fits:
        _explore(found, command, start, options, npus)
    return found


def _explore(found: Document, command: Sequence[str], start: Start, options: Sequence[Any], npus: int) -> None:
    batch = variants.batch_option(options)
    first = peak(found)
    points = (
        [(batch[1], first["reserved"])] if batch is not None and first is not None and not found["refusals"] else []
    )
    shards = any(each["name"].startswith(_SHARDING) for each in found["collectives"])
    ranks = variants.more_ranks(command, npus) if shards else []
    for each in (*variants.batches(options), *variants.means(options), *ranks):
        plan, _ = _run(each.applied_to(command), start, _STEPS, quiet=True)
        rank = peak(plan) if plan["exit_code"] == 0 else None
        refused = bool(plan["refusals"])
        if rank is not None and each.batch is not None and not refused:
            points.append((each.batch, rank["reserved"]))
        found["variants"].append(
            {
                "name": each.name,
                "words": list(each.words),
                "reserved": None if rank is None else rank["reserved"],
                "fits": bool(plan["fits"]),
            }
        )
    if found["chip"] is not None:
        found["largest_batch"] = variants.largest_batch(points, found["chip"]["usable"])


def _run(command: Sequence[str], start: Start, steps: int | None, quiet: bool) -> tuple[Document, list[Any]]:
    with tempfile.TemporaryDirectory(prefix="gpu2npu-plan-") as folder:
        Path(folder, "begun").touch()  # files with an earlier change are not changed
        launch = start(command, Path(folder), steps)
        code = _wait(launch, quiet)
        processes = records(Path(folder))
    options = [option for each in processes for option in each["options"]]
    return make(command, processes, code), options


def _wait(launch: Launch, quiet: bool) -> int:
    """Run a command to its end; it gets the signals that this process is sent, and its exit code is a shell's."""
    output = subprocess.DEVNULL if quiet else None
    with subprocess.Popen(
        [launch.program, *launch.argv[1:]], env=launch.environment, stdout=output, stderr=output
    ) as process:
        own = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the command too
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            code = process.wait()
        finally:
            for each, handler in own.items():
                signal.signal(each, handler)
    return code if code >= 0 else 128 - code


def write(plan: Document, path: Path) -> None:
    """Write the plan beside its final name and move it there: a page if it ends in .html, else JSON."""
    if path.suffix.lower() in (".html", ".htm"):
        from gpu2npu.forecast.page import page

        text = page(plan)
    else:
        text = json.dumps(plan, indent=2, ensure_ascii=False) + "\n"
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
