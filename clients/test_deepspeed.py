"""DeepSpeed: ZeRO finds the NPU by itself, without variables, on two ranks of torchrun."""

import json
import subprocess
from pathlib import Path

import pytest

TRAINING = Path(__file__).parent / "deepspeed_training.py"
LOSSES = [1.2862, 1.1475, 1.0239, 0.9120]  # of stage 0 in float32


def trained(gpu2npu, output, stage):
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [gpu2npu, "run", "--npus", "2", *torchrun, TRAINING, str(stage), output]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=output.parent)


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_stages_train_alike(gpu2npu, tmp_path, stage):
    """ZeRO sums the norms of gradients by `.double()`, which is float32 on NPUs, with one warning."""
    output = tmp_path / "losses.json"
    done = trained(gpu2npu, output, stage)
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())
    assert (found["device"], found["backend"]) == ("npu:0", "hccl")
    assert found["losses"] == pytest.approx(LOSSES, rel=0.02)
    assert found["losses"] == sorted(found["losses"], reverse=True)
    assert ("Device do not support double dtype now" in done.stderr) == (stage > 0)
