"""`make bench`: the whole migration of one large project beside PaConvert and bare parsing, on this machine, now; what
that and a check may take, and do take; what twice as many rules cost; how right the edits are, by hand-written
labels; whether migrate, check and analyse agree about the same packages; what `gpu2npu check` and `analyse` cost; what
data parallelism costs on emulated NPUs; and what `gpu2npu verify` costs a step that it records.

It prints what it measured and judges nothing. The rounds take turns, so that a busy moment of the machine meets every
contestant.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.agreement import compare_packages
from benchmarks.archives import ArchiveError
from benchmarks.check import format_projects, measure_project, project_trees
from benchmarks.labels import LABELS_ARE_FOR, format_scores, judge_packages
from benchmarks.recording import format_recording, measure_recording
from benchmarks.rule_cost import format_rule_cost, measure_rule_cost
from benchmarks.scaling import format_scaling, measure_scaling
from benchmarks.table import Row, format_startup, format_table
from benchmarks.targets import Target, format_targets, measure_targets
from benchmarks.tree import PROJECT, VERSION, copy_without_match, fetch_tree, measure

TREES = Path(__file__).parent.parent / "bench-trees"
PACONVERT = "3.3.1"
ROUNDS = 3
STARTS = 15
GPU2NPU = Path(sys.executable).with_name("gpu2npu")


# What it measures, in this order; one of them alone by --only.
PARTS = ("table", "targets", "rules", "labels", "agreement", "check", "scaling", "recording")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="measure only this; repeatable")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="how often each contestant runs (default: %(default)s)"
    )
    options = parser.parse_args()
    return measure_parts(options.only or PARTS, options.rounds)


def measure_parts(parts: Sequence[str], rounds: int) -> int:
    """Measure some parts and print them; the exit code."""
    TREES.mkdir(exist_ok=True)
    try:
        tree = fetch_tree(TREES)
        with tempfile.TemporaryDirectory(prefix="gpu2npu-bench-") as folder:
            scratch = Path(folder)
            if "table" in parts:
                report(tree, install_paconvert(TREES), scratch, rounds)
            if "targets" in parts:
                print(format_targets(targets(tree, scratch, rounds)), flush=True)
            if "rules" in parts:
                print(format_rule_cost(measure_rule_cost(tree, LABELS_ARE_FOR)), flush=True)
            if "labels" in parts:
                print(format_scores(judge_packages(TREES)), flush=True)
            if "agreement" in parts:
                print("migrate, check and analyse about ten packages:")
                for line in compare_packages(TREES):
                    print(line, flush=True)
            if "check" in parts:
                costs = [measure_project(name, path, scratch) for name, path in project_trees(TREES, tree)]
                print(format_projects(costs), flush=True)
            if "scaling" in parts:
                print(format_scaling(measure_scaling(), os.cpu_count() or 1), flush=True)
            if "recording" in parts:
                print(format_recording(measure_recording()))
    except ArchiveError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(map(str, error.cmd))} ended with exit code {error.returncode}", file=sys.stderr)
        print(str(error.stderr or "")[-2000:], file=sys.stderr)
        return 1
    return 0


def targets(tree: Path, scratch: Path, rounds: int) -> list[Target]:
    """Measure the migration, and the check of the last and largest project, against their targets."""
    smaller = scratch / "for-paconvert"
    copy_without_match(tree, smaller)
    _, large = project_trees(TREES, tree)[-1]
    return measure_targets(tree, large, install_paconvert(TREES), smaller, scratch, rounds)


def report(tree: Path, paconvert: Path, scratch: Path, rounds: int) -> None:
    size = measure(tree)
    smaller = scratch / "without-match"
    dropped = copy_without_match(tree, smaller)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{PROJECT} {VERSION}: {size.files} Python files, {size.lines:,} lines")
    print(
        f"{cores} cores, Python {platform.python_version()}, libcst {importlib.metadata.version('libcst')}", flush=True
    )

    timings: dict[str, list[float]] = {"gpu2npu": [], "gpu2npu -j1": [], "PaConvert": [], "libcst": []}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        timings["gpu2npu"].append(time_migration(tree, scratch / "out"))
        timings["gpu2npu -j1"].append(time_migration(tree, scratch / "out", "-j1"))
        timings["PaConvert"].append(time_paconvert(paconvert, smaller, scratch / "out"))
        timings["libcst"].append(time_parsing(tree))
    lines = {"PaConvert": measure(smaller).lines}
    rows = {name: Row(name, lines.get(name, size.lines), tuple(seconds)) for name, seconds in timings.items()}
    print()
    print(format_table(list(rows.values()), rows["libcst"]))
    print()
    print(format_startup("gpu2npu --help", [timed([GPU2NPU, "--help"]) for _ in range(STARTS)]))
    print()
    print("gpu2npu and PaConvert: the whole command, start-up and writing included.")
    print("libcst: parse_module over every file on one core, import excluded.")
    print(
        f"PaConvert {PACONVERT} --no_format stops at a match statement; it got the tree without {', '.join(dropped)}."
    )


def timed(command: Sequence[str | Path], cwd: Path | None = None, accepted: Sequence[int] = (0,)) -> float:
    """Seconds that a command takes. Raises CalledProcessError when its exit code is not an accepted one."""
    start = time.perf_counter()
    finished = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if finished.returncode not in accepted:
        raise subprocess.CalledProcessError(finished.returncode, command, finished.stdout, finished.stderr)
    return seconds


def time_migration(tree: Path, out: Path, *options: str) -> float:
    # Exit code 1 says that some file could not be migrated and was copied.
    command: list[str | Path] = [GPU2NPU, "-i", tree, "-o", out, "-v", "2.1.0", "-q", *options]
    seconds = timed(command, accepted=(0, 1))
    shutil.rmtree(out)
    return seconds


def time_paconvert(paconvert: Path, tree: Path, out: Path) -> float:
    seconds = timed([paconvert, "--in_dir", tree, "--out_dir", out, "--no_format"], cwd=out.parent)
    shutil.rmtree(out)
    return seconds


def time_parsing(tree: Path) -> float:
    script = Path(__file__).with_name("parse_tree.py")
    return float(subprocess.run([sys.executable, script, tree], capture_output=True, text=True, check=True).stdout)


def install_paconvert(folder: Path) -> Path:
    """PaConvert's command, in a virtual environment of its own: it pins old releases of black and isort."""
    environment = folder / f"paconvert-{PACONVERT}"
    command = environment / "bin" / "paconvert"
    if not command.exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        pip: list[str | Path] = [
            environment / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            f"paconvert=={PACONVERT}",
        ]
        subprocess.run(pip, check=True)
    return command


if __name__ == "__main__":
    sys.exit(main())
