"""torchrun with 8 ranks, as a whole machine of NPUs has them."""

import json
import subprocess
from pathlib import Path

import pytest

TRAINING = Path(__file__).parent / "many_ranks.py"


def test_eight_ranks_train_as_one(gpu2npu, tmp_path):
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "8"]
    command = [gpu2npu, "run", "--npus", "8", *torchrun, TRAINING, tmp_path / "losses.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=550, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "losses.json").read_text())
    assert found["devices"] == [f"npu:{rank}" for rank in range(8)]
    assert found["losses"] == pytest.approx(found["alone"], rel=1e-4)
