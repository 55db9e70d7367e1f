"""msprof-analyze: what the emulator's profiles hold is read unchanged, and the advisor names each bottleneck."""

import csv
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

STAGED = Path(__file__).parent / "staged.py"
MSPROF_ANALYZE = os.environ.get("MSPROF_ANALYZE") or shutil.which(
    "msprof-analyze", path=str(Path(sys.executable).parent)
)


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    """Profile a program once: its profile, or the folder that holds the profiles of several ranks."""
    gpu2npu = shutil.which("gpu2npu", path=str(Path(sys.executable).parent))
    folders = {}

    def profile(program, ranks=1, kind="text"):
        if (program, ranks, kind) not in folders:
            folder = tmp_path_factory.mktemp(f"{program}-{ranks}-{kind}")
            launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)] if ranks > 1 else []
            run(gpu2npu, "run", "--npus", str(ranks), "--torch-npu", "2.1.0", *launcher, STAGED, program, folder, kind)
            folders[program, ranks, kind] = folder if ranks > 1 else next(folder.iterdir())
        return folders[program, ranks, kind]

    return profile


def advised(folder, output):
    """Return what the advisor prints, its table's lines joined, and the page that it writes, as text."""
    printed = run(MSPROF_ANALYZE, "advisor", "all", "-d", folder, "-o", output, "-l", "en")
    (page,) = output.glob("*.html")
    return printed, re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8")))


def share(page, name):
    """The percentage of a row of the advisor's overall table."""
    return float(re.search(rf"{re.escape(name)} [\d.]+ ([\d.]+)%", page)[1])


def test_nothing_is_wrong_with_a_program_of_large_products(staged, tmp_path):
    printed, page = advised(staged("healthy"), tmp_path)
    assert share(page, "Computing Time") > 80
    assert share(page, "Matmul") > 50
    for issue in ("Slow Dataloader", "Fusible Operator", "AICPU Issues", "Dynamic Shape"):
        assert issue not in printed


def test_a_slow_loader(staged, tmp_path):
    printed, page = advised(staged("slow_loader"), tmp_path)
    microseconds = float(re.search(r"Found slow dataloader, cost ([\d.]+) us", printed)[1])
    assert microseconds > 160_000  # sixteen rows of 10 ms
    assert share(page, "-- Free") > 30


def test_small_kernels(staged, tmp_path):
    printed, page = advised(staged("small_kernels"), tmp_path)
    assert float(re.search(r"([\d.]+) for host bottleneck duration percentage", re.sub(r"\s+", " ", printed))[1]) > 0.5
    assert share(page, "Free Time") > share(page, "Computing Time")


def test_too_much_copying(staged, tmp_path):
    _, page = advised(staged("copies"), tmp_path)
    assert share(page, "-- SDMA") > 40
    assert share(page, "-- SDMA") > share(page, "Computing Time")


def test_fallbacks(staged, tmp_path):
    printed, _ = advised(staged("fallbacks"), tmp_path)
    assert "AICPU Issues" in printed
    assert "Lgamma" in printed


def test_a_slow_rank(staged, tmp_path):
    printed, _ = advised(staged("slow_rank", 2), tmp_path)
    assert re.search(r"Computing\s.*?has some issues in the cluster", printed, re.DOTALL)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_cluster(staged, tmp_path, ranks):
    run(MSPROF_ANALYZE, "cluster", "-m", "all", "-d", staged("slow_rank", ranks), "-o", tmp_path)
    output = tmp_path / "cluster_analysis_output"
    with (output / "cluster_step_trace_time.csv").open() as file:
        rows = list(csv.DictReader(file))
    computing = {rank: [float(row["Computing"]) for row in rows if row["Index"] == str(rank)] for rank in range(ranks)}
    waiting = [float(row["Communication"]) for row in rows if row["Index"] == "0"]
    assert {len(times) for times in computing.values()} == {3}
    assert min(computing[ranks - 1]) > max(computing[0])
    assert min(waiting) > 0
    (group,) = json.loads((output / "communication_group.json").read_text())["collective"]
    assert sorted(group) == list(range(ranks))
    (steps,) = json.loads((output / "cluster_communication.json").read_text()).values()
    for step in steps.values():
        (total,) = (ops for name, ops in step.items() if name.startswith("Total"))
        for rank in map(str, range(ranks)):
            assert total[rank]["Communication Time Info"]["Elapse Time(ms)"] > 0
            assert total[rank]["Communication Bandwidth Info"]["SDMA"]["Bandwidth(GB/s)"] > 0
    (steps,) = json.loads((output / "cluster_communication_matrix.json").read_text()).values()
    links = {link for step in steps.values() for ops in step.values() for link in ops}
    assert links == {f"{a}-{b}" for a in range(ranks) for b in range(ranks)}


@pytest.mark.parametrize("recipe", ["all", "cann_api_sum", "compute_op_sum", "hccl_sum"])
def test_a_recipe_on_databases(staged, tmp_path, recipe):
    run(MSPROF_ANALYZE, "cluster", "-m", recipe, "-d", staged("slow_rank", 2, "db"), "-o", tmp_path)
    (database,) = tmp_path.rglob("cluster_analysis.db")
    with closing(sqlite3.connect(database)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    assert any(
        isinstance(value, (int, float)) and value > 0 for found in rows.values() for row in found for value in row
    )


@pytest.mark.parametrize("kind", ["text", "db"])
def test_a_comparison(staged, tmp_path, kind):
    healthy, slow = (staged(name, kind=kind) for name in ("healthy", "slow_loader"))
    printed = run(MSPROF_ANALYZE, "compare", "-d", slow, "-bp", healthy, "-o", tmp_path)
    assert list(tmp_path.glob("performance_comparison_result_*.xlsx"))
    lines = [[each.strip() for each in line.split("|")] for line in printed.splitlines() if line.startswith("| ")]
    (headers,) = (line for line in lines if "Computing Time" in line)
    rows = [dict(zip(headers, line, strict=True)) for line in lines if line[1] == "NPU"]
    assert len(rows) == 2
    names = ("Cube Time(Num)", "Vector Time(Num)", "Computing Time", "E2E Time(Not minimal profiling)")
    for row in rows:
        cube, vector, computing, end_to_end = (float(row[name].partition("s")[0]) for name in names)
        assert cube > 0
        assert vector > 0
        assert computing == pytest.approx(cube + vector, abs=0.01)
        assert end_to_end > computing
