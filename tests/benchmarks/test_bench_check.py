import subprocess
from pathlib import Path

import pytest

from benchmarks.check import MODES, CheckCost, format_costs, measure_cost
from benchmarks.run import Run


def test_a_tree_is_checked_twice_and_analysed(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.py").write_text("import torch\nx = torch.zeros(1).cuda()\n")
    cost = measure_cost("own", tmp_path / "tree", tmp_path)
    assert (cost.files, cost.lines) == (1, 2)
    for run in (cost.cold, cost.cached, *cost.analyses.values()):
        assert run.seconds > 0
        assert 10e6 < run.peak < 0.2e9
    assert tuple(cost.analyses) == MODES
    assert list((tmp_path / "cache-own").rglob("*.sqlite"))


def test_a_failure_shows_the_message_of_the_command(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        measure_cost("none", tmp_path / "none", tmp_path)
    assert "none" in failed.value.stderr


def test_what_is_printed() -> None:
    cost = CheckCost(
        "timm", 10, 12_000, Run(6.0, 9.0, 400_000_000), Run(0.5, 0.4, 90_000_000), {"torch_apis": Run(4.0, 4.0, 10**9)}
    )
    assert format_costs([cost]) == (
        "check timm: 10 files, 12,000 lines; cold 6.0 s, 2,000 lines/s, 0.40 GB; cached 0.5 s, 24,000 lines/s, 0.09 GB "
        "(12.0 times as fast)\n"
        "analyse timm: torch_apis 4.0 s, 3,000 lines/s, 1.00 GB"
    )
