"""msprof-analyze: what the emulator's profiles hold is read unchanged, and the advisor names each bottleneck."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
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
    """Profile a program once: the folder that holds its ranks' profiles."""
    gpu2npu = shutil.which("gpu2npu", path=str(Path(sys.executable).parent))
    folders = {}

    def profile(program, ranks=1):
        if (program, ranks) not in folders:
            folder = folders[program, ranks] = tmp_path_factory.mktemp(f"{program}-{ranks}")
            launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)] if ranks > 1 else []
            run(gpu2npu, "run", "--npus", str(ranks), "--torch-npu", "2.1.0", *launcher, STAGED, program, folder)
        return folders[program, ranks]

    return profile


def advised(folder, output):
    """Return what the advisor prints, its table's lines joined, and the page that it writes, as text."""
    said = run(MSPROF_ANALYZE, "advisor", "all", "-d", folder, "-o", output, "-l", "en")
    (page,) = output.glob("*.html")
    return said, re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8")))


def share(page, name):
    """The percentage of a row of the advisor's overall table."""
    return float(re.search(rf"{re.escape(name)} [\d.]+ ([\d.]+)%", page)[1])


def test_nothing_is_wrong_with_a_program_of_large_products(staged, tmp_path):
    said, page = advised(staged("healthy"), tmp_path)
    assert share(page, "Computing Time") > 80
    assert share(page, "Matmul") > 50
    for issue in ("Slow Dataloader", "Fusible Operator", "AICPU Issues", "Dynamic Shape"):
        assert issue not in said


def test_a_slow_loader(staged, tmp_path):
    said, page = advised(staged("slow_loader"), tmp_path)
    microseconds = float(re.search(r"Found slow dataloader, cost ([\d.]+) us", said)[1])
    assert microseconds > 160_000  # sixteen rows of 10 ms
    assert share(page, "-- Free") > 30


def test_small_kernels(staged, tmp_path):
    said, page = advised(staged("small_kernels"), tmp_path)
    assert float(re.search(r"([\d.]+) for host bottleneck duration percentage", re.sub(r"\s+", " ", said))[1]) > 0.5
    assert share(page, "Free Time") > share(page, "Computing Time")


def test_too_much_copying(staged, tmp_path):
    _, page = advised(staged("copies"), tmp_path)
    assert share(page, "-- SDMA") > 40
    assert share(page, "-- SDMA") > share(page, "Computing Time")


def test_fallbacks(staged, tmp_path):
    said, _ = advised(staged("fallbacks"), tmp_path)
    assert "AICPU Issues" in said
    assert "Lgamma" in said


def test_a_slow_rank(staged, tmp_path):
    said, _ = advised(staged("slow_rank", 2), tmp_path)
    assert re.search(r"Computing\s.*?has some issues in the cluster", said, re.DOTALL)


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


def test_a_comparison(staged, tmp_path):
    healthy, slow = (next(staged(name).iterdir()) for name in ("healthy", "slow_loader"))
    said = run(MSPROF_ANALYZE, "compare", "-d", slow, "-bp", healthy, "-o", tmp_path)
    assert list(tmp_path.glob("performance_comparison_result_*.xlsx"))
    rows = [line.split("|") for line in said.splitlines() if line.startswith("| NPU")]
    assert len(rows) == 2
    for row in rows:
        cube, vector, computing, end_to_end = (re.search(r"[\d.]+(?=s)", row[i])[0] for i in (2, 3, 5, 10))
        assert float(cube) > 0
        assert float(vector) > 0
        assert float(computing) == pytest.approx(float(cube) + float(vector), abs=0.01)
        assert float(end_to_end) > float(computing)
