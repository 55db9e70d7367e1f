from pathlib import Path

from benchmarks.check import CheckCost, format_check, measure_check


def test_a_tree_is_checked_twice(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.py").write_text("import torch\nx = torch.zeros(1).cuda()\n")
    cost = measure_check("own", tmp_path / "tree", tmp_path)
    assert (cost.files, cost.lines) == (1, 2)
    assert cost.cold > 0 and cost.cached > 0
    assert list((tmp_path / "cache-own").rglob("*.json"))


def test_what_is_printed() -> None:
    line = format_check([CheckCost("timm", 10, 12_000, 6.0, 0.5)])
    assert line == (
        "check timm: 10 files, 12,000 lines; cold 6.0 s, 2,000 lines/s; cached 0.5 s, 24,000 lines/s "
        "(12.0 times as fast)"
    )
