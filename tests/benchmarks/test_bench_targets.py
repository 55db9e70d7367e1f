"""Tests of the costs of large projects, of the targets, and of how they are printed."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.run import Run, run
from benchmarks.targets import ProjectCost, Target, format_projects, format_targets, measure_project


def test_a_run_is_measured_by_clock_processors_and_memory() -> None:
    taken = run([sys.executable, "-c", "x = b'x' * 200_000_000; sum(range(1_000_000))"])
    assert taken.cpu > 0 and taken.seconds > 0
    assert 0.2e9 < taken.peak < 0.4e9


def test_a_command_that_fails_says_so() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run([sys.executable, "-c", "raise SystemExit(3)"])
    run([sys.executable, "-c", "raise SystemExit(3)"], accepted=(3,))


def test_a_project_is_parsed_migrated_and_checked(tmp_path: Path) -> None:
    tree, scratch = tmp_path / "tree", tmp_path / "scratch"
    tree.mkdir()
    scratch.mkdir()
    (tree / "a.py").write_text("import torch\nx = torch.zeros(2).cuda()\n")
    cost = measure_project("tree", tree, "2.1.0", scratch)
    assert min(cost.ast, cost.libcst, cost.migration.cpu, cost.cold.cpu, cost.cached.cpu, cost.changed.cpu) > 0
    assert (tree / "a.py").read_text().count("\n") == 2
    assert (scratch / "changed" / "a.py").read_text().endswith("# changed\n")


def test_a_line_has_the_medians_of_its_rounds() -> None:
    def cost(migration: float, peer: float | None) -> ProjectCost:
        runs = [Run(9.0, seconds, 1) for seconds in (migration, 3.0, 0.3, 0.6)]
        return ProjectCost("p", "2.1.0", 1.0, 10.0, *runs, None if peer is None else Run(0, peer, 1))

    header, line = format_projects([cost(4.0, 20.0), cost(5.0, None), cost(9.0, None)]).splitlines()
    assert line.split() == ["p", "2.1.0", "1.00", "10.00", "5.00", "5.00", "0.50", "4.0", "3.00", "0.30", "0.60"]
    assert len(header) == len(line)


def test_the_table_is_aligned() -> None:
    lines = format_targets([Target("check", 0.5, 0.25), Target("memory", 0.15, 0.3, "GB")])
    assert lines.splitlines() == [
        "        measured  asked",
        "check       0.50   0.25   s",
        "memory      0.15    0.3  GB",
    ]
