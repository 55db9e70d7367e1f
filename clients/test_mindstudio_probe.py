"""mindstudio-probe: its debugger dumps training on the emulated NPU, and its `compare` holds that against the CPU's."""

import csv
import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

PROBING = Path(__file__).parent / "probing.py"
STATISTICS = ("Max", "Min", "Mean", "Norm")
# The emulated NPU differentiates `linear` as one operator, the CPU as `addmm`: the same gradients in another order.
REORDERED = "Functional.linear.0.backward"


def run(*command):
    settings = {**os.environ, "GPU2NPU_CONV_HF32": "0"}  # the CPU has no HF32
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=settings)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "compatibility failed" not in result.stdout + result.stderr
    return result


def dumped(gpu2npu, folder, device, task):
    """The dump.json of the second step."""
    run(gpu2npu, "run", PROBING, device, task, folder)
    (dump,) = folder.glob("step1/*/dump.json")
    return dump


def compared(gpu2npu, target, golden, folder):
    """The rows of `msprobe compare`'s table, without those known to be in another order."""
    run(gpu2npu, "run", "msprobe", "compare", "-tp", target, "-gp", golden, "-o", folder)
    (table,) = folder.glob("*.csv")
    with table.open(encoding="utf-8-sig", newline="") as file:
        return [row for row in csv.DictReader(file) if not row["NPU Name"].startswith(REORDERED + ".output")]


def leaves(value):
    """Every description of a tensor in a dump, whichever of two parameters got its gradient first."""
    if isinstance(value, dict) and value.get("type") == "torch.Tensor":
        yield value
    elif isinstance(value, (dict, list)):
        for _, item in sorted(value.items()) if isinstance(value, dict) else enumerate(value):
            yield from leaves(item)


def test_statistics_of_a_training_step(gpu2npu, tmp_path):
    on_npu = dumped(gpu2npu, tmp_path / "npu", "npu", "statistics")
    on_cpu = dumped(gpu2npu, tmp_path / "cpu", "cpu", "statistics")
    actual, expected = (json.loads(path.read_text())["data"] for path in (on_npu, on_cpu))
    assert list(actual) == list(expected)
    assert {"Functional.conv2d.0.forward", "Functional.conv2d.0.backward", "Module.4.Linear.forward.0"} <= set(actual)
    del actual[REORDERED], expected[REORDERED]
    pairs = list(zip(leaves(actual), leaves(expected), strict=True))
    assert len(pairs) > 30
    for ours, theirs in pairs:
        assert (ours["shape"], ours["dtype"]) == (theirs["shape"], theirs["dtype"])
        known = [name for name in STATISTICS if theirs[name] is not None]  # an integer tensor has no mean
        assert known
        assert [ours[name] for name in known] == pytest.approx([theirs[name] for name in known], 1e-3, 1e-5)
    rows = compared(gpu2npu, on_npu, on_cpu, tmp_path / "comparison")
    assert "Functional.conv2d.0.backward.output.0" in {row["NPU Name"] for row in rows}
    assert {row["Result"] for row in rows} == {"pass"}


def test_tensors_of_a_training_step(gpu2npu, tmp_path):
    on_npu = dumped(gpu2npu, tmp_path / "npu", "npu", "tensor")
    on_cpu = dumped(gpu2npu, tmp_path / "cpu", "cpu", "tensor")
    name = "dump_tensor_data/Functional.linear.0.forward.output.0.pt"
    values = torch.load(on_npu.parent / name)
    assert values.shape == (4, 10)
    torch.testing.assert_close(values.cpu(), torch.load(on_cpu.parent / name), rtol=1e-3, atol=1e-4)
    rows = compared(gpu2npu, on_npu, on_cpu, tmp_path / "comparison")
    measured = [row for row in rows if row["Cosine"] not in ("unsupported", "N/A")]
    assert len(measured) > 30
    assert min(float(row["Cosine"]) for row in measured) > 0.9999
    assert {row["Result"] for row in rows} == {"pass"}
