"""`gpu2npu doctor` as a command: on the emulated machine, and on one without anything."""

import json
import os
import subprocess
import sys
from pathlib import Path

GPU2NPU = Path(sys.executable).with_name("gpu2npu")


def run(*arguments, **environment):
    return subprocess.run(
        [GPU2NPU, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_the_emulated_machine_is_reported_and_lacks_nothing():
    result = run(
        "run", "--npus", "3", "--soc", "Ascend310P3", "--torch-npu", "2.7.1", str(GPU2NPU), "doctor", "--format", "json"
    )
    report = json.loads(result.stdout)
    assert (result.returncode, report["emulated"], report["error"], report["warning"]) == (0, True, 0, 0), result.stdout
    messages = {line["check"]: line["message"] for line in report["lines"]}
    assert messages["npu-smi"] == "3 cards: 310P3"
    assert messages["torch_npu"] == "torch_npu 2.7.1, emulated by gpu2npu"
    assert messages["cann"].startswith("CANN 8.0.0 in ")
    assert messages["kernels"] == "kernels of operators 8.0.0"


def test_an_npu_that_the_emulated_machine_does_not_have():
    result = run("run", "--npus", "2", str(GPU2NPU), "doctor", ASCEND_RT_VISIBLE_DEVICES="4")
    assert result.returncode == 1
    assert "-> unset ASCEND_RT_VISIBLE_DEVICES" in result.stdout


def test_without_an_npu_it_says_what_to_install(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho '[\"3.11.4\", []]'\n")
    python.chmod(0o755)
    result = run("doctor", "--python", str(python), PATH="/nowhere", HOME=str(tmp_path))
    assert result.returncode == 1 and result.stderr == ""
    assert "-> pip install torch==2.14.0 torch-npu==2.14.0" in result.stdout
    wrong = run("doctor", "--python", str(tmp_path / "none"))
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
