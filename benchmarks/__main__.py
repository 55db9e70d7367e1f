"""`make bench`: migrating and checking three large projects for two versions beside PaConvert and bare parsing, on this
machine, now; what has a target of its own; what twice as many rules cost; how right the edits are, by hand-written
labels; whether migrate, check and analyse agree about the same packages; what `gpu2npu check` and `analyse` cost; what
data parallelism costs on emulated NPUs; and what `gpu2npu verify` costs a step that it records.

It prints what it measured and judges nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.agreement import compare_packages
from benchmarks.archives import ArchiveError
from benchmarks.check import format_costs, large_projects, measure_cost, project_trees
from benchmarks.labels import LABELS_ARE_FOR, format_scores, judge_packages
from benchmarks.recording import format_recording, measure_recording
from benchmarks.rule_cost import format_rule_cost, measure_rule_cost
from benchmarks.scaling import format_scaling, measure_scaling
from benchmarks.targets import (
    VERSIONS,
    ProjectCost,
    format_projects,
    format_targets,
    measure_project,
    measure_targets,
    paconvert_run,
)
from benchmarks.tree import copy_without_match, fetch_tree

TREES = Path(__file__).parent.parent / "bench-trees"
PACONVERT = "3.3.1"
ROUNDS = 3
GPU2NPU = Path(sys.executable).with_name("gpu2npu")


# What it measures, in this order; one of them alone by --only.
PARTS = ("projects", "targets", "rules", "labels", "agreement", "check", "scaling", "recording")


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
            if "projects" in parts:
                print(format_projects(project_costs(tree, scratch, rounds)), flush=True)
            if "targets" in parts:
                _, large = project_trees(TREES, tree)[-1]
                print(format_targets(measure_targets(large, scratch, rounds)), flush=True)
            if "rules" in parts:
                print(format_rule_cost(measure_rule_cost(tree, LABELS_ARE_FOR)), flush=True)
            if "labels" in parts:
                print(format_scores(judge_packages(TREES)), flush=True)
            if "agreement" in parts:
                print("migrate, check and analyse about ten packages:")
                for line in compare_packages(TREES):
                    print(line, flush=True)
            if "check" in parts:
                costs = [measure_cost(name, path, scratch) for name, path in project_trees(TREES, tree)]
                print(format_costs(costs), flush=True)
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


def project_costs(tree: Path, scratch: Path, rounds: int) -> list[ProjectCost]:
    """The rounds of each project and version; PaConvert has its turn in the first round of the first version.

    PaConvert --no_format stops at a match statement, so it gets the trees without the files that have one.
    """
    paconvert = install_paconvert(TREES)
    costs = []
    for name, project in large_projects(TREES, tree):
        smaller = scratch / f"{name}-without-match"
        copy_without_match(project, smaller)
        for version in VERSIONS:
            for number in range(rounds):
                print(f"{name} {version}: round {number + 1} of {rounds}", file=sys.stderr)
                is_first = number == 0 and version == VERSIONS[0]
                peer = partial(paconvert_run, paconvert, smaller, scratch) if is_first else None
                costs.append(measure_project(name, project, version, scratch, peer))
    return costs


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
