"""DeepSpeed: ZeRO finds the NPU by itself, without variables, on two ranks of torchrun."""

import json
import subprocess
from pathlib import Path

import pytest

TRAINING = Path(__file__).parent / "deepspeed_training.py"
LOSSES = [1.2862, 1.1475, 1.0239, 0.9120]  # of stage 0 in float32


def trained(gpu2npu, output, stage, *norms):
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [gpu2npu, "run", "--npus", "2", *torchrun, TRAINING, str(stage), output, *norms]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=output.parent)


@pytest.mark.parametrize(("stage", "norms"), [(0, []), (1, []), (2, []), (3, ["float32"])])
def test_stages_train_alike(gpu2npu, tmp_path, stage, norms):
    output = tmp_path / "losses.json"
    done = trained(gpu2npu, output, stage, *norms)
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())
    assert (found["device"], found["backend"]) == ("npu:0", "hccl")
    assert found["losses"] == pytest.approx(LOSSES, rel=0.02)
    assert found["losses"] == sorted(found["losses"], reverse=True)


def test_stage_3_reduces_float64(gpu2npu, tmp_path):
    """DeepSpeed 0.19 sums the norms of gradients in float64, which HCCL refuses on these chips, on hardware too."""
    done = trained(gpu2npu, tmp_path / "losses.json", 3)
    assert done.returncode
    assert "HCCL allreduce: Unsupported data type at::kDouble" in done.stderr
