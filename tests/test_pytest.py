"""The pytest plugin: what it reports of tests on the emulated NPU, and that pytest loads it only if it is chosen."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

GPU2NPU = Path(sys.executable).with_name("gpu2npu")
SUITE = """
import pytest, torch
import torch_npu

def test_on_the_npu():
    assert (torch.ones(3).npu() + 1).sum().item() == 6

def test_on_the_cpu():
    assert torch.ones(3).sum() == 3

@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA is not available")
def test_of_cuda():
    pass

@pytest.mark.skip(reason="slow")
def test_that_is_slow():
    pass

@pytest.mark.npu_hardware
def test_of_a_real_npu():
    assert False

def test_that_falls_back():
    torch.linalg.eigvals(torch.eye(3).npu())

def test_that_the_npu_refuses():
    a = torch.ones(3, dtype=torch.float64).npu()
    a @ a
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_the_report_has_what_each_test_did_on_the_npu(tmp_path, workers):
    (tmp_path / "test_suite.py").write_text(SUITE)
    done = subprocess.run(
        [GPU2NPU, "run", "-m", "pytest", "-q", "-p", "gpu2npu.pytest", "--npu-report", "out/npu.json", *workers],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert (
        "2 of 7 tests ran on the NPU; 2 skipped for hardware; 1 fell back to the CPU; 1 met a known limit"
        in done.stdout
    )
    report = json.loads((tmp_path / "out" / "npu.json").read_text())
    tests = {name.partition("::")[2]: test for name, test in report["tests"].items()}
    assert report["summary"]["passed"] == 3 and report["summary"]["failed"] == 1 and report["summary"]["skipped"] == 3
    assert tests["test_on_the_npu"]["calls"] > 0 and tests["test_on_the_cpu"]["calls"] == 0
    assert tests["test_that_falls_back"]["fallbacks"] == {"aten::_linalg_eigvals": 1}
    assert len(tests["test_that_the_npu_refuses"]["behaviour"]) == 1
    for name, needs in (("of_cuda", True), ("of_a_real_npu", True), ("that_is_slow", False)):
        assert (tests[f"test_{name}"]["outcome"], tests[f"test_{name}"]["needs_hardware"]) == ("skipped", needs)


def test_pytest_does_not_load_it_by_itself(tmp_path):
    (tmp_path / "test_empty.py").write_text("def test(): pass\n")
    command = [sys.executable, "-m", "pytest", "--npu-report", "x.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 4 and "unrecognized arguments" in done.stderr
