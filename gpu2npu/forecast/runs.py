"""The shapes-only runs behind a forecast: the program as it is, and further ones with its own options changed."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpu2npu.emulator.launch import Launch, LaunchError
from gpu2npu.forecast import variants
from gpu2npu.forecast.plan import CATEGORIES, CHIP, DOES, GUESSES, WAITS, Document, make, peak, records
from gpu2npu.forecast.text import batches, lines, outcome, readable, stated, title
from gpu2npu.language import shown
from gpu2npu.report.webpage import embedded_json, render

# Called with a command, a folder for records, and the most steps of an optimizer.
Start = Callable[[Sequence[str], Path, int | None], Launch]

_SHARDING = ("reduce_scatter", "_reduce_scatter")  # collectives by which gradients are sharded
_MOST_BATCHES = 12  # further runs in search of the largest batch
_STEPS = 2  # of further runs: the second has the optimizer's state


def forecast(command: Sequence[str], start: Start, steps: int | None, what_fits: bool, npus: int) -> Document:
    """Run a program, and again with other options and on up to `npus` NPUs if `what_fits`, and return the plan. Raises
    LaunchError: the program cannot be started."""
    found, options = _run(command, start, steps, quiet=False)
    if what_fits:
        _explore(found, command, start, options, npus)
    return found


def _explore(found: Document, command: Sequence[str], start: Start, options: Sequence[Any], npus: int) -> None:
    _search_batch(found, command, start, options)
    shards = any(each["name"].startswith(_SHARDING) for each in found["collectives"])
    for each in (*variants.means(options), *(variants.more_ranks(command, npus) if shards else ())):
        _further(found, each, command, start)


def _search_batch(found: Document, command: Sequence[str], start: Start, options: Sequence[Any]) -> None:
    """Run the program with other batches, until the largest that fits is known, or it fails for another reason."""
    batch, first = variants.batch_option(options), peak(found)
    if batch is None or first is None or found["fits"] is None:
        return
    option, value = batch
    tried: dict[int, int | None] = {value: first["reserved"] if found["fits"] else None}
    usable = found["chip"]["usable"]
    while len(tried) <= _MOST_BATCHES and (count := variants.next_batch(tried, usable)) is not None:
        plan = _further(found, variants.of_batch(option, count), command, start)
        rank = peak(plan)
        if rank is None or plan["fits"] is None:
            break
        tried[count] = rank["reserved"] if plan["fits"] else None
    found["largest_batch"] = variants.largest_batch(tried)
    found["batch_too_large"] = variants.smallest_too_large(tried)


def _further(found: Document, run: variants.FurtherRun, command: Sequence[str], start: Start) -> Document:
    """Make a further run, note it in the plan, and return its own."""
    plan, _ = _run(run.applied_to(command), start, _STEPS, quiet=True)
    rank = peak(plan) if plan["exit_code"] == 0 else None
    reserved = None if rank is None else rank["reserved"]
    fits = None if rank is None and plan["fits"] else plan["fits"]
    found["variants"].append({"name": run.name, "words": list(run.words), "reserved": reserved, "fits": fits})
    return plan


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
    try:
        process = subprocess.Popen(
            [launch.program, *launch.argv[1:]], env=launch.environment, stdout=output, stderr=output
        )
    except OSError as error:
        raise LaunchError(f"{launch.program}: {error.strerror}", 126) from None
    with process:
        own = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the command too
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            code = process.wait()
        finally:
            for each, handler in own.items():
                signal.signal(each, handler)
    return code if code >= 0 else 128 - code


def plan_text(plan: Document, path: Path) -> str:
    """The plan as it is in a file: a page if its name ends in .html, else JSON."""
    if path.suffix.lower() in (".html", ".htm"):
        return page(plan)
    return json.dumps(plan, indent=2, ensure_ascii=False) + "\n"


def page(plan: Any) -> str:
    """The page of a plan; its data is in it as JSON."""
    rank = peak(plan)
    parts = [(name, rank["parts"][name]) for name in CATEGORIES if rank["parts"][name]] if rank is not None else []
    return render(
        "forecast.html",
        title=f"gpu2npu {shown('Forecast')}",
        plan=plan,
        rank=rank,
        parts=parts,
        first=shown(next(lines(plan))),
        shown=shown,
        title_of=title,
        outcome=outcome,
        batches=batches,
        stated=stated,
        chip=CHIP,
        readable=readable,
        waits=WAITS,
        guesses=GUESSES,
        does_with=DOES,
        data=embedded_json(plan),
    )
